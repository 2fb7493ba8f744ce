"""`run_stream`: runs of a stream of inputs, in order, stopped by whatever ends it; refusals; life of the session."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from core.tests.small_models import ADD, RELU, TWO_OUTPUTS, open_model
from ort_py import Fail, InferenceSession, InvalidArgument, RunOptions, SessionOptions
from ort_py.errors import ArgumentTypeError

LOOP = """g (int64 n, float[4] x) => (float[4] y) {
  y = Loop (n, , x) <body = b (int64 i, bool c, float[4] v) => (bool c2, float[4] u) { c2 = Identity(c) u = Tanh(v) }>
}"""


def feeds(count: int) -> Iterator[dict[str, Any]]:
    """Feeds of `RELU` whose result tells their number."""
    for number in range(count):
        yield {"x": np.full((1, 3), number, np.float32)}


def numbers(results: Any) -> list[float]:
    """The numbers in results of `feeds`."""
    return [float(y[0, 0]) for (y,) in results]


def with_threads(count: int) -> SessionOptions:
    """Options with a number of threads."""
    options = SessionOptions()
    options.intra_op_num_threads = count
    return options


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("depth", [None, 1, 3])
def test_results_are_in_the_order_of_the_inputs(threads: int, depth: int | None) -> None:
    """Each feed has its own result, also with one thread."""
    session = open_model(RELU, with_threads(threads))
    assert numbers(session.run_stream(feeds(40), depth=depth)) == list(range(40))


def test_lists_and_generators_are_streams() -> None:
    """Anything that can be iterated; feeds are converted as in `run`."""
    session = open_model(RELU)
    assert numbers(session.run_stream([{"x": [[1, 2, 3]]}, {"x": [[4, 5, 6]]}])) == [1, 4]
    assert list(session.run_stream([])) == []


def test_outputs_are_chosen_by_name() -> None:
    """Names, in their order, as in `run`."""
    found = list(open_model(TWO_OUTPUTS).run_stream([{"x": np.array([1, 2], np.float32)}], ["down", "up"]))
    np.testing.assert_array_equal(found, [[[-1, -2], [1, 2]]])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (({"x": 1},), ArgumentTypeError, "takes an iterable of feeds, not dict"),
        ((3,), ArgumentTypeError, "takes an iterable of feeds, not int"),
        (([], "y"), ArgumentTypeError, "output_names must be a list of names"),
        (([], None, 0), InvalidArgument, "depth is 0"),
        (([], None, 1.5), ArgumentTypeError, "depth must be a number of inputs, not 1.5"),
        (([], None, 2, 3), ArgumentTypeError, "run_options must be a RunOptions, not int"),
    ],
    ids=["mapping", "number", "names", "depth", "depth type", "options"],
)
def test_wrong_arguments_are_refused_at_once(arguments: tuple[Any, ...], error: type[Exception], text: str) -> None:
    """Before anything is pulled or asked for."""
    iterable, names, depth, options = (*arguments, None, None, None)[:4] if len(arguments) < 4 else arguments
    with pytest.raises(error, match=text):
        open_model(RELU).run_stream(iterable, names, depth=depth, run_options=options)


def test_a_wrong_feed_is_raised_at_its_place() -> None:
    """Results before it are given; what comes after it is not run."""
    session = open_model(RELU)
    stream = session.run_stream([*feeds(2), {"z": 1}, *feeds(3)])
    assert numbers([next(stream), next(stream)]) == [0, 1]
    with pytest.raises(ValueError, match="'x' are missing"):
        next(stream)
    assert list(stream) == []
    assert numbers(session.run_stream(feeds(2))) == [0, 1]


def test_what_is_no_mapping_is_raised_at_its_place() -> None:
    stream = open_model(RELU).run_stream([[1, 2]])  # type: ignore[list-item]  # the mistake under test
    with pytest.raises(TypeError, match="a mapping of input names to values"):
        next(stream)


def test_a_failing_node_is_raised_at_its_place() -> None:
    """With its place in the model; the session stays usable."""
    session = open_model("g (float[N] a, float[M] b) => (float[K] c) { c = Add(a, b) }")
    good = {"a": np.zeros(2, np.float32), "b": np.ones(2, np.float32)}
    stream = session.run_stream([good, {**good, "b": np.ones(3, np.float32)}, good])
    np.testing.assert_array_equal(next(stream)[0], [1, 1])
    with pytest.raises(Exception, match="Add"):
        next(stream)
    assert session.run(None, good)


def test_terminate_stops_every_run() -> None:
    """The caller's run options count in each run."""
    options = RunOptions()
    options.terminate = True
    with pytest.raises(Fail, match=r"RunOptions\.terminate is set"):
        next(open_model(RELU).run_stream(feeds(3), run_options=options))


