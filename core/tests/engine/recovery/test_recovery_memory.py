"""Runs that find memory short: given back, repeated, split along the axis that the caller names."""

from __future__ import annotations

import copy
import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.driving import floats
from core.tests.engine.recovery.faulty_sessions import FAULTY, HOST, expected, faulty_session
from core.tests.fallback.test_breaker import Clock
from ort_py.errors import ExecutionError, MemoryLimitError, OptionError
from ort_py.fallback.circuits import Circuits
from ort_py.fallback.policy import SessionState
from ort_py_kit.fake_device import FakeBehaviour, FakeDevice, FakeFactory
from ort_py_kit.faults import Faults

X = floats(10, 3)


def along(axis: int | None) -> ort_py.RunOptions:
    """Options with a batch axis."""
    options = ort_py.RunOptions()
    options.batch_axis = axis
    return options


def test_memory_is_given_back_and_the_run_repeated() -> None:
    """A provider that is short once keeps its nodes."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(error=MemoryError)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        assert session.placement.counts() == {FAULTY: 3}
        assert session.state is SessionState.READY
        (record,) = session.fallback_report
        assert record.action == "memory freed"


def test_strict_forbids_no_second_try() -> None:
    """The second try runs on the requested provider, so it is not a fallback."""
    faults = Faults()
    with faulty_session(faults, strict="provider") as session:
        faults.fail(error=MemoryError)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))


def test_the_failed_runs_arrays_are_gone_before_the_second_try() -> None:
    """The arrays of the first try would make memory short again in the second."""
    seen: list[Any] = []

    class Watched(np.ndarray[Any, Any]):
        """An array that can be watched dying."""

    faults = Faults()
    with faulty_session(faults) as session:
        provider = session.engine.providers.created[0]
        original = faults.before_call

        def watch(inputs: Any) -> None:
            if faults.calls == 1:  # the second call reads what the first has made
                seen.append(weakref.ref(inputs[0].view(Watched).base))
            if faults.calls == 3:
                gc.disable()
                assert seen[0]() is None, "an array of the failed run is alive"
            original(inputs)

        faults.before_call = watch  # type: ignore[method-assign]  # what the kernels call
        faults.fail(after=1, error=MemoryError)
        try:
            session.run(None, {"x": X})
        finally:
            gc.enable()
        assert provider.name in session.placement.counts()
        assert len(seen) == 1


@pytest.mark.parametrize(("compiles", "fits"), [(False, 3), (True, 5)], ids=["kernels", "region"])
def test_the_batch_is_split_where_the_caller_names_the_axis(compiles: bool, fits: int) -> None:
    """Halves, and halves of those, until they fit; results in order, on record with the size."""
    faults = Faults()
    faults.memory_bytes = 3 * 3 * 4 * 2
    with faulty_session(faults, compiles=compiles) as session:
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(0))[0], expected(X))
        assert session.placement.counts() == {FAULTY: 3}
        assert session.state is SessionState.READY
        assert [one.action for one in session.fallback_report] == ["memory freed", "batch split"]
        assert f"parts of {fits} on axis 0" in session.fallback_report[1].reason


@pytest.mark.parametrize("names", [None, ["y"], []])
def test_wanted_outputs_only(names: list[str] | None) -> None:
    """A split run answers as a whole one does."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.memory_bytes = 100
        (result,) = session.run(names, {"x": X}, along(0))
        np.testing.assert_array_equal(result, expected(X))


def test_without_an_axis_others_take_over() -> None:
    faults = Faults()
    with faulty_session(faults) as session:
        faults.memory_bytes = 100
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(None))[0], expected(X))
        assert session.placement.counts() == {HOST: 3}


