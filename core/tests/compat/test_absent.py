"""Names of onnxruntime that ort-py lacks: they can be imported, and are honest when they are used."""

from __future__ import annotations

import importlib

import pytest

from ort_py.errors import NotYetError


def test_a_module_that_only_onnxruntime_has() -> None:
    """It is made up, with the classes that onnxruntime defines there."""
    module = importlib.import_module("ort_py.quantization.onnx_quantizer")
    with pytest.raises(NotYetError, match=r"quantization\.onnx_quantizer\.ONNXQuantizer"):
        module.ONNXQuantizer("model.onnx")


def test_a_class_may_be_a_base() -> None:
    """One object under one name, which a program may subclass at its top."""
    module = importlib.import_module("ort_py.transformers.fusion_base")
    assert module.Fusion is module.Fusion
    assert issubclass(type("Mine", (module.Fusion,), {}), module.Fusion)


def test_a_function_of_a_module_that_is_there() -> None:
    """It can be imported beside those that work, and raises with the fix when called."""
    module = importlib.import_module("ort_py.quantization.quant_utils")
    with pytest.raises(NotYetError, match=r"what to do: Quantise with onnxruntime"):
        module.compute_scale_zp(0.0, 1.0, 0, 255)


def test_constants_have_their_values() -> None:
    assert importlib.import_module("ort_py.quantization.quant_utils").DEQUANT_OP_NAME == "DequantizeLinear"


def test_registries_have_their_keys() -> None:
    """Programs list the operators that can be quantised."""
    registry = importlib.import_module("ort_py.quantization.registry").QDQRegistry
    assert {"Conv", "MatMul"} <= set(registry)


def test_enumerations_have_their_members() -> None:
    kind = importlib.import_module("ort_py.transformers.fusion_utils").NumpyHelper
    assert isinstance(kind, type)
    assert importlib.import_module("ort_py.tools.ort_format_model.types").FbsTypeInfo.__name__ == "FbsTypeInfo"


def test_a_name_imported_from_elsewhere_is_that_one() -> None:
    """A name that exists in ort-py is not replaced by a stand-in."""
    module = importlib.import_module("ort_py.quantization.onnx_quantizer")
    assert module.TensorData is importlib.import_module("ort_py.quantization.calibrate").TensorData


def test_a_name_that_onnxruntime_lacks_too() -> None:
    """AttributeError, so that a program which looks finds that it is not there."""
    module = importlib.import_module("ort_py.quantization.onnx_quantizer")
    with pytest.raises(AttributeError, match="has no attribute 'absolutely_not'"):
        _ = module.absolutely_not


def test_a_module_that_onnxruntime_lacks_too() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("ort_py.quantization.absolutely_not")