def test_leaving_early_stops_a_long_run() -> None:
    """Closing does not wait for a run of many steps: it stops before its next one."""
    session = open_model(LOOP)
    x = np.zeros(4, np.float32)
    stream = session.run_stream([{"n": 1, "x": x}, {"n": 10**12, "x": x}])
    next(stream)
    start = time.monotonic()
    stream.close()
    assert time.monotonic() - start < 10
    assert session.run(None, {"n": 1, "x": x})


def test_a_closed_session_refuses() -> None:
    """At once, where it is closed before; at the next input, where it is closed meanwhile."""
    session = open_model(RELU)
    stream = session.run_stream(feeds(100))
    next(stream)
    session.close()
    with pytest.raises(InvalidArgument, match=r"The session is closed\."):
        list(stream)
    with pytest.raises(InvalidArgument, match=r"The session is closed\."):
        session.run_stream([])


def test_a_forgotten_stream_lets_its_session_go() -> None:
    """Nothing of the stream's threads keeps the session alive."""
    session = open_model(RELU)
    gone = weakref.ref(session)
    stream = session.run_stream(feeds(100))
    next(stream)
    del stream, session
    end = time.monotonic() + 10
    while gone() is not None and time.monotonic() < end:
        gc.collect()
        time.sleep(0.005)
    assert gone() is None


def test_feeds_and_results_are_not_kept_alive() -> None:
    """Results belong to the caller, and feeds are not kept."""
    session = open_model(RELU)
    feed = np.zeros((1, 3), np.float32)
    fed = weakref.ref(feed)
    given = [feed]
    stream = session.run_stream(({"x": given.pop()} if given else {"x": one["x"]} for one in feeds(5)), depth=1)
    del feed
    result = weakref.ref(next(stream)[0])
    next(stream)
    gc.collect()
    assert fed() is None
    assert result() is None
    stream.close()


def test_eight_streams_at_a_time() -> None:
    """Streams of one session in many threads do not mix."""
    session, failures = open_model(RELU), []

    def work(start: int) -> None:
        wanted = [float(start + number) for number in range(30)]
        given = ({"x": np.full((1, 3), value, np.float32)} for value in wanted)
        try:
            assert numbers(session.run_stream(given)) == wanted
        except BaseException as error:  # shown by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_a_stream_inside_a_callback_of_the_session() -> None:
    """Its runs do not wait for the thread that reads them."""
    session, done, found = open_model(RELU, with_threads(1)), threading.Event(), []

    def callback(_results: list[Any], _data: Any, _error: str) -> None:
        found.extend(numbers(session.run_stream(feeds(5))))
        done.set()

    session.run_async(None, next(feeds(1)), callback, None)
    assert done.wait(30)
    assert found == [0, 1, 2, 3, 4]


def test_a_stream_of_a_stream() -> None:
    """Results of one session feed another one, lazily."""
    first, second = open_model(RELU), open_model(ADD)
    stages = first.run_stream({"x": np.full((1, 3), number, np.float32)} for number in range(10))
    both = second.run_stream({"a": np.tile(y, (2, 1)), "b": np.ones((2, 3), np.float32)} for (y,) in stages)
    assert [float(c[0, 0]) for (c,) in both] == [number + 1 for number in range(10)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_streams_on_its_own() -> None:
    """While the parent's stream is under way: the child's session runs a new stream, the parent's goes on."""
    session: InferenceSession = open_model(RELU, with_threads(2))
    stream = session.run_stream(feeds(20))
    next(stream)
    child = os.fork()
    if child == 0:
        os._exit(len(list(session.run_stream(feeds(6)))))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
    assert numbers(stream) == list(range(1, 20))
