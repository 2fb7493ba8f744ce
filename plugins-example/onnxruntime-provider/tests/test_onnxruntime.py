"""Regions run in onnxruntime, only where somebody asks for it, and without copies of weights."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_py as ort
import ort_py_onnxruntime
from ort_py.errors import OptionError
from ort_py_kit.graphs import model_from_text
from ort_py_onnxruntime.plugin import NAME, OnnxruntimeFactory

WEIGHT = np.random.default_rng(0).standard_normal((64, 64), np.float32)
X = np.random.default_rng(1).standard_normal((3, 64), np.float32)


def _model() -> bytes:
    model = model_from_text("g (float[N, 64] x) => (float[N, 64] y) { a = MatMul(x, w) y = Relu(a) }")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    content: bytes = model.SerializeToString()
    return content


def _session(model: bytes, **options: Any) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.pin_cpu = True
    return ort.InferenceSession(model, settings, providers=[(NAME, options)])


def test_a_region_runs_in_onnxruntime() -> None:
    """With weights that are not in the model it gets."""
    with _session(_model()) as session:
        assert session.placement.counts() == {NAME: 2}
        (y,) = session.run(None, {"x": X})
    np.testing.assert_allclose(y, np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-4)


def test_it_is_never_chosen_by_itself() -> None:
    """It is usable, behind all others; sessions that name no provider do without."""
    assert ort.get_available_providers()[-1] == NAME
    with ort.InferenceSession(_model()) as session:
        assert NAME not in session.get_providers()
        assert NAME not in session.placement.counts()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"providers": "NoSuchExecutionProvider"}, "has no NoSuchExecutionProvider"),
        ({"provider_options": "{}"}, "not a list of objects"),
        ({"provider_options": "[{}, {}]"}, "not a list of objects"),
        ({"provider_options": "no JSON"}, "not a list of objects"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    """Nothing else is used silently in their place."""
    with pytest.raises(OptionError, match=message):
        _session(_model(), **options)


def test_options_reach_onnxruntime() -> None:
    """Also as a list of objects."""
    with _session(_model(), providers="CPUExecutionProvider", provider_options='[{"use_arena": "0"}]') as session:
        assert session.run(None, {"x": X})[0].shape == (3, 64)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("g (bfloat16[2] x) => (bfloat16[2] y) { y = Abs(x) }", "is not handed over"),
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "is not handed over"),
    ],
)
def test_what_is_left_to_others(model: str, reason: str) -> None:
    """With the reason in the placement; the CPU provider runs it."""
    with _session(model_from_text(model).SerializeToString()) as session:
        texts = [str(refusal) for node in session.placement for refusal in node.refusals]
    assert any(reason in text for text in texts), texts


def test_models_of_newer_opsets_run() -> None:
    """Operators that did not change are the same in an opset that this onnxruntime does not know."""
    model = onnx.ModelProto.FromString(_model())
    model.opset_import[0].version = onnx.defs.onnx_opset_version()
    model.ir_version = onnx.IR_VERSION
    with _session(model.SerializeToString()) as session:
        assert session.placement.counts() == {NAME: 2}


def test_it_does_not_call_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `import onnxruntime` gives ort-py, it is unavailable."""
    origin = Path(str(ort.__file__)).parent / "compat" / "shim" / "onnxruntime" / "__init__.py"
    found = importlib.util.spec_from_file_location("onnxruntime", origin)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    assert "gives ort-py" in OnnxruntimeFactory().probe().reason


def test_without_onnxruntime_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = OnnxruntimeFactory().probe()
    assert not answer
    assert "pip install onnxruntime" in answer.fix


def test_listing_it_does_not_import_onnxruntime() -> None:
    folder = str(Path(ort_py_onnxruntime.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {folder!r}); import ort_py_onnxruntime.plugin as plugin; "
        "plugin.OnnxruntimeFactory().probe(); sys.exit('onnxruntime' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
