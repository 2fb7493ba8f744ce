"""Memory that is asked for ahead."""

from __future__ import annotations

import threading

import pytest

from ort_py_onednn.binding import openmp, room
from ort_py_onednn.binding.library import open_library
from ort_py_onednn.binding.room import has_room, leave_room, room_for_threads

_ABSURD = 1 << 62


def test_there_is_room_for_little_and_none_for_the_absurd() -> None:
    """More than any address space has."""
    assert has_room(1 << 20)
    assert not has_room(_ABSURD)


def test_threads_take_their_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is that of OpenMP's variable, in kilobytes without a unit."""
    asked: list[int] = []

    def noted(nbytes: int) -> bool:
        asked.append(nbytes)
        return True

    monkeypatch.setattr(room, "has_room", noted)
    assert room_for_threads(2)
    for text, nbytes in (("65536", 64 << 20), ("1G", 1 << 30), (" 512 m ", 512 << 20)):
        monkeypatch.setenv("OMP_STACKSIZE", text)
        assert room_for_threads(1)
        assert asked[-1] >= nbytes
    assert asked[0] >= 2 * (8 << 20)
    assert room_for_threads(0)


def test_what_takes_much_leaves_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that is limited; little is not looked at."""
    leave_room(_ABSURD)
    monkeypatch.setattr(room, "_limit", lambda _: 1 << 60)
    with pytest.raises(MemoryError, match="There is no memory for"):
        leave_room(_ABSURD)
    monkeypatch.setattr(room, "has_room", lambda _: False)
    leave_room(4096)


def test_a_team_without_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread that has none yet; a team that is there is not asked for again."""
    library = open_library()
    if not library.threaded:
        pytest.skip("this build of oneDNN has no threads")
    found: list[object] = []

    def ask() -> None:
        openmp.prepare(library, 2)
        monkeypatch.setattr(openmp, "room_for_threads", lambda _: False)
        openmp.prepare(library, 2)
        try:
            openmp.prepare(library, 3)
        except MemoryError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert "1 more threads" in str(found[0])
