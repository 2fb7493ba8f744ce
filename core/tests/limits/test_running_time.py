"""Long kernels check the clock between parts of rows, in threads that help; without a limit there is no check."""

from __future__ import annotations

import contextvars
import threading

import pytest

from ort_py.errors import LimitError
from ort_py.limits import in_looked_at_parts, look, looking

pytestmark = pytest.mark.quick


def _over() -> None:
    raise LimitError("over")


def test_nobody_is_asked_outside() -> None:
    """Without a run, and behind its end, looking does nothing."""
    look()
    with looking(_over), pytest.raises(LimitError):
        look()
    look()


def test_an_inner_block_asks_its_own() -> None:
    """The session inside of a kernel has a time of its own, or none."""
    with looking(_over):
        with looking(None):
            look()
        with pytest.raises(LimitError):
            look()


def test_threads_with_the_context_ask_too() -> None:
    """A thread that helps runs in a copy of the context."""
    seen: list[int] = []
    with looking(lambda: seen.append(threading.get_ident())):
        thread = threading.Thread(target=contextvars.copy_context().run, args=(look,))
        thread.start()
        thread.join()
    assert len(seen) == 1
    assert seen[0] != threading.get_ident()


@pytest.mark.parametrize(("rows", "grain"), [(0, 1), (1, 1), (7, 1), (100, 30), (1000, 1), (1000, 2000), (5, 0)])
def test_parts_cover_the_rows_once(rows: int, grain: int) -> None:
    """In order, without gaps, none smaller than the grain, and not very many."""
    parts: list[tuple[int, int]] = []
    asked: list[None] = []
    with looking(lambda: asked.append(None)):
        in_looked_at_parts(rows, grain, lambda start, stop: parts.append((start, stop)))(0, rows)
    assert [one for start, stop in parts for one in range(start, stop)] == list(range(rows))
    assert all(stop - start >= min(grain, rows) for start, stop in parts)
    assert len(parts) == len(asked) <= 33


def test_the_function_itself_where_nobody_asks() -> None:
    def fn(start: int, stop: int) -> None:
        """Do nothing."""

    assert in_looked_at_parts(1000, 1, fn) is fn


def test_the_rest_is_not_begun() -> None:
    """The part in which the time ends is the last."""
    parts: list[int] = []

    def check() -> None:
        if len(parts) == 3:
            _over()

    with looking(check), pytest.raises(LimitError):
        in_looked_at_parts(320, 10, lambda start, _stop: parts.append(start))(0, 320)
    assert parts == [0, 10, 20]
