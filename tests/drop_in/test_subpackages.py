"""onnxruntime's subpackages and inner modules: names and values as there, and honest errors for what is missing."""

from __future__ import annotations

import enum
import importlib
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import absent_names
import numpy as np
import onnx
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as their_state
import onnxruntime.datasets
import onnxruntime.quantization
import pytest

import ort_py
import ort_py.backend
import ort_py.capi.onnxruntime_pybind11_state as our_state
import ort_py.datasets
import ort_py.quantization
from ort_py import errors
from ort_py.tools.onnx_model_utils import fix_output_shapes, make_dim_param_fixed, make_input_shape_fixed
from ort_py.tools.remove_initializer_from_input import remove_initializer_from_input
from ort_py.tools.symbolic_shape_infer import SymbolicShapeInference
from ort_py.tools.update_onnx_opset import update_onnx_opset
from tests.drop_in.both_runtimes import expect_agreement

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # onnxruntime's backend imports a module that onnx has deprecated
    import onnxruntime.backend

EXAMPLES = ("logreg_iris.onnx", "mul_1.onnx", "sigmoid.onnx")

ABSENT_FROM_STATE = {
    "SessionObjectInitializer": "a handle inside the binding",
    "get_session_initializer": "gives that handle",
    "opkernel": "a module of the binding's own records of kernels",
    "schemadef": "a module of the binding's own records of operators; onnx.defs has them",
    "pack_fp4_weights_for_cuda_moe_gemm": "prepares weights for one vendor's kernels",
}


def test_low_level_names() -> None:
    """Every name of the C++ binding is there, but for a few that make no sense elsewhere."""
    theirs = {name for name in dir(their_state) if not name.startswith("_")}
    assert {name for name in theirs if not hasattr(our_state, name)} == set(ABSENT_FROM_STATE)


def test_there_is_one_set_of_exception_classes() -> None:
    """Those in the inner module are those ort-py raises."""
    theirs = [name for name, kind in vars(their_state).items() if inspect.isclass(kind) and issubclass(kind, Exception)]
    assert len(theirs) == 15
    assert all(getattr(our_state, name) is getattr(errors, name) for name in theirs)


LOW_LEVEL: dict[str, Callable[[Any], Any]] = {
    "default options": lambda runtime: type(_state(runtime).get_default_session_options()).__name__,
    "hardware": lambda runtime: {device.type.name for device in _state(runtime).get_hardware_devices()} >= {"CPU"},
    "schemas": lambda runtime: len(_state(runtime).get_all_operator_schema()) > 300,
    "compatibility": lambda runtime: _state(runtime).get_model_compatibility_for_ep_devices(
        [device for device in runtime.get_ep_devices() if device.ep_name == "CPUExecutionProvider"], "x"
    ),
    "capsule of bytes": lambda runtime: _state(runtime).is_dlpack_uint8_tensor(np.zeros(2, np.uint8).__dlpack__()),
    "capsule of floats": lambda runtime: _state(runtime).is_dlpack_uint8_tensor(np.zeros(2).__dlpack__()),
    "value": lambda runtime: (
        _state(runtime)
        .OrtValue.ortvalue_from_numpy(np.ones(2), runtime.OrtDevice.make("cpu", 0)._get_c_device())
        .numpy()
    ),
}


@pytest.mark.parametrize("name", LOW_LEVEL)
def test_low_level_functions_answer_alike(name: str) -> None:
    """Functions of the inner module that the Python classes do not have."""
    expect_agreement(LOW_LEVEL[name])


def test_classes_are_caught_by_the_same_builtin_clauses() -> None:
    """None of the fifteen is a RuntimeError, ValueError or TypeError by itself."""
    for name in (name for name, kind in vars(their_state).items() if inspect.isclass(kind)):
        theirs = getattr(their_state, name)
        if issubclass(theirs, Exception):
            for builtin in (RuntimeError, ValueError, TypeError, AttributeError):
                assert issubclass(getattr(our_state, name), builtin) == issubclass(theirs, builtin)


def test_a_program_may_raise_them() -> None:
    """With a text of its own, which is all the message says."""
    expect_agreement(lambda runtime: str(_state(runtime).Fail("mine")))
    expect_agreement(lambda runtime: _raise(_state(runtime).InvalidArgument("mine")))


