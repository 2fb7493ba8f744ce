"""A frame's state of a region: the arrays of a run, and the outputs that are required of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest

import ort_py as ort
from ort_py_onednn.binding import primitive
from ort_py_onednn.execution.region import DnnlRegion
from providers.onednn.tests.models import model, node, open_session


def test_numpy_scalars_are_read_while_they_live() -> None:
    """Mod of values without axes gives a NumPy scalar; the region read its bits after they were freed."""
    text = """<ir_version: 8, opset_import: ["" : 13]> g (bfloat16 x) => (bfloat16 y) {
        remainder = Mod(x, x) negative = Neg(x) product = Mul(negative, remainder) bent = Tanh(product) y = Exp(bent)
    }"""
    options = ort.SessionOptions()
    options.cost_model = "always"
    with ort.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options) as session:
        assert session.placement.counts().get("DnnlExecutionProvider", 0) > 0
        results = [session.run(None, {"x": np.array(-0.03, ml_dtypes.bfloat16)})[0] for _ in range(50)]
    assert {float(one) for one in results} == {1.0}  # exp(tanh(0.03 * 0))


@pytest.mark.parametrize("wrong", [{"outputs": ((4, 3),)}, {"dtypes": (np.dtype(np.float64),)}])
def test_a_plan_of_other_outputs_never_runs(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]) -> None:
    """The instance compares its plan with the outputs that the operators give, before native code runs."""
    real = DnnlRegion._planned
    monkeypatch.setattr(DnnlRegion, "_planned", lambda *given: dataclasses.replace(real(*given), **wrong))
    x = np.ones((3, 4), np.float32)
    data = model([node("Softmax", "x", "a"), node("Exp", "a", "y")], {"x": x}, dynamic=True)
    with open_session(data) as session:
        (found,) = session.run(None, {"x": x})
        (record,) = session.fallback_report
    assert "where the operators require [3, 4] of float32" in record.reason
    np.testing.assert_allclose(found, np.full((3, 4), np.exp(0.25)), rtol=1e-6)


def _pooled(seconds: float | None) -> tuple[ort.InferenceSession, np.ndarray[Any, Any]]:
    """A session whose one region is a pool, and its input."""
    options = ort.SessionOptions()
    options.limits = ort.Limits(run_seconds=seconds)
    options.cost_model = "always"
    options.intra_op_num_threads = 1
    x = np.random.default_rng(0).random((1, 2, 9, 9), np.float32)
    data = model([node("MaxPool", "x", "y", kernel_shape=[3, 3])], {"x": x}, dynamic=True)
    return ort.InferenceSession(data, options), x


@pytest.mark.parametrize(("seconds", "declined"), [(100.0, True), (None, False)])
def test_a_long_call_is_left_to_kernels_where_a_run_can_be_ended(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None, declined: bool
) -> None:
    """Kernels look at the clock, and nothing interrupts a call of oneDNN."""
    for name in ("REFERENCE", "PORTABLE", "WINDOWS"):
        monkeypatch.setattr(primitive, f"_LONG_FOR_{name}", 1)
    session, x = _pooled(seconds)
    with session:
        (found,) = session.run(None, {"x": x})
        assert ("cannot be ended with the time of the run" in session.plan) is declined
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    np.testing.assert_array_equal(found, windows.max(axis=(4, 5)))


def test_a_short_call_runs_whatever_the_limit() -> None:
    session, x = _pooled(100.0)
    with session:
        session.run(None, {"x": x})
        assert session.placement.counts().get("DnnlExecutionProvider") == 1
        assert "declined" not in session.plan
