"""`ort-py compile` writes packages, here and elsewhere: what is in them, and which models are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from ort_py_kit.tolerances import assert_close
from providers.coreml.tests.mil_interpreter import InterpretedModel
from providers.coreml.tests.models import model, node

W = np.random.default_rng(5).normal(0, 1, (4, 6)).astype(np.float32)
X = np.random.default_rng(6).normal(0, 1, (3, 4)).astype(np.float32)


def _write(tmp_path: Path, data: bytes, *more: str) -> tuple[str, Path]:
    """Return what the command says is wrong, and the path of the package."""
    (tmp_path / "m.onnx").write_bytes(data)
    target = tmp_path / "m.mlpackage"
    given = more or ("--provider", "coreml")
    command = [sys.executable, "-m", "ort_py.cli", "compile", str(tmp_path / "m.onnx"), "-o", str(target), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else "", target


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
