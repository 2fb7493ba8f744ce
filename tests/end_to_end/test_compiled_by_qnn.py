"""Compiled forms in the core's cache and in compiled models, with a plug-in whose compiler needs no device of its kind.

onnxruntime-qnn's libraries for x86-64 compile for Qualcomm's NPUs, and emulate one. Skipped where it is not installed:
`tests/packaging` makes an environment that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_py as ort
from ort_py.cache.writing import process_queue
from ort_py.cli.main import main
from ort_py_kit.graphs import model_from_text

pytest.importorskip("onnxruntime_qnn", reason="onnxruntime-qnn is not installed")
artifacts = pytest.importorskip("ort_py_onnxruntime.artifacts", reason="the bridge to onnxruntime is not installed")
provider = pytest.importorskip("ort_py_onnxruntime.provider", reason="the bridge to onnxruntime is not installed")

pytestmark = pytest.mark.nightly

QNN = "QNNExecutionProvider"
NPU = {"backend_type": "htp"}
X = np.linspace(-1, 1, 64, dtype=np.float32)[None]


def _model() -> bytes:
    model = model_from_text("g (float[1, 64] x) => (float[1, 64] y) { a = MatMul(x, w) y = Relu(a) }")
    model.graph.initializer.append(numpy_helper.from_array(2 * np.eye(64, dtype=np.float32), "w"))
    return onnx.ModelProto.SerializeToString(model)


def _run(session: ort.InferenceSession) -> None:
    with session:
        assert session.placement.counts() == {QNN: 2}, session.placement
        (y,) = session.run(None, {"x": X})
    np.testing.assert_allclose(y, np.maximum(2 * X, 0), atol=2e-3)  # it computes in float16
    process_queue().wait()  # until what is kept is on disk


def _session(folder: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.pin_cpu, options.cost_model, options.cache_dir = True, "always", str(folder)
    return ort.InferenceSession(_model(), options, providers=[(QNN, NPU), "CPUExecutionProvider"])


@pytest.fixture(autouse=True)
def _caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORT_PY_CACHE", raising=False)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators of each model that became a session of onnxruntime."""
    found: list[str] = []
    for name in ("make_kept_session", "make_session"):
        make = getattr(provider, name)

        def noting(model: Any, *rest: Any, make: Any = make) -> Any:
            found.append(" ".join(node.op_type for node in model.proto.graph.node))
            return make(model, *rest)

        monkeypatch.setattr(provider, name, noting)
    return found


def test_the_cache_keeps_what_was_compiled(tmp_path: Path, made: Sequence[str]) -> None:
    """The next session gives onnxruntime what its provider made, and no node of the model."""
    _run(_session(tmp_path))
    assert made == ["MatMul Relu"]
    _run(_session(tmp_path))
    assert made[1:] == ["EPContext"]


def test_another_version_compiles_anew(tmp_path: Path, made: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _run(_session(tmp_path))
    monkeypatch.setattr(artifacts, "_version_of", lambda name: "9.9")
    _run(_session(tmp_path))
    assert made == ["MatMul Relu", "MatMul Relu"]


def test_a_compiled_model(tmp_path: Path, made: Sequence[str]) -> None:
    """`ort-py compile --provider` writes a file that starts without compiling."""
    model, compiled = tmp_path / "model.onnx", tmp_path / "model.ortpy"
    model.write_bytes(_model())
    command = ["compile", str(model), "-o", str(compiled), "--provider", QNN, "--ep-option", QNN, "backend_type=htp"]
    assert main(command) == 0
    before = len(made)
    _run(ort.InferenceSession(str(compiled)))
    assert made[before:] == ["EPContext"]


def test_a_device_that_is_not_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model is compiled for a chip by its number: Snapdragon 8 Gen 3's."""
    model, compiled = tmp_path / "model.onnx", tmp_path / "model.ortpy"
    model.write_bytes(_model())
    options = [text for one in ("backend_type=htp", "soc_model=57") for text in ("--ep-option", QNN, one)]
    assert main(["compile", str(model), "-o", str(compiled), "--no-run", "--provider", QNN, *options]) == 0
    assert "artifact" in capsys.readouterr().out


def test_without_an_npu_it_says_what_is_missing() -> None:
    """The plug-in offers the processor as its device, and finds no library for it unless one is named."""
    options = ort.SessionOptions()
    options.pin_cpu = True
    with ort.InferenceSession(_model(), options, providers=[QNN, "CPUExecutionProvider"]) as session:
        assert session.placement.counts() == {"CPUExecutionProvider": 2}
        texts = {str(refusal) for node in session.placement for refusal in node.refusals}
    assert any("Could not determine default backend path" in text for text in texts), texts
