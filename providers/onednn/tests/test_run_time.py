"""Time limits of runs inside of a region."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import numpy as np
import onnx.parser
import pytest

import ort_py
from ort_py.errors import LimitError

LENGTH = 40
CHAIN = " ".join(f"v{index + 1} = MatMul(v{index}, w)" for index in range(LENGTH))


def test_a_long_region_ends_when_the_time_is_over() -> None:
    """It is one region of many products, each of which takes a small part of the time."""
    text = (
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[n, 1024] v0, float[1024, 1024] w) => (float[n, 1024] y) '
        f"{{ {CHAIN} y = Relu(v{LENGTH}) }}"
    )
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = 1
    feeds = {"v0": np.zeros((512, 1024), np.float32), "w": np.zeros((1024, 1024), np.float32)}
    model = onnx.parser.parse_model(text).SerializeToString()
    with ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"]) as free:
        start = time.perf_counter()
        free.run(None, feeds)
        whole = time.perf_counter() - start
    options.limits = ort_py.Limits(run_seconds=whole / 5)
    with ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"]) as limited:
        assert limited.placement.counts().get("DnnlExecutionProvider") == LENGTH + 1
        with pytest.raises(LimitError, match="run took longer"):
            limited.run(None, feeds)
        limited.run(None, {**feeds, "v0": feeds["v0"][:1]})


@pytest.mark.parametrize("looks", [2, 30, 60, 90, 120])
def test_planning_ends_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """Planning for new shapes takes long for a region of many nodes, so the clock is looked at between its parts."""
    chain = " ".join(f"v{index + 1} = MatMul(v{index}, w)" for index in range(40))
    graph = f"(float[n, 4] v0, float[4, 4] w) => (float[n, 4] v40) {{ {chain} }}"
    text = f'<ir_version: 10, opset_import: ["" : 21]> g {graph}'
    options = ort_py.SessionOptions()
    options.limits = ort_py.Limits(run_seconds=float(looks))
    feeds = {"v0": np.full((3, 4), 2.0, np.float32), "w": np.eye(4, dtype=np.float32)}
    model = onnx.parser.parse_model(text).SerializeToString()
    clock = itertools.count()
    with ort_py.InferenceSession(model, options, providers=["DnnlExecutionProvider"]) as session:
        with monkeypatch.context() as patch:  # each look at the clock takes a second
            patch.setattr("ort_py.execution.watch.time", SimpleNamespace(monotonic=lambda: float(next(clock))))
            with pytest.raises(LimitError, match="run took longer"):
                session.run(None, feeds)
        assert looks <= next(clock) <= looks + 3
        np.testing.assert_array_equal(session.run(None, feeds)[0], feeds["v0"])
