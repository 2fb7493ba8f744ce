"""Types of a session's inputs and outputs by their names in NumPy, ONNX and torch."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from ort_py.errors import OptionError
from ort_py.transformers.io_binding_helper import TypeHelper


class Session:
    """Describes two inputs and an output."""

    def get_inputs(self) -> list[SimpleNamespace]:
        """A number and a truth value."""
        return [SimpleNamespace(name="x", type="tensor(float)"), SimpleNamespace(name="m", type="tensor(bool)")]

    def get_outputs(self) -> list[SimpleNamespace]:
        """A half."""
        return [SimpleNamespace(name="y", type="tensor(bfloat16)")]


SESSION: Any = Session()


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that has torch's types and nothing else."""
    module = ModuleType("torch")
    for name in ("float32", "float64", "bfloat16", "bool", "int64"):
        setattr(module, name, f"torch.{name}")
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_types_by_name() -> None:
    assert TypeHelper.get_input_type(SESSION, "m") == "tensor(bool)"
    assert TypeHelper.get_output_type(SESSION, "y") == "tensor(bfloat16)"


def test_an_unknown_name() -> None:
    """A ValueError that lists those there are."""
    with pytest.raises(OptionError, match=r"no input 'z'[\s\S]*x, m"):
        TypeHelper.get_input_type(SESSION, "z")


def test_numpy_types() -> None:
    """Scalar types, by name of input or output."""
    found = TypeHelper.get_io_numpy_type_map(SESSION)
    assert found == {"x": np.float32, "m": bool, "y": ml_dtypes.bfloat16}


def test_onnx_types() -> None:
    found = TypeHelper.get_io_onnx_type_map(SESSION)
    assert found == {"x": TensorProto.FLOAT, "m": TensorProto.BOOL, "y": TensorProto.BFLOAT16}


def test_torch_types(torch: ModuleType) -> None:
    found = TypeHelper.get_io_torch_type_map(SESSION)
    assert found == {"x": "torch.float32", "m": "torch.bool", "y": "torch.bfloat16"}
    assert TypeHelper.numpy_type_to_torch_type(np.float64) == "torch.float64"
    assert TypeHelper.torch_type_to_numpy_type("torch.float64") is np.float64
    assert TypeHelper.torch_type_to_numpy_type("torch.int64") is np.int64


def test_a_type_arrays_do_not_have() -> None:
    """A ValueError that lists those they have."""
    with pytest.raises(ValueError, match=r"The tensor type 'seq\(tensor\(float\)\)'"):
        TypeHelper.ort_type_to_numpy_type("seq(tensor(float))")


def test_a_type_torch_does_not_have(torch: ModuleType) -> None:
    with pytest.raises(TypeError, match="torch has no type"):
        TypeHelper.numpy_type_to_torch_type(np.dtype("U3"))