def _state(runtime: Any) -> Any:
    return importlib.import_module(f"{runtime.__name__}.capi.onnxruntime_pybind11_state")


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "name",
    [
        "ArenaExtendStrategy",
        "OrtCompileApiFlags",
        "OrtCompiledModelCompatibility",
        "OrtDeviceEpIncompatibilityReason",
    ],
)
def test_low_level_enumerations(name: str) -> None:
    """Members have onnxruntime's names and numbers."""
    theirs = {member: int(value) for member, value in getattr(their_state, name).__members__.items()}
    assert {member: int(value) for member, value in getattr(our_state, name).__members__.items()} == theirs


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_models(name: str) -> None:
    """The same inputs, outputs and operators as onnxruntime's examples, and both runtimes agree on ours."""
    path = ort_py.datasets.get_example(name)
    ours, theirs = onnx.load(path), onnx.load(onnxruntime.datasets.get_example(name))
    assert ours.graph.input == theirs.graph.input
    assert [node.op_type for node in ours.graph.node] == [node.op_type for node in theirs.graph.node]
    sessions = [kind(path, providers=["CPUExecutionProvider"]) for kind in _session_kinds()]
    assert [str(value) for value in sessions[0].get_outputs()] == [str(value) for value in sessions[1].get_outputs()]
    (argument,) = sessions[0].get_inputs()
    feed = {argument.name: np.random.default_rng(3).random(argument.shape, np.float32)}
    results = [session.run(None, feed) for session in sessions]
    for found, expected in zip(*results, strict=True):
        if isinstance(expected, list):
            assert [sorted(row) for row in found] == [sorted(row) for row in expected]
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_absent_example() -> None:
    expect_agreement(lambda runtime: importlib.import_module(f"{runtime.__name__}.datasets").get_example("absent.onnx"))


@pytest.mark.parametrize("form", ["path", "bytes", "proto", "session", "rep"])
def test_backend_prepares_every_form(form: str) -> None:
    """Path, bytes, message, session and a prepared model."""

    def case(runtime: Any) -> Any:
        backend = importlib.import_module(f"{runtime.__name__}.backend")
        path = ort_py.datasets.get_example("mul_1.onnx")
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        model = {
            "path": path,
            "bytes": Path(path).read_bytes(),
            "proto": onnx.load(path),
            "session": session,
            "rep": backend.prepare(session),
        }[form]
        return backend.prepare(model).run(np.ones((3, 2), np.float32))

    expect_agreement(case)


@pytest.mark.parametrize("device", ["CPU", "cpu", "GPU", "CUDA"])
def test_backend_devices(device: str) -> None:
    """Supported devices are listed, and other devices are refused."""

    def case(runtime: Any) -> Any:
        backend = importlib.import_module(f"{runtime.__name__}.backend")
        return backend.supports_device(device), backend.is_compatible(None, device)

    def prepared(runtime: Any) -> Any:
        backend = importlib.import_module(f"{runtime.__name__}.backend")
        return type(backend.prepare(ort_py.datasets.get_example("mul_1.onnx"), device)).__name__

    expect_agreement(case)
    expect_agreement(prepared)


@pytest.mark.parametrize(
    "options",
    [{"intra_op_num_threads": 1}, {"enable_profiling": True}, {"optimized_model_filepath": "x"}, {"absent": 1}],
    ids=str,
)
def test_backend_options(options: dict[str, Any]) -> None:
    """Harmless ones are taken, those that write files refused, unknown ones ignored."""

    def case(runtime: Any) -> Any:
        backend = importlib.import_module(f"{runtime.__name__}.backend")
        return backend.run(ort_py.datasets.get_example("mul_1.onnx"), [np.ones((3, 2), np.float32)], **options)

    expect_agreement(case)


def test_backend_runs_no_single_nodes() -> None:
    expect_agreement(
        lambda runtime: importlib.import_module(f"{runtime.__name__}.backend.backend").OnnxRuntimeBackend.run_node(
            None, []
        )
    )


def test_quantization_names() -> None:
    """Every class and function that onnxruntime's package exports can be imported."""
    theirs = {name for name, value in vars(onnxruntime.quantization).items() if callable(value)}
    assert {name for name in theirs if not hasattr(ort_py.quantization, name)} == set()


@pytest.mark.parametrize("name", ["QuantType", "QuantFormat", "CalibrationMethod", "QuantizationMode"])
def test_quantization_enumerations(name: str) -> None:
    """The same members, texts and element types."""
    ours: type[enum.Enum] = getattr(ort_py.quantization, name)
    theirs: type[enum.Enum] = getattr(onnxruntime.quantization, name)
    assert {member.name: (member.value, str(member)) for member in ours} == {
        member.name: (member.value, str(member)) for member in theirs
    }
    if name == "QuantType":
        assert [member.tensor_type for member in ours] == [member.tensor_type for member in theirs]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["StaticQuantConfig", "DynamicQuantConfig"])
