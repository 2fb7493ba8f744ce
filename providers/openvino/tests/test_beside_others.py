"""OpenVINO in sessions that leave the choice of providers to ort-py, alone and where oneDNN is installed too."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import ort_py
from providers.openvino.tests.models import NAME, parsed, runners

NET = """g (float[n, 256] x, float[256, 256] w) => (float[n, 256] y) { a = MatMul(x, w) y = Tanh(a) }"""
FEEDS = {"x": np.full((64, 256), 0.01, np.float32), "w": np.eye(256, dtype=np.float32)}
_ONEDNN = find_spec("ort_py_onednn") is not None


@pytest.mark.parametrize("providers", [None, ["CPUExecutionProvider"]])
@pytest.mark.skipif(_ONEDNN, reason="oneDNN is installed, and comes first")
def test_it_stands_in_for_the_cpu(providers: list[str] | None) -> None:
    """By default, and under the name that applications use."""
    with ort_py.InferenceSession(parsed(NET).SerializeToString(), providers=providers) as session:
        assert set(runners(session).values()) == {NAME}
        np.testing.assert_allclose(session.run(None, FEEDS)[0], np.tanh(FEEDS["x"]), rtol=1e-5)


@pytest.mark.parametrize("providers", [None, ["CPUExecutionProvider"]])
@pytest.mark.skipif(not _ONEDNN, reason="oneDNN is not installed")
def test_it_comes_after_the_provider_made_for_the_processor(providers: list[str] | None) -> None:
    """By rank, which the selection tells."""
    available = ort_py.get_available_providers()
    assert available.index("DnnlExecutionProvider") < available.index(NAME) < available.index("CPUExecutionProvider")
    with ort_py.InferenceSession(parsed(NET).SerializeToString(), providers=providers) as session:
        assert NAME not in runners(session).values()
        assert not session.fallback_report
        np.testing.assert_allclose(session.run(None, FEEDS)[0], np.tanh(FEEDS["x"]), rtol=1e-5)
    told = str(ort_py.explain_selection())
    assert told.index("DnnlExecutionProvider") < told.index(NAME)


def test_named_first_it_is_first() -> None:
    """An explicit list keeps its order."""
    model = parsed(NET).SerializeToString()
    with ort_py.InferenceSession(model, providers=[NAME, "CPUExecutionProvider"]) as session:
        assert set(runners(session).values()) == {NAME}


def test_options_of_onnxruntimes_provider_that_mean_nothing_here() -> None:
    """Are accepted, and reported as ignored."""
    options = {"enable_qdq_optimizer": "True", "layout": "x[NCHW]", "context": "0"}
    model = parsed(NET).SerializeToString()
    with ort_py.InferenceSession(model, providers=[(NAME, options), "CPUExecutionProvider"]) as session:
        told = " ".join(note for stage in session.load_report.stages for note in stage.notes)
    assert all(f"option '{name}' ignored" in told for name in options)
