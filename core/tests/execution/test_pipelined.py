"""Work on a stream: in order, bounded, overlapping, and ended by whatever ends it."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from ort_py.errors import InvalidArgument
from ort_py.execution.pipelined import Pipelined


def stream(items: Iterator[int], *, threads: int = 2, depth: int = 4, log: list[str] | None = None) -> Pipelined[int]:
    """Squares of numbers; what happens is written down."""

    def work(item: int) -> int:
        if log is not None:
            log.append(f"work {item}")
        return item * item

    return Pipelined(items, work, lambda: None, threads=threads, depth=depth)


def until(condition: object, seconds: float = 10.0) -> bool:
    """Whether a condition comes true soon."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]  # a function
            return True
        time.sleep(0.001)
    return False


def mine() -> list[threading.Thread]:
    """Threads of streams that are alive."""
    return [thread for thread in threading.enumerate() if thread.name in ("ort_py_load", "ort_py_async")]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("depth", [1, 2, 9])
def test_results_are_in_the_order_of_the_items(threads: int, depth: int) -> None:
    """The order does not depend on the number of threads or on the number of items pulled ahead."""
    assert list(stream(iter(range(50)), threads=threads, depth=depth)) == [number**2 for number in range(50)]


def test_a_slow_item_does_not_let_others_pass() -> None:
    """The first result is the first item's, though the second was done before."""
    second = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second.wait(20)
        else:
            second.set()
        return item

    assert list(Pipelined(iter((0, 1)), work, lambda: None, threads=2, depth=2)) == [0, 1]


def test_no_item_no_result() -> None:
    """An empty iterable gives an empty stream, and asking again the same answer."""
    empty = stream(iter(()))
    assert list(empty) == []
    assert next(empty, None) is None


@pytest.mark.parametrize("depth", [1, 3])
def test_no_more_is_pulled_than_fits(depth: int) -> None:
    """Items that are pulled and not taken are `depth` at most, and as many as that."""
    pulled: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            pulled.append(number)
            yield number

    with stream(items(), depth=depth) as results:
        for taken in range(1, 6):
            next(results)
            assert until(lambda taken=taken: len(pulled) >= taken + depth)
            time.sleep(0.005)
            assert len(pulled) == taken + depth


def test_nothing_begins_before_it_is_asked_for() -> None:
    """A stream that is not read pulls nothing and has no thread."""
    pulled: list[int] = []

    def items() -> Iterator[int]:
        pulled.append(1)
        yield 1

    before = set(mine())
    made = stream(items())
    time.sleep(0.01)
    assert not pulled
    assert not set(mine()) - before
    made.close()
    assert list(made) == []


def test_pulling_and_work_overlap() -> None:
    """The next item is pulled while one is worked on, also with one thread."""
    pulled, worked = threading.Event(), []

    def items() -> Iterator[int]:
        yield 0
        pulled.set()
        yield 1

    def work(item: int) -> int:
        worked.append(pulled.wait(20))
        return item

    assert list(Pipelined(items(), work, lambda: None, threads=1, depth=2)) == [0, 1]
    assert worked == [True, True]


def test_work_overlaps_with_work() -> None:
    """Two items meet at a barrier, which one thread alone never passes."""
    barrier = threading.Barrier(2, timeout=20)

    def work(item: int) -> int:
        barrier.wait()
        return item

    assert list(Pipelined(iter(range(6)), work, lambda: None, threads=2, depth=3)) == list(range(6))


def test_an_exception_of_work_stands_where_its_result_would() -> None:
    """Results before it are given, it is raised, and that was all."""

    def work(item: int) -> int:
        if item == 3:
            raise KeyError("three")
        return item

    results = Pipelined(iter(range(100)), work, lambda: None, threads=2, depth=6)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="three"):
        next(results)
    assert list(results) == []


def test_an_exception_of_the_iterable_comes_after_its_items() -> None:
    """Items pulled before the failure are still processed and returned."""

    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("no more files")

    results = stream(items(), depth=9)
    assert [next(results), next(results)] == [1, 4]
    with pytest.raises(OSError, match="no more files"):
        next(results)


def test_closing_stops_what_is_under_way() -> None:
    """`stop` is called, calls under way are awaited, waiting ones never begin, and nothing more is pulled."""
    stopped, begun, ended, log = threading.Event(), threading.Event(), [], []

    def work(item: int) -> int:
        log.append(item)
        if item:
            begun.set()
            assert stopped.wait(20)
            ended.append(item)
        return item

    results = Pipelined(iter(range(100)), work, stopped.set, threads=1, depth=5)
    next(results)
    assert begun.wait(20)
    results.close()
    assert (log, ended) == ([0, 1], [1])
    assert list(results) == []


@pytest.mark.parametrize("how", ["exhausted", "closed", "dropped", "left"])
def test_threads_end_with_their_stream(how: str) -> None:
    """No thread is left behind, and the iterable is let go."""
    before = set(mine())

    def items() -> Iterator[int]:
        yield from range(10)

    source = items()
    gone = weakref.ref(source)
    results = stream(source)
    del source
    next(results)
    if how == "exhausted":
        assert len(list(results)) == 9
    elif how == "closed":
        results.close()
    elif how == "left":
        with results:
            pass
    if how == "dropped":
        del results
    assert until(lambda: not set(mine()) - before)
    gc.collect()
    assert until(lambda: gone() is None)


def test_closing_does_not_wait_for_the_iterable() -> None:
    """An iterable that waits forever, perhaps for a socket, does not block the caller."""
    waiting = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        waiting.wait(20)
        yield 2

    results = stream(items())
    assert next(results) == 1
    start = time.monotonic()
    results.close()
    assert time.monotonic() - start < 10
    waiting.set()


def test_another_thread_may_close() -> None:
    free = threading.Event()
    results = Pipelined(iter(range(3)), lambda item: free.wait(20) and item, free.set, threads=1, depth=2)
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(results))
    reader.start()
    time.sleep(0.02)
    results.close()
    reader.join(20)
    assert not reader.is_alive()


def test_a_context_of_the_caller_holds_in_all_threads() -> None:
    """Context variables are those of whoever began the stream."""
    import contextvars

    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def items() -> Iterator[str]:
        yield variable.get()

    results = Pipelined(items(), lambda item: item + variable.get(), lambda: None, threads=1, depth=1)
    assert list(results) == ["setset"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_that_the_stream_is_not_its_own() -> None:
    """Instead of waiting for threads that stayed in the parent."""
    results = stream(iter(range(10)))
    next(results)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            next(results)
        except InvalidArgument as error:
            code = 7 if "another process" in str(error) else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert list(results) == [number**2 for number in range(1, 10)]
