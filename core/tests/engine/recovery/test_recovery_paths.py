"""Every way to run a session recovers: in the background, in a stream, with bindings, in parallel, in nested graphs."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.driving import floats, reference
from core.tests.engine.recovery.faulty_sessions import FAULTY, HOST, expected, faulty_session
from ort_py.fallback.policy import SessionState
from ort_py_kit.faults import Faults

X = floats(4, 3)


def left_out(session: ort_py.InferenceSession) -> bool:
    """Whether the session recovered, once."""
    (record,) = session.fallback_report
    return record.action == "left out" and session.state is SessionState.DEGRADED


def test_run_async() -> None:
    """The callback gets right results and no error."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(math.inf)
        told: list[tuple[Any, Any, str]] = []
        done = threading.Semaphore(0)

        def callback(results: Any, data: Any, error: str) -> None:
            told.append((results, data, error))
            done.release()

        for number in range(8):
            session.run_async(None, {"x": X + number}, callback, number)
        for _ in range(8):
            assert done.acquire(timeout=30)
        for results, number, error in told:
            assert error == ""
            np.testing.assert_array_equal(results[0], expected(X + number))
        assert left_out(session)


def test_run_asyncio() -> None:
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(math.inf)

        async def main() -> Any:
            return await asyncio.gather(*[session.run_asyncio(None, {"x": X + number}) for number in range(4)])

        for number, results in enumerate(asyncio.run(main())):
            np.testing.assert_array_equal(results[0], expected(X + number))
        assert left_out(session)


def test_run_stream() -> None:
    """A stream goes on in order, whichever item the provider failed at."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(math.inf, after=10)
        feeds = [{"x": X + number} for number in range(12)]
        for feed, (result,) in zip(feeds, session.run_stream(feeds), strict=True):
            np.testing.assert_array_equal(result, expected(feed["x"]))
        assert left_out(session)


def test_io_binding() -> None:
    """Bound memory receives the results of the run that succeeded; what was bound stays bound."""
    faults = Faults()
    with faulty_session(faults) as session:
        binding = session.io_binding()
        target = ort_py.OrtValue.ortvalue_from_numpy(np.zeros_like(X))
        binding.bind_cpu_input("x", X)
        binding.bind_ortvalue_output("y", target)
        faults.fail(after=2)
        for _ in range(3):
            session.run_with_iobinding(binding)
            np.testing.assert_array_equal(target.numpy(), expected(X))
        assert left_out(session)


def test_run_with_ort_values() -> None:
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail()
        (found,) = session.run_with_ort_values(["y"], {"x": ort_py.OrtValue.ortvalue_from_numpy(X)})
        np.testing.assert_array_equal(found.numpy(), expected(X))
        assert left_out(session)


def test_with_run_options_and_a_profile() -> None:
    """Watched runs are repeated as others are."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail()
        results = session.run(["y"], {"x": X}, ort_py.RunOptions())
        np.testing.assert_array_equal(results[0], expected(X))
        assert left_out(session)


BRANCHES = """g (float[n] x) => (float[n] y) {
    a = Neg(x) b = Abs(x) c = Neg(a) d = Abs(b) e = Add(c, d) f = Add(a, b) y = Add(e, f)
}"""


def test_parallel_execution() -> None:
    """Steps that run at the same time: the first failure stops the run, which is repeated."""
    faults = Faults()
    x = floats(50)
    options = ort_py.SessionOptions()
    options.execution_mode = ort_py.ExecutionMode.ORT_PARALLEL
    options.intra_op_num_threads = options.inter_op_num_threads = 2
    with faulty_session(faults, BRANCHES) as template:
        options.cost_model = "always"
        model = template.engine.recipe.source
        with ort_py.InferenceSession(model, options, [FAULTY, HOST]) as session:
            faults.fail(math.inf, after=2)
            for _ in range(4):
                np.testing.assert_allclose(session.run(None, {"x": x})[0], reference(BRANCHES, {"x": x})[0])
            assert left_out(session)


LOOP = """g (int64 n, bool c, float[k] x) => (float[k] y) {
    y = Loop(n, c, x) <body = b (int64 i, bool going, float[k] v) => (bool still, float[k] w) {
        still = Identity(going)
        u = Neg(v)
        w = Add(u, x)
    }>
}"""
CHOICE = """g (bool c, float[k] x) => (float[k] y) {
    a = Neg(x)
    y = If(c) <then_branch = t () => (float[k] p) { p = Abs(a) }, else_branch = e () => (float[k] q) { q = Neg(a) }>
}"""


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize(
    ("text", "feed"),
    [
        (LOOP, {"n": np.int64(5), "c": np.bool_(True), "x": floats(4)}),
        (CHOICE, {"c": np.bool_(True), "x": floats(4)}),
    ],
    ids=["loop", "if"],
)
def test_nested_graphs(text: str, feed: dict[str, Any], after: int) -> None:
    """A node inside a body fails in some iteration: the whole run is repeated, and the report names the node."""
    faults = Faults()
    with faulty_session(faults, text) as session:
        faults.fail(math.inf, after=after)
        arrays = {name: np.asarray(value) for name, value in feed.items()}
        for _ in range(3):
            np.testing.assert_allclose(session.run(None, arrays)[0], reference(text, arrays)[0])
        assert left_out(session)
        assert session.fallback_report[0].node in {"a", "p", "u", "w", "still"}


def test_after_set_providers() -> None:
    """Another list starts from the beginning: nothing is remembered of the former one."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail()
        session.run(None, {"x": X})
        session.set_providers([FAULTY, HOST])
        assert (session.state, session.fallback_report, session.fallback_report.circuits) == ("ready", [], ())
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        assert session.placement.counts()[FAULTY] == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda session: pickle.loads(pickle.dumps(session))])
def test_copies_begin_anew(copied: Any) -> None:
    """A recipe has no failures in it."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail()
        session.run(None, {"x": X})
        with copied(session) as twin:
            assert (twin.state, twin.fallback_report) == ("ready", [])
            assert twin.placement.counts() == {FAULTY: 3}


def test_slow_providers_are_awaited() -> None:
    """A slow provider has not failed."""
    faults = Faults()
    faults.seconds = 0.02
    with faulty_session(faults) as session:
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        assert session.fallback_report == []


def test_a_stopped_run_is_no_failure() -> None:
    """`RunOptions.terminate` ends the run; nothing is planned."""
    faults = Faults()
    options = ort_py.RunOptions()
    options.terminate = True
    with faulty_session(faults) as session:
        with pytest.raises(ort_py.Fail, match="terminate"):
            session.run(None, {"x": X}, options)
        assert (session.state, session.fallback_report) == ("ready", [])


def test_a_run_that_takes_too_long_is_no_failure() -> None:
    """A limit is a limit everywhere."""
    faults = Faults()
    with faulty_session(faults) as template:
        options = template.get_session_options()
        options.limits = ort_py.Limits(run_seconds=0.01)
        faults.seconds = 0.02
        with ort_py.InferenceSession(template.engine.recipe.source, options, [FAULTY, HOST]) as session:
            with pytest.raises(ort_py.LimitError, match="longer than"):
                session.run(None, {"x": X})
            assert (session.state, session.fallback_report) == ("ready", [])
