"""`ort-py compile` writes packages, here and elsewhere: what is in them, and which models are refused."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from ort_py_kit.tolerances import assert_close
from providers.coreml.tests.mil_interpreter import InterpretedModel
from providers.coreml.tests.models import model, node

W = np.random.default_rng(5).normal(0, 1, (4, 6)).astype(np.float32)
X = np.random.default_rng(6).normal(0, 1, (3, 4)).astype(np.float32)
_COMMAND: Callable[[list[str]], int] = next(iter(entry_points(group="console_scripts", name="ort-py"))).load()


def _write(tmp_path: Path, data: bytes, *more: str) -> tuple[str, Path]:
    """Return what the installed command says is wrong, and the path of the package. It runs in this process."""
    target, said = tmp_path / "m.mlpackage", io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = _COMMAND(_arguments(tmp_path, data, target, more or ("--provider", "coreml")))
    return said.getvalue() if code else "", target


def _arguments(tmp_path: Path, data: bytes, target: Path, more: Sequence[str]) -> list[str]:
    (tmp_path / "m.onnx").write_bytes(data)
    return ["compile", str(tmp_path / "m.onnx"), "-o", str(target), *more]


def test_the_command_writes_a_package_in_a_process_of_its_own(tmp_path: Path) -> None:
    target = tmp_path / "m.mlpackage"
    arguments = _arguments(tmp_path, model([node("Neg", "x")], {"x": X}), target, ("--provider", "coreml"))
    subprocess.run([sys.executable, "-m", "ort_py.cli", *arguments], check=True)
    np.testing.assert_array_equal(InterpretedModel(target).predict({"x": X})["y"], -X)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_model_is_written(dynamic: bool, tmp_path: Path) -> None:
    """Its inputs and outputs have the names of the model, in letters that Core ML takes."""
    nodes = [node("MatMul", "data.in w", "a"), node("Relu", "a", "b"), node("Exp", "b", "y")]
    data = model(nodes, {"data.in": X}, {"w": W}, ("y", "a"), dynamic=frozenset({0}) if dynamic else False)
    wrong, target = _write(tmp_path, data)
    assert not wrong
    found = InterpretedModel(target).predict({"data_in": X})
    wanted = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"data.in": X})
    assert_close([found["y"], found["a"]], list(wanted))


def test_options_of_the_provider_count(tmp_path: Path) -> None:
    data = model([node("Neg", "x")], {"x": X}, dynamic=frozenset({0}))
    options = ["--provider", "CoreMLExecutionProvider", "--ep-option", "CoreMLExecutionProvider", "max_dimension=77"]
    wrong, target = _write(tmp_path, data, *options)
    assert not wrong
    import coremltools

    (made,) = coremltools.models.MLModel(str(target), skip_model_load=True).get_spec().description.input
    (sizes, _) = made.type.multiArrayType.shapeRange.sizeRanges
    assert (sizes.lowerBound, sizes.upperBound) == (1, 77)


def _decoder(batch: int | None = 1) -> bytes:
    """A step of a decoder whose cache of the last rows is among its inputs and outputs."""
    nodes = [
        node("MatMul", "x w", "new"),
        node("Slice", "past.0.key begin end axis", "later"),
        node("Concat", "later new", "present.0.key", axis=1),
        node("MatMul", "new m", "query"),
        node("Transpose", "present.0.key", "turned", perm=[0, 2, 1]),
        node("MatMul", "query turned", "scores"),
        node("Softmax", "scores", "p"),
        node("MatMul", "p present.0.key", "y"),
    ]
    constants: dict[str, Any] = {
        "w": W, "m": np.random.default_rng(8).normal(0, 0.3, (6, 6)).astype(np.float32),
        "begin": np.array([1]), "end": np.array([9]), "axis": np.array([1]),
    }  # fmt: skip
    feeds: dict[str, Any] = {"x": X[None, :1], "past.0.key": np.zeros((1, 4, 6), np.float32)}
    dynamic = False if batch else frozenset({0})
    return model(nodes, feeds, constants, ("y", "present.0.key"), dynamic=dynamic)


def test_a_cache_becomes_a_state(tmp_path: Path) -> None:
    """Each prediction begins with the rows that the one before it left. Core ML's states are float16."""
    data = _decoder()
    options = ("--ep-option", "CoreMLExecutionProvider")
    wrong, target = _write(
        tmp_path, data, "--provider", "CoreMLExecutionProvider",
        *options, "deployment_target=macOS15", *options, "states=past.*=present.*",
    )  # fmt: skip
    assert not wrong
    import coremltools

    description = coremltools.models.MLModel(str(target), skip_model_load=True).get_spec().description
    assert [one.name for one in description.input] == ["x"]
    assert [one.name for one in description.output] == ["y"]
    (state,) = description.state
    assert (state.name, list(state.type.stateType.arrayType.shape)) == ("past_0_key", [1, 4, 6])
    package, session = InterpretedModel(target), onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    kept, past = package.make_state(), np.zeros((1, 4, 6), np.float32)
    rng = np.random.default_rng(9)
    for _ in range(6):
        x = rng.normal(0, 1, (1, 1, 4)).astype(np.float32)
        wanted, past = (np.asarray(one) for one in session.run(None, {"x": x, "past.0.key": past}))
        past = past.astype(np.float16).astype(np.float32)
        np.testing.assert_allclose(package.predict({"x": x}, kept)["y"], wanted, rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(kept["past_0_key"], past, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("batch", "options", "reason"),
    [
        (1, ["states=past.*=present.*"], "Core ML has states from macOS 15 on"),
        (1, ["deployment_target=macOS15", "states=past"], "it is no pair of names"),
        (1, ["deployment_target=macOS15", "states=cache.*=present.*"], "what is written has no input 'cache.*'"),
        (1, ["deployment_target=macOS15", "states=past.*=later.*"], "there is no output 'later.0.key'"),
        (1, ["deployment_target=macOS15", "states=past.*=y*"], "there is no output 'y0.key'"),
        (None, ["deployment_target=macOS15", "states=past.*=present.*"], "Core ML's states have fixed sizes"),
    ],
)
def test_values_that_are_no_states(batch: int | None, options: list[str], reason: str, tmp_path: Path) -> None:
    """The error says why, and nothing is written."""
    given = [word for one in options for word in ("--ep-option", "CoreMLExecutionProvider", one)]
    wrong, target = _write(tmp_path, _decoder(batch), "--provider", "CoreMLExecutionProvider", *given)
    assert reason in wrong
    assert not target.exists()


@pytest.mark.parametrize(
    ("nodes", "outputs", "reason"),
    [
        (["MatMul x w a", "CumSum a axis b", "Neg b y"], ("y",), "CumSum: the Core ML provider does not support"),
        (["Neg x y", "Neg w z"], ("y", "z"), "all its inputs are constants, and Core ML has no constant outputs"),
        (["Neg x y", "Neg z0 z"], ("y", "z"), "it would fall into 2 regions"),
    ],
)
def test_models_that_are_not_one_region(
    nodes: list[str], outputs: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    """The error names what is left, and nothing is written."""
    made = [node(name, " ".join(names[:-1]), names[-1]) for name, *names in map(str.split, nodes)]
    feeds: dict[str, Any] = {"x": X} | ({"z0": X} if "z0" in "".join(nodes) else {})
    data = model(made, feeds, {"w": W, "axis": np.array(0)}, outputs)
    wrong, target = _write(tmp_path, data)
    assert reason in wrong
    assert not target.exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m.onnx"]


def test_a_package_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "m.mlpackage").mkdir()
    wrong, target = _write(tmp_path, model([node("Neg", "x")], {"x": X}))
    assert "exists already" in wrong
    assert not list(target.iterdir())


def _pair() -> bytes:
    """Two inputs that share the name of an axis, and one of known sizes."""
    nodes = [node("Add", "x y", "a"), node("MatMul", "a w", "b"), node("Add", "b z", "r")]
    feeds = {"x": X, "y": X, "z": np.ones((1, 6), np.float32)}
    proto = onnx.load_from_string(model(nodes, feeds, {"w": W}, ("r",)))
    for value in proto.graph.input[:2]:
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    return proto.SerializeToString()


def _write_shapes(tmp_path: Path, data: bytes, *options: str) -> tuple[str, Path]:
    given = [word for one in options for word in ("--ep-option", "CoreMLExecutionProvider", one)]
    return _write(tmp_path, data, "--provider", "CoreMLExecutionProvider", *given)


def _listed(target: Path) -> dict[str, list[list[int]]]:
    """Shapes of each input of a package: its list, or the only one. No range may leave more open."""
    import coremltools

    found = {}
    for one in coremltools.models.MLModel(str(target), skip_model_load=True).get_spec().description.input:
        array = one.type.multiArrayType
        assert all(sizes.lowerBound == sizes.upperBound for sizes in array.shapeRange.sizeRanges)
        found[one.name] = [list(shape.shape) for shape in array.enumeratedShapes.shapes] or [list(array.shape)]
    return found


def test_a_package_takes_a_list_of_shapes(tmp_path: Path) -> None:
    data = model([node("MatMul", "x w", "a"), node("Relu", "a")], {"x": X}, {"w": W}, dynamic=frozenset({0}))
    wrong, target = _write_shapes(tmp_path, data, "shapes=x:3x4;x:7x4;x:5x4")
    assert not wrong
    assert _listed(target) == {"x": [[3, 4], [7, 4], [5, 4]]}
    for rows in (3, 5, 7):
        x = np.random.default_rng(rows).normal(0, 1, (rows, 4)).astype(np.float32)
        np.testing.assert_allclose(InterpretedModel(target).predict({"x": x})["y"], np.maximum(x @ W, 0), rtol=1e-5)


def test_a_single_shape_is_fixed(tmp_path: Path) -> None:
    data = model([node("MatMul", "x w")], {"x": X}, {"w": W}, dynamic=frozenset({0}))
    wrong, target = _write_shapes(tmp_path, data, "shapes=x:9x4")
    assert not wrong
    assert _listed(target) == {"x": [[9, 4]]}


def test_lists_of_several_inputs_belong_together(tmp_path: Path) -> None:
    wrong, target = _write_shapes(
        tmp_path, _pair(), "deployment_target=macOS15", "shapes=x:2x4,y:2x4;x:8x4,y:8x4"
    )  # fmt: skip
    assert not wrong
    assert _listed(target) == {"x": [[2, 4], [8, 4]], "y": [[2, 4], [8, 4]], "z": [[1, 6]]}
    x, y = np.random.default_rng(1).normal(0, 1, (2, 8, 4)).astype(np.float32)
    z = np.ones((1, 6), np.float32)
    np.testing.assert_allclose(
        InterpretedModel(target).predict({"x": x, "y": y, "z": z})["r"], (x + y) @ W + z, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["shapes=x"], "shapes has 'x'."),
        (["shapes=x:3x"], "it is no name with a shape"),
        (["shapes=x:3x4,y:3x4;"], "it is no name with a shape"),
        (["shapes=x:-3x4,y:3x4"], "it is no name with a shape"),
        (["shapes=x:3x4,x:5x4"], "two shapes of 'x'"),
        (["shapes=x:3x4,y:3x4;y:3x4,x:3x4"], "twice"),
        (["shapes=" + ";".join(f"x:{rows}x4,y:{rows}x4" for rows in range(1, 130))], "Core ML takes up to 128"),
        (["shapes=k:3x4,x:3x4,y:3x4"], "no input 'k'"),
        (["shapes=x:3x4"], "no shape of 'y', whose sizes are not all known"),
        (["shapes=x:3x4x1,y:3x4"], "it has 2 axes"),
        (["shapes=x:3x5,y:3x4"], "an axis has the size 4 in the model"),
        (["shapes=x:3x4,y:3x4,z:2x6"], "an axis has the size 1 in the model"),
        (["shapes=x:3x4,y:5x4"], "'rows' is 3 elsewhere in this set"),
        (["shapes=x:0x4,y:0x4"], "0 is no size of Core ML"),
        (["shapes=x:4294967296x4,y:4294967296x4"], "4294967296 is no size of Core ML"),
        (["shapes=x:3x4,y:3x4;x:5x4,y:5x4"], "set deployment_target to macOS15"),
    ],
)
def test_shapes_that_a_package_cannot_have(options: list[str], reason: str, tmp_path: Path) -> None:
    """The error says why, and nothing is written."""
    wrong, target = _write_shapes(tmp_path, _pair(), *options)
    assert reason in " ".join(wrong.split())
    assert not target.exists()