def test_quantization_settings(name: str) -> None:
    """The same parameters, and the same attributes for the same arguments."""
    ours, theirs = getattr(ort_py.quantization, name), getattr(onnxruntime.quantization, name)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    arguments = (None,) if name.startswith("Static") else ()
    assert {key: str(value) for key, value in vars(ours(*arguments)).items()} == {
        key: str(value) for key, value in vars(theirs(*arguments)).items()
    }


@pytest.mark.parametrize("name", ["quantize_dynamic", "quantize_static", "quant_pre_process", "QDQQuantizer"])
def test_what_is_missing_says_so(name: str) -> None:
    """A call names the function and says what to use instead; NotImplementedError catches it."""
    with pytest.raises(NotImplementedError, match=name) as caught:
        getattr(ort_py.quantization, name)("in.onnx", "out.onnx")
    assert isinstance(caught.value, ort_py.NotYetError)
    assert caught.value.fix


def test_the_table_of_absent_names_is_up_to_date() -> None:
    """It holds what the installed onnxruntime defines and ort-py does not."""
    assert absent_names.TABLE.read_text(encoding="utf-8") == absent_names.rendered(absent_names.absent())


def test_every_absent_name_can_be_imported() -> None:
    """From the module where onnxruntime has it."""
    for module, names in absent_names.absent().items():
        ours = importlib.import_module(f"ort_py.{module}")
        imported = [name for group in names.imported.values() for name in group]
        for name in (*names.classes, *names.functions, *names.values, *names.enums, *names.tables, *imported):
            assert hasattr(ours, name), f"{module}.{name}"


@pytest.mark.parametrize("writer", ["ort_py", "onnxruntime"])
def test_ranges_are_saved_in_the_same_form(writer: str, tmp_path: Path) -> None:
    tools = importlib.import_module(f"{writer}.quantization")
    data = tools.TensorsData(
        tools.CalibrationMethod.MinMax, {"x": (np.array([-1], np.float32), np.array([2.5], np.float32))}
    )
    tools.save_tensors_data(data, tmp_path / "ranges.json")
    for reader in (ort_py.quantization, onnxruntime.quantization):
        found = reader.load_tensors_data(tmp_path / "ranges.json")
        assert found.calibration_method.name == "MinMax"
        assert [value.tolist() for value in found["x"].range_value] == [[-1.0], [2.5]]


def test_a_dimension_is_made_fixed() -> None:
    """Symbols become numbers, and outputs follow."""
    model = _model("agraph (float[N, 4] x) => (float[N, 8] y) { y = Concat <axis = 1> (x, x) }")
    make_dim_param_fixed(model.graph, "N", 3)
    fix_output_shapes(model)
    assert _shape(model.graph.output[0]) == [3, 8]


def test_the_shape_of_an_input_is_made_fixed() -> None:
    """Its symbols get the numbers wherever they stand."""
    model = _model("agraph (float[N, M] x, float[N] z) => (float[K] y) { y = Flatten <axis = 0> (x) }")
    make_input_shape_fixed(model.graph, "x", [2, 5])
    assert [_shape(value) for value in model.graph.input] == [[2, 5], [2]]


@pytest.mark.parametrize(("name", "shape"), [("absent", [1]), ("x", [1]), ("x", [2, 5])], ids=str)
def test_wrong_fixed_shapes_are_refused(name: str, shape: list[int]) -> None:
    """An unknown input, another rank, another size."""
    model = _model("agraph (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }")
    with pytest.raises(ValueError, match="input"):
        make_input_shape_fixed(model.graph, name, shape)


def test_initializers_are_removed_from_the_inputs() -> None:
    """They are constants then; a second time nothing changes."""
    model = _model("agraph (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    assert remove_initializer_from_input(model)
    assert [value.name for value in model.graph.input] == ["x"]
    assert not remove_initializer_from_input(model)


def test_the_opset_is_updated(tmp_path: Path) -> None:
    """The file is written, and the model returned."""
    model = _model("agraph (float[2] x) => (float[2] y) { y = Relu (x) }", opset=11)
    onnx.save(model, tmp_path / "old.onnx")
    found = update_onnx_opset(tmp_path / "old.onnx", 17, tmp_path / "new.onnx")
    assert found.opset_import[0].version == onnx.load(tmp_path / "new.onnx").opset_import[0].version == 17


def test_symbolic_shapes_are_inferred() -> None:
    """Symbols are kept where dimensions follow from each other."""
    model = _model("agraph (float[N, 4] x) => (y) { h = Relu (x) y = Transpose (h) }")
    found = SymbolicShapeInference.infer_shapes(model)
    assert _shape(found.graph.output[0]) == [4, "N"]


def _session_kinds() -> tuple[Any, Any]:
    return ort_py.InferenceSession, onnxruntime.InferenceSession


def _model(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')


def _shape(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
