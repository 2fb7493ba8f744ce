"""Handles: one for each thread and device, on the stream of each call, ended with their thread."""

from __future__ import annotations

import os
import threading

import pytest

from ort_py_cuda.cudnn import handles
from ort_py_cuda.cudnn.handles import Handles


class _Library:
    def __init__(self) -> None:
        self.made: list[int] = []
        self.ended: list[int] = []
        self.streams: list[tuple[int, int]] = []
        self.handles = Handles(self._create, self.ended.append, lambda one, stream: self.streams.append((one, stream)))

    def _create(self) -> int:
        self.made.append(len(self.made) + 1)
        return self.made[-1]


def test_a_thread_keeps_its_handle() -> None:
    """The second call makes none, and sets the stream again."""
    library = _Library()
    assert library.handles.on(0, 5) == library.handles.on(0, 6) == 1
    assert library.streams == [(1, 5), (1, 6)]


def test_devices_have_handles_of_their_own() -> None:
    """A handle belongs to the device that was current when it was made."""
    library = _Library()
    assert [library.handles.on(device, 0) for device in (0, 1, 0)] == [1, 2, 1]


def test_threads_have_handles_of_their_own_that_end_with_them() -> None:
    """Two threads share none; a thread's handle is destroyed when it is gone."""
    library = _Library()
    mine = library.handles.on(0, 0)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(library.handles.on(0, 0)))
    thread.start()
    thread.join()
    assert found != [mine]
    assert library.ended == found


def test_a_forked_process_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handles of the parent belong to the parent, which uses and ends them."""
    library = _Library()
    first = library.handles.on(0, 0)
    monkeypatch.setattr("ort_py_cuda.cudnn.handles.os.getpid", lambda: -1)
    assert library.handles.on(0, 0) != first
    handles._end(first, library.ended.append, 12345)
    assert library.ended == []
    assert os.getpid() == -1
