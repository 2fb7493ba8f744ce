"""Chains run in C and compute the same; the function pointer does what the instance does."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.graphs import model_from_text, reference_run
from ort_py_native_region.plugin import NAME
from ort_py_native_region.program import Program
from ort_py_native_region.region import NativeInstance

CHAIN = """g (float[N, 5] x, float[N, 5] b) => (float[N, 5] y, float[N, 5] s)
<float half = {0.5}, float[1] two = {2}> {
    a = Add(x, b) h = Mul(a, half) s = Sub(h, b) q = Abs(s) r = Sqrt(q) d = Div(r, two)
    n = Neg(d) p = Mul(n, n) y = Relu(p)
}"""
ADD_THEN_RELU = Program(((0, 0, 1, 2), (4, 2, 2, 3)), 4, (0, 1), (3,), (), ())


def _session(text: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.pin_cpu = True
    return ort.InferenceSession(model_from_text(text).SerializeToString(), options, providers=[NAME])


def _feeds(rows: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((rows, 5), np.float32) for name in "xb"}


@pytest.mark.parametrize("rows", [0, 1, 7, 3000])
def test_a_chain_runs(rows: int) -> None:
    """In one region; blocks that are not full are right too."""
    with _session(CHAIN) as session:
        assert session.placement.counts() == {NAME: 9}
        results = session.run(None, _feeds(rows))
    for result, expected in zip(results, reference_run(model_from_text(CHAIN), _feeds(rows)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_nan_stays_nan() -> None:
    """The specification of Relu defines this."""
    with _session("g (float[2] x) => (float[2] y) { a = Neg(x) y = Relu(a) }") as session:
        (y,) = session.run(None, {"x": np.array([np.nan, 1], np.float32)})
    np.testing.assert_array_equal(y, np.array([np.nan, 0], np.float32))


def test_many_threads_at_once() -> None:
    """Each has an instance of its own."""
    with _session(CHAIN) as session, ThreadPoolExecutor(4) as pool:
        alone = [session.run(None, _feeds(900, seed)) for seed in range(8)]
        together = list(pool.map(lambda seed: session.run(None, _feeds(900, seed)), range(8)))
    for ours, theirs in zip(together, alone, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (float[2, 3] x, float[3] b) => (float[2, 3] y) { a = Add(x, b) y = Abs(a) }", "has another shape"),
        ("g (double[2] x) => (double[2] y) { a = Neg(x) y = Abs(a) }", "not float32"),
        ("g (float[2] x) => (float[2] y) { a = Sin(x) y = Abs(a) }", r"Sin\(\d+\) has no code in C"),
    ],
)
def test_what_is_left_to_others(text: str, reason: str) -> None:
    """With the reason in the placement."""
    with _session(text) as session:
        refusals = [refusal for node in session.placement for refusal in node.refusals]
    assert any(re.search(reason, str(refusal)) for refusal in refusals), refusals


def test_other_shapes_than_promised_are_refused() -> None:
    instance = NativeInstance(ADD_THEN_RELU)
    with pytest.raises(ValueError, match="arrays of one shape were promised"):
        instance.bind([np.ones(2, np.float32), np.ones(3, np.float32)], [None])
