"""OpenMP's threads: a number for each calling thread, and teams of a given size for own code."""

from __future__ import annotations

import threading

import pytest

from ort_py_onednn.binding import openmp
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.library import Library, open_library

_COUNT = bytes.fromhex("f30f1efa f0ff07 31c0 c3")  # endbr64; lock inc dword [rdi]; xor eax, eax; ret


@pytest.fixture
def library() -> Library:
    """One with threads."""
    found = open_library()
    if not found.threaded:
        pytest.skip("this build of oneDNN has no threads")
    return found


def test_numbers_of_threads_are_those_of_the_calling_thread(library: Library) -> None:
    """What one thread sets does not show in another, and ends with the block."""
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
