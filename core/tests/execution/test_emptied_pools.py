"""Pools that report when the last frame is back: at once, or on the thread that returns it."""

from __future__ import annotations

import threading

import pytest

from core.tests.driving import drive
from ort_py.errors import InvalidArgument
from ort_py.execution.frame import FramePool

TEXT = "g (float[n] x) => (float[n] y) { y = Neg(x) }"


def pool() -> FramePool:
    """The pool of a small program."""
    return drive(TEXT).pool


def test_an_idle_pool_says_so_at_once() -> None:
    """Closing it has closed its frames."""
    found, told = pool(), []
    found.give_back(found.take())
    found.close()
    found.when_empty(lambda: told.append(1))
    assert told == [1]


def test_a_pool_with_runs_under_way_says_so_once_later() -> None:
    """When the last of them ends, and never again."""
    found, told = pool(), []
    frames = [found.take() for _ in range(3)]
    found.close()
    found.when_empty(lambda: told.append(threading.get_ident()))
    found.give_back(frames[0])
    found.discard(frames[1])
    assert told == []
    thread = threading.Thread(target=found.give_back, args=(frames[2],))
    thread.start()
    thread.join()
    assert told == [thread.ident]
    found.trim()
    assert len(told) == 1


def test_an_annex_lives_with_its_pool() -> None:
    """Frames of a pool's annex are counted, closed and waited for with its own."""
    main = pool()
    annex = main.annex(drive("g (float[4] x) => (float[4] y) { y = Neg(x) }").program)
    annex.give_back(annex.take())
    main.trim()
    frame = annex.take()
    main.close()
    emptied: list[bool] = []
    main.when_empty(lambda: emptied.append(True))
    assert not emptied
    annex.give_back(frame)
    assert emptied == [True]
    with pytest.raises(InvalidArgument, match="closed"):
        annex.take()
