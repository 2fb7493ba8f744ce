"""`run_async`: a run on another thread whose outcome is passed to a callback."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from core.tests.small_models import ADD, RELU, TWO_OUTPUTS, open_model
from ort_py import InferenceSession, InvalidArgument, MissingInputError, OrtValue, RunOptions, SessionOptions

X = np.array([[-1.0, 2.0, -3.0]], np.float32)


def told(
    session: InferenceSession,
    names: Sequence[str] | None,
    feed: dict[str, Any],
    user_data: Any = None,
    options: RunOptions | None = None,
) -> tuple[list[Any], Any, str]:
    """Arguments that the callback received."""
    outcome: list[tuple[list[Any], Any, str]] = []
    done = threading.Event()

    def callback(results: list[Any], data: Any, error: str) -> None:
        outcome.append((results, data, error))
        done.set()

    session.run_async(names, feed, callback, user_data, options)
    assert done.wait(30)
    return outcome[0]


def test_callback_gets_results_and_user_data() -> None:
    """Success: the results, the user's object itself, and an empty error."""
    marker = object()
    results, data, error = told(open_model(RELU), None, {"x": X}, marker)
    np.testing.assert_array_equal(results[0], np.maximum(X, 0))
    assert data is marker
    assert error == ""


def test_returns_none_and_runs_elsewhere() -> None:
    """The call gives nothing back; the callback is on another thread than the caller."""
    where: list[str] = []
    done = threading.Event()

    def callback(_results: list[Any], _data: Any, _error: str) -> None:
        where.append(threading.current_thread().name)
        done.set()

    assert open_model(RELU).run_async(None, {"x": X}, callback, None) is None  # type: ignore[func-returns-value]
    assert done.wait(30)
    assert where[0] != threading.current_thread().name


def test_outputs_are_chosen_by_name() -> None:
    """Names, in their order, as in `run`."""
    (down, up), _, _ = told(open_model(TWO_OUTPUTS), ["down", "up"], {"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal([down, up], [[-1, -2], [1, 2]])


def test_one_thread_is_enough() -> None:
    """A session with one thread runs asynchronously too, on a thread of its own; onnxruntime refuses."""
    options = SessionOptions()
    options.intra_op_num_threads = 1
    assert told(open_model(RELU, options), None, {"x": X})[2] == ""


def test_missing_input_is_raised_at_once() -> None:
    """The caller hears of it, not the callback."""
    with pytest.raises(MissingInputError, match=r"Required input\(s\) 'x' are missing"):
        open_model(RELU).run_async(None, {}, lambda *_: None, None)


def test_feed_that_is_no_array_is_raised_at_once() -> None:
    """Lists are converted before the call returns, so what cannot be converted is raised."""
    with pytest.raises(InvalidArgument, match="Input 'x' cannot be converted to a tensor"):
        open_model(RELU).run_async(None, {"x": [[1, 2, 3], [4]]}, lambda *_: None, None)


def test_feed_is_taken_when_it_is_given() -> None:
    """Changing the dict or a list in it after the call does not change the run."""
    feed: dict[str, Any] = {"a": [[1, 2, 3], [4, 5, 6]], "b": OrtValue.ortvalue_from_numpy(np.ones((2, 3), np.float32))}
    session, free, done = open_model(ADD), threading.Event(), threading.Event()
    outcome: list[Any] = []

    def callback(results: list[Any], _data: Any, _error: str) -> None:
        outcome.append(results)
        done.set()

    for _ in range(session.threads.count):  # every thread of the session is taken
        session.run_async(None, dict(feed), lambda *_: free.wait(30), None)
    session.run_async(None, feed, callback, None)
    feed["a"][0][0] = 100
    del feed["b"]
    free.set()
    assert done.wait(30)
    np.testing.assert_array_equal(outcome[0][0], [[2, 3, 4], [5, 6, 7]])


@pytest.mark.parametrize(
    ("names", "feed", "text"),
    [
        (["nope"], {"x": X}, "The model has no output 'nope'"),
        (None, {"x": X, "z": X}, "The model has no input 'z'"),
        (None, {"x": X.astype(np.float64)}, "Input 'x'"),
        (None, {"x": X[0]}, "has rank 1"),
    ],
    ids=["output", "input", "dtype", "rank"],
)
def test_failure_is_told_to_the_callback(names: list[str] | None, feed: dict[str, Any], text: str) -> None:
    """No results, and the message of the exception that `run` raises."""
    results, data, error = told(open_model(RELU), names, feed, 5)
    assert (results, data) == ([], 5)
    assert text in error
    assert "what to do" in error


def test_terminated_run_is_told() -> None:
    """`RunOptions.terminate` ends an asynchronous run as any other."""
    options = RunOptions()
    options.terminate = True
    assert "The run was stopped" in told(open_model(RELU), None, {"x": X}, None, options)[2]


def test_closed_session_is_refused() -> None:
    session = open_model(RELU)
    session.close()
    with pytest.raises(InvalidArgument, match="The session is closed"):
        session.run_async(None, {"x": X}, lambda *_: None, None)


@pytest.mark.parametrize("callback", [None, 3], ids=["None", "int"])
def test_callback_must_be_callable(callback: Any) -> None:
    with pytest.raises(TypeError, match="which cannot be called"):
        open_model(RELU).run_async(None, {"x": X}, callback, None)


def test_names_are_a_list() -> None:
    """A bare string is the usual slip; it is refused at once."""
    with pytest.raises(TypeError, match="output_names must be a list of names"):
        open_model(RELU).run_async("y", {"x": X}, lambda *_: None, None)


def test_exception_of_the_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It ends neither the thread nor the session, and is not lost."""
    session, called = open_model(RELU), threading.Event()

    def callback(*_: Any) -> None:
        called.set()
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR, logger="ort_py.session"):
        session.run_async(None, {"x": X}, callback, None)
        assert called.wait(20)  # a session that is closed before the run begins is another failure
        session.close()
        until = threading.Event()
        for _ in range(1000):
            if caplog.records:
                break
            until.wait(0.01)
    (record,) = caplog.records
    assert "the callback given to run_async raised; the run itself ended" in record.message
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_many_runs_all_report() -> None:
    """Two hundred runs, each with its own numbers."""
    session, done = open_model(RELU), threading.Event()
    found: dict[int, float] = {}

    def callback(results: list[Any], number: int, _error: str) -> None:
        found[number] = float(results[0][0, 0])
        if len(found) == 200:
            done.set()

    for number in range(200):
        session.run_async(None, {"x": np.full((1, 3), number, np.float32)}, callback, number)
    assert done.wait(30)
    assert found == {number: float(number) for number in range(200)}


def test_dropped_session_still_finishes_its_runs() -> None:
    """A run under way keeps its session, and the session goes when it has ended."""
    done = threading.Event()
    session = open_model(RELU)
    alive = weakref.ref(session)
    session.run_async(None, {"x": X}, lambda *_: done.set(), None)
    del session
    assert done.wait(30)
    for _ in range(1000):
        gc.collect()
        if alive() is None:
            break
        threading.Event().wait(0.01)
    assert alive() is None