def test_one_item_that_does_not_fit_goes_to_others() -> None:
    """Smaller than one it cannot be."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.memory_bytes = 4
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(0))[0], expected(X))
        assert session.placement.counts() == {HOST: 3}


REFUSED = {
    "an output lacks the axis": (
        "g (float[n, 3] x) => (float y) { y = ReduceSum<keepdims = 0>(x) }",
        0,
        "output 'y' has 0 axes",
    ),
    "an output's axis is fixed": (
        "g (float[n, 3] x) => (float[1, 3] y) { a = Constant<value_ints = [0]>() y = ReduceSum(x, a) }",
        0,
        "output axis 0 of 'y' always has 1",
    ),
    "an output has no such size": (
        "g (float[2, 3] x) => (float[n, m] y) { y = Neg(x) }",
        0,
        "axis 0 of 'y' always has 2",
    ),
    "an output does not follow it": (
        "g (float[n, 3] x) => (float[m, 3] y) { y = Concat<axis = 0>(x, x) }",
        0,
        "output 'y' of a part of 5 has shape \\[10, 3\\]",
    ),
}


@pytest.mark.parametrize(("text", "axis", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_split_says_why(text: str, axis: int, reason: str) -> None:
    """In strict mode, so that no other provider hides it."""
    faults = Faults()
    with faulty_session(faults, text, strict="provider") as session:
        faults.memory_bytes = 24 if "float[2, 3] x" not in text else 1
        x = X if "float[2, 3] x" not in text else X[:2]
        if "Concat" in text:
            faults.memory_bytes = 120
        with pytest.raises(ExecutionError, match=f"RunOptions.batch_axis=0 does not help: .*{reason}"):
            session.run(None, {"x": x}, along(axis))


def test_inputs_without_the_axis_go_in_whole() -> None:
    """A weight that is fed has the same size for every part."""
    faults = Faults()
    text = "g (float[n, 3] x, float[3] w) => (float[n, 3] y) { y = Add(x, w) }"
    with faulty_session(faults, text) as session:
        w = floats(3, seed=1)
        faults.memory_bytes = 100
        np.testing.assert_array_equal(session.run(None, {"x": X, "w": w}, along(0))[0], X + w)
        assert session.placement.counts() == {FAULTY: 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (float[n, 3] x, float[m, 3] w) => (float[k, 3] y) { y = Add(x, w) }", "'n' of 'x', 'm' of 'w'"),
        ("g (float[n, 3] x, float[n, 3] w) => (float[k, 3] y) { y = Add(x, w) }", "10 in 'x', 1 in 'w'"),
    ],
)
def test_inputs_that_differ_in_the_axis(text: str, reason: str) -> None:
    faults = Faults()
    with faulty_session(faults, text, strict="provider") as session:
        faults.memory_bytes = 24
        with pytest.raises(ExecutionError, match=reason):
            session.run(None, {"x": X, "w": X[:1]}, along(0))


def test_another_axis() -> None:
    """Parts along the second axis are copies, not views; the result is the same."""
    faults = Faults()
    text = "g (float[2, n] x) => (float[2, n] y) { y = Neg(x) }"
    with faulty_session(faults, text) as session:
        x = floats(2, 9)
        faults.memory_bytes = 40
        np.testing.assert_array_equal(session.run(None, {"x": x}, along(1))[0], -x)
        assert session.placement.counts() == {FAULTY: 1}


def test_a_limit_is_kept_by_splitting() -> None:
    """Other providers could not help with `memory_limit_bytes`; smaller runs do."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(1, error=lambda: MemoryLimitError("The run holds too much."))
        with pytest.raises(MemoryLimitError):
            session.run(None, {"x": X})
        faults.fail(1, error=lambda: MemoryLimitError("The run holds too much."))
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(0))[0], expected(X))
        assert [one.action for one in session.fallback_report] == ["batch split"]


def test_a_device_that_is_too_small_for_a_large_run() -> None:
    """Memory of a device, really: large runs are split, small ones are not, all are right."""
    device = FakeFactory(behaviour=FakeBehaviour(), owner=FakeDevice(largest=64))
    with faulty_session(Faults(), device=device) as session:
        for size in (2, 50, 3, 17):
            x = floats(size, 3)
            np.testing.assert_array_equal(session.run(None, {"x": x}, along(0))[0], expected(x))
        assert session.placement.counts() == {FAULTY: 3}


def test_memory_that_stays_short_ends() -> None:
    """Every provider is short: a bounded number of tries, then the error."""
    faults = Faults()
    with faulty_session(faults, others=()) as session:
        faults.fail(math.inf, error=MemoryError)
        with pytest.raises(ExecutionError, match="MemoryError"):
            session.run(None, {"x": X}, along(0))
        assert faults.calls < 12


def test_the_axis_is_checked() -> None:
    options = ort_py.RunOptions()
    assert options.batch_axis is None
    with pytest.raises(TypeError, match="batch_axis"):
        options.batch_axis = "0"  # type: ignore[assignment]  # the mistake under test
    with pytest.raises(TypeError, match="batch_axis"):
        options.batch_axis = True
    options.batch_axis = 1
    assert copy.copy(options).batch_axis == 1


def test_a_negative_axis_is_refused() -> None:
    options = ort_py.RunOptions()
    with pytest.raises(OptionError, match="batch_axis cannot be -1"):
        options.batch_axis = -1
    assert options.batch_axis is None


def test_what_fitted_is_run_at_once_for_a_while() -> None:
    """Later runs of the caller do not fail first; after a minute the whole is tried again."""
    faults, clock = Faults(), Clock()
    with faulty_session(faults) as session:
        session.engine.recovery.circuits = Circuits(1, 0, clock)
        faults.memory_bytes = 100
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(0))[0], expected(X))
        faults.memory_bytes, before = None, faults.calls
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(0))[0], expected(X))
        assert faults.calls - before == 3 * 4, "four parts of three"
        before = faults.calls
        np.testing.assert_array_equal(session.run(None, {"x": X[:3]}, along(0))[0], expected(X[:3]))
        session.run(None, {"x": X})
        assert faults.calls - before == 3 * 2, "what is small enough, or may not be split, is run whole"
        clock.now += 61
        before = faults.calls
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(0))[0], expected(X))
        assert faults.calls - before == 3
        assert [one.action for one in session.fallback_report] == ["memory freed", "batch split"]


def test_parts_that_fitted_may_fail_too() -> None:
    """Memory is shorter than before: smaller parts; a provider that fails: the others, in parts."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.memory_bytes = 100
        session.run(None, {"x": X}, along(0))
        faults.memory_bytes = 30
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(0))[0], expected(X))
        assert session.placement.counts() == {FAULTY: 3}
        faults.fail(math.inf)
        np.testing.assert_array_equal(session.run(None, {"x": X}, along(0))[0], expected(X))
        assert session.placement.counts() == {HOST: 3}


def test_runs_in_the_background_are_split_too() -> None:
    faults = Faults()
    with faulty_session(faults) as session:
        faults.memory_bytes = 100
        for (result,) in session.run_stream([{"x": X}, {"x": X}], run_options=along(0)):
            np.testing.assert_array_equal(result, expected(X))
        assert session.placement.counts() == {FAULTY: 3}
