"""Long kernels check the clock between parts of rows, in threads that help; without a limit there is no check."""

from __future__ import annotations

import contextvars
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from ort_py.errors import LimitError
from ort_py.limits import check_time, checking_time, in_checked_parts, is_checked, running_time
from ort_py.limits.running_time import contiguous_copy, refuse_ahead

pytestmark = pytest.mark.quick


def _over(ahead: float = 0.0) -> None:
    raise LimitError("over")


def test_nobody_is_asked_outside() -> None:
    """Without a run, and behind its end, a check does nothing."""
    check_time()
    with checking_time(_over), pytest.raises(LimitError):
        check_time()
    check_time()


def test_an_inner_block_asks_its_own() -> None:
    """The session inside of a kernel has a time of its own, or none."""
    with checking_time(_over):
        with checking_time(None):
            check_time()
        with pytest.raises(LimitError):
            check_time()


def test_threads_with_the_context_ask_too() -> None:
    """A thread that helps runs in a copy of the context."""
    seen: list[int] = []
    with checking_time(lambda ahead=0.0: seen.append(threading.get_ident())):
        thread = threading.Thread(target=contextvars.copy_context().run, args=(check_time,))
        thread.start()
        thread.join()
    assert len(seen) == 1
    assert seen[0] != threading.get_ident()


@pytest.mark.parametrize(("rows", "grain"), [(0, 1), (1, 1), (7, 1), (100, 30), (1000, 1), (1000, 2000), (5, 0)])
def test_parts_cover_the_rows_once(rows: int, grain: int) -> None:
    """In order, without gaps, none smaller than the grain, and not very many."""
    parts: list[tuple[int, int]] = []
    asked: list[None] = []
    with checking_time(lambda ahead=0.0: asked.append(None)):
        in_checked_parts(grain, lambda start, stop: parts.append((start, stop)))(0, rows)
    assert [one for start, stop in parts for one in range(start, stop)] == list(range(rows))
    assert all(stop - start >= min(grain, rows) for start, stop in parts)
    assert len(parts) == len(asked) <= 33


def test_the_function_itself_where_nobody_asks() -> None:
    def fn(start: int, stop: int) -> None:
        """Do nothing."""

    assert in_checked_parts(1, fn) is fn


def test_the_rest_is_not_begun() -> None:
    """The part in which the time ends is the last."""
    parts: list[int] = []

    def check(ahead: float = 0.0) -> None:
        if len(parts) == 3:
            _over()

    with checking_time(check), pytest.raises(LimitError):
        in_checked_parts(10, lambda start, _stop: parts.append(start))(0, 320)
    assert parts == [0, 10, 30]


def test_slow_parts_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part grows while parts end soon, and shrinks where they take long."""
    now = [0.0]
    monkeypatch.setattr(running_time, "time", SimpleNamespace(monotonic=lambda: now[0]))
    sizes: list[int] = []

    def work(start: int, stop: int) -> None:
        sizes.append(stop - start)
        now[0] += (stop - start) * (0.001 if start < 400 else 0.01)

    with checking_time(lambda ahead=0.0: None):
        in_checked_parts(10, work)(0, 800)
    assert sizes == [10, 20, *[40] * 11, 20, *[10] * 31]


def test_an_estimate_is_handed_on() -> None:
    """A kernel says how long its next call takes."""
    seen: list[float] = []
    assert not is_checked()
    with checking_time(lambda ahead=0.0: seen.append(ahead)):
        assert is_checked()
        check_time(2.5)
        check_time()
    assert seen == [2.5, 0.0]


def test_a_call_that_ends_after_twice_the_limit_is_refused() -> None:
    """Work that may end in time is started, because estimates are not exact."""
    refuse_ahead(1.9, 1.0, 1.0, "Limits.run_seconds")
    refuse_ahead(0.5, -0.4, 1.0, "Limits.run_seconds")
    with pytest.raises(LimitError, match=r"2\.1 s; 1 s of 1 s"):
        refuse_ahead(2.1, 1.0, 1.0, "Limits.run_seconds")


X = np.arange(60).reshape(3, 4, 5).transpose(2, 0, 1)


@pytest.mark.quick
@pytest.mark.parametrize("looked_at", [False, True])
def test_the_copy_is_equal_and_contiguous(monkeypatch: pytest.MonkeyPatch, looked_at: bool) -> None:
    """In parts or at once; text stays text."""
    monkeypatch.setattr(running_time, "_AT_A_TIME", 4)
    looks: list[None] = []

    def check(ahead: float = 0.0) -> None:
        looks.append(None)

    for array in (X, X.astype(str).astype(object)):
        with checking_time(check if looked_at else None):
            made = contiguous_copy(array)
        np.testing.assert_array_equal(made, array)
        assert made.flags.c_contiguous
        assert not np.shares_memory(made, array)
    assert bool(looks) == looked_at


@pytest.mark.quick
def test_the_rest_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is asked before each part."""
    monkeypatch.setattr(running_time, "_AT_A_TIME", 4)
    looks: list[None] = []

    def over(ahead: float = 0.0) -> None:
        looks.append(None)
        if len(looks) == 2:
            raise LimitError("over")

    with checking_time(over), pytest.raises(LimitError):
        contiguous_copy(X)
    assert len(looks) == 2
