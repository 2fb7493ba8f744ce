"""Options of one run, and limits that are looked at while it runs."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from core.tests.small_models import RELU, open_model
from ort_py import Fail, LimitError, Limits, RunOptions, SessionOptions

X = np.ones((2, 3), np.float32)

# Counts to a number that is fed: as long as the test needs.
LOOP = """g (int64 n, float[4] x) => (float[4] y) {
    go = Constant <value = bool {1}> ()
    y = Loop (n, go, x) <body = b (int64 i, bool c, float[4] carried) => (bool again, float[4] next) {
        again = Identity(c)
        next = Neg(carried)
    }>
}"""


def test_terminate_stops_the_run() -> None:
    """A run with `terminate` set beforehand fails like onnxruntime's."""
    options = RunOptions()
    options.terminate = True
    with pytest.raises(Fail, match=r"The run was stopped: RunOptions\.terminate is set"):
        open_model(RELU).run(None, {"x": X}, options)


def test_terminate_from_another_thread() -> None:
    """Setting the option while a loop runs stops it."""
    options = RunOptions()
    session = open_model(LOOP)

    def stop() -> None:
        time.sleep(0.1)
        options.terminate = True

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(Fail, match="The run was stopped"):
        session.run(None, {"n": 10**9, "x": np.ones(4, np.float32)}, options)
    thread.join()


def test_session_works_after_a_stopped_run() -> None:
    """A stopped run leaves nothing behind."""
    session = open_model(RELU)
    options = RunOptions()
    options.terminate = True
    with pytest.raises(Fail):
        session.run(None, {"x": X}, options)
    options.terminate = False
    np.testing.assert_array_equal(session.run(None, {"x": X}, options)[0], X)
    assert session.fallback_report == []


def test_time_limit() -> None:
    """A run that passes `Limits.run_seconds` ends in a LimitError that names the limit."""
    options = SessionOptions()
    options.limits = Limits(run_seconds=0.05)
    with pytest.raises(LimitError, match=r"The run took longer than 0\.05 s") as caught:
        open_model(LOOP, options).run(None, {"n": 10**9, "x": np.ones(4, np.float32)})
    assert caught.value.why == ("Limits.run_seconds",)


def test_memory_limit() -> None:
    """A run whose arrays pass `Limits.total_memory_bytes` ends in a LimitError."""
    options = SessionOptions()
    options.limits = Limits(total_memory_bytes=1000)
    session = open_model("g (float[N, 3] x) => (float[N, 3] y) { a = Relu(x) y = Neg(a) }", options)
    assert session.run(None, {"x": np.ones((4, 3), np.float32)})
    with pytest.raises(LimitError, match="The run holds"):
        session.run(None, {"x": np.ones((100, 3), np.float32)})


def test_allocation_limit() -> None:
    """A model that asks for one array beyond the limit is refused before anything is allocated."""
    options = SessionOptions()
    options.limits = Limits(single_allocation_bytes=10**6)
    session = open_model("g (int64[1] n) => (float[N] y) { y = ConstantOfShape(n) }", options)
    assert session.run(None, {"n": np.array([10])})[0].shape == (10,)
    with pytest.raises(LimitError) as caught:
        session.run(None, {"n": np.array([10**12])})
    assert caught.value.location.op_type == "ConstantOfShape"
