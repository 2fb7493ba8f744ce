"""Scan outputs of loops that run no iteration: sizes that only the body's declarations tell, also from the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ort_py
from core.tests.small_models import CPU, model_bytes
from ort_py.cache.writing import process_queue

DECLARED = ["float[2, 3]", "float[N, 3]", "float[]"]
LOOP = """
g (float[A, 3] x, int64 n, bool go) => (float[] y, float[] s) <float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
  y, s = Loop (n, go, x) <body = b (int64 i, bool c, float[] v) => (bool d, float[] r, SLICE t) {
    d = Identity(c) r = MatMul(v, w) t = Relu(r) }>
}"""
NESTED = """
g (float[A, 3] x, int64 n, bool go) => (float[] y, float[] s) <float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
  y, s = If (go) <
    then_branch = t () => (float[] p, float[] q) {
      p, q = Loop (n, go, x) <body = b (int64 i, bool c, float[] v) => (bool d, float[] r, SLICE t) {
        d = Identity(c) r = MatMul(v, w) t = Relu(r) }> },
    else_branch = e () => (float[] p2, float[] q2) { p2 = Neg(x) q2 = Neg(x) }>
}"""
FEED = {"x": np.ones((2, 3), np.float32), "n": np.array(0), "go": np.array(True)}


def _wanted(model: bytes, feed: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return list(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed))


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("text", [LOOP, NESTED], ids=["alone", "in a branch"])
def test_declared_sizes_of_a_slice_count_where_there_is_none(text: str, declared: str) -> None:
    """Sizes that are not declared are 0, as onnxruntime has them; with iterations the slices tell."""
    model = model_bytes(text.replace("SLICE", declared))
    session = ort_py.InferenceSession(model, providers=CPU)
    for count in (0, 2):
        feed = FEED | {"n": np.array(count)}
        for found, wanted in zip(session.run(None, feed), _wanted(model, feed), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted)


CARRIED = """
g (float[A, 3] x, int64 n, bool go) => (float[] y, float[] s) {
  y, s = Loop (n, go, x) <body = b (int64 i, bool c, float[] v) => (bool d, float[] r, float[] t) {
    d = Identity(c) r = Identity(v) t = Neg(v) }>
}"""


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("level", list(ort_py.GraphOptimizationLevel))
def test_what_transforms_find_out_makes_no_difference(
    level: ort_py.GraphOptimizationLevel, restored: bool, tmp_path: Path
) -> None:
    """A carried value that never changes is known to transforms; the specification's types do not tell its shape."""
    options = ort_py.SessionOptions()
    options.graph_optimization_level = level
    options.cache_dir = tmp_path
    options.add_session_config_entry("session.model_cache", "1")
    for _ in range(1 + restored):
        session = ort_py.InferenceSession(model_bytes(CARRIED), options, providers=CPU)
        process_queue().wait()
    (slices,) = session.run(["s"], FEED)
    (wanted,) = _wanted(model_bytes(CARRIED), FEED)[1:]
    assert slices.shape == wanted.shape == (0,)


def test_the_cache_keeps_what_a_body_declares(tmp_path: Path) -> None:
    """A session of a prepared model gives the same shape."""
    options = ort_py.SessionOptions()
    options.cache_dir = tmp_path
    options.add_session_config_entry("session.model_cache", "1")
    for restored in (False, True):
        session = ort_py.InferenceSession(model_bytes(LOOP.replace("SLICE", "float[2, 3]")), options, providers=CPU)
        process_queue().wait()
        assert ("load" not in {stage.stage for stage in session.load_report.stages}) is restored
        assert session.run(["s"], FEED)[0].shape == (0, 2, 3)
