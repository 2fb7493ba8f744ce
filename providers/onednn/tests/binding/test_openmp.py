"""OpenMP's threads: a number for each calling thread, and teams of a given size for own code."""

from __future__ import annotations

import threading

import pytest

from ort_py_onednn.binding import openmp
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import CallList
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.flags import INVALID, Flags, can_look
from ort_py_onednn.binding.library import Library, open_library

_COUNT = bytes.fromhex("f30f1efa f0ff07 31c0 c3")  # endbr64; lock inc dword [rdi]; xor eax, eax; ret

_DIVIDE = bytes.fromhex(
    "f30f1efa"  # endbr64
    "b801000000"  # mov eax, 1
    "f00fc107"  # lock xadd [rdi], eax
    "83f802"  # cmp eax, 2
    "750d"  # jne end
    "837f0400"  # cmp dword [rdi + 4], 0
    "7407"  # je end
    "0f57c0"  # xorps xmm0, xmm0
    "f30f5ec0"  # divss xmm0, xmm0
    "31c0c3"  # end: xor eax, eax; ret
)
"""``void divide(struct { int calls, divides; } *)``: the third thread that calls it divides 0 by 0, if it is to."""


@pytest.fixture
def library() -> Library:
    """One with threads."""
    found = open_library()
    if not found.threaded:
        pytest.skip("this build of oneDNN has no threads")
    return found


def test_numbers_of_threads_are_those_of_the_calling_thread(library: Library) -> None:
    """A number that one thread sets does not show in another, and ends with the block."""
    seen: list[int] = []
    before = library.c.omp_get_max_threads()
    with openmp.threads(library, 3):
        other = threading.Thread(target=lambda: seen.append(library.c.omp_get_max_threads()))
        other.start()
        other.join()
        assert library.c.omp_get_max_threads() == 3
    assert library.c.omp_get_max_threads() == before
    assert seen != [3]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_team_calls_a_function_once_a_thread(library: Library, count: int) -> None:
    """Whatever number the calling thread has set."""
    function = executable(_COUNT)
    if not function:
        pytest.skip("the system allows no executable memory")
    calls = ffi.new("int *")
    with openmp.threads(library, 2):
        library.c.GOMP_parallel(ffi.cast("void *", function), calls, count, 0)
    assert calls[0] == count


def test_flags_of_a_team_are_those_of_its_own_caller(library: Library) -> None:
    """Several threads form teams at the same time; what one of a team raised shows in the run of its caller."""
    if not can_look(library):
        pytest.skip("the system allows no executable memory")
    function = executable(_DIVIDE)
    wrong: list[tuple[int, int]] = []

    def run(divides: int) -> None:
        flags, given = Flags(library), ffi.new("int[2]", [0, divides])
        team = library.c.GOMP_parallel, (function, given, 3, 0), False
        calls = CallList([flags.forget(INVALID), team, flags.note(INVALID, 3)], ["", "", ""])
        openmp.prepare(library, 3)
        for _ in range(500):
            given[0] = 0
            calls.run()
            raised = flags.raised()
            if raised != divides * INVALID:
                wrong.append((divides, raised))

    threads = [threading.Thread(target=run, args=(divides,)) for divides in (1, 0, 1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
