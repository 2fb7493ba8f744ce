"""Freed memory stays with the process, and goes back when asked; each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import ort_py as ort
from core.tests.driving import model_of
from ort_py.platform import heap

_PRELUDE = """
import resource
import numpy as np
from ort_py.platform.heap import give_back, keep_freed_memory
def faults(rounds=50):
    for _ in range(3):
        np.empty(1 << 21, np.uint8).fill(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        np.empty(1 << 21, np.uint8).fill(1)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / rounds
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20
"""

needs_glibc = pytest.mark.skipif(heap._glibc() is None, reason="another C library: there is nothing to set")


def _answer(code: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in heap._CHOSEN_ELSEWHERE}
    script = _PRELUDE + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**clean, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_glibc
def test_arrays_of_one_size_are_paid_for_once() -> None:
    """Hardly any of the 512 pages of an array of 2 MB is asked of the system again."""
    assert float(_answer("keep_freed_memory(); print(faults())")) < 16


@needs_glibc
def test_it_is_done_once() -> None:
    """Further calls answer what the first did."""
    assert _answer("print(keep_freed_memory(), keep_freed_memory())") == "True True"


@needs_glibc
def test_what_is_kept_goes_back_when_asked() -> None:
    """After many arrays were freed, a call returns their memory."""
    code = """
    keep_freed_memory()
    arrays = [np.ones(1 << 22, np.uint8) for _ in range(40)]
    del arrays
    kept = resident()
    print(give_back(), kept - resident() > 100)
    """
    assert _answer(code) == "True True"


def test_only_the_first_session_gives_free_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later ones would take it from runs of others."""
    calls: list[str] = []

    def give_back() -> bool:
        calls.append("given back")
        return True

    monkeypatch.setattr(heap, "give_back", give_back)
    heap.give_back_once.cache_clear()
    for _ in range(2):
        ort.InferenceSession(model_of("g (float[3] x) => (float[3] y) { y = Relu(x) }").SerializeToString())
    assert len(calls) == 1


@needs_glibc
@pytest.mark.parametrize("name", heap._CHOSEN_ELSEWHERE)
def test_an_operator_s_own_choice_stands(name: str) -> None:
    """The environment has decided: nothing is changed."""
    value = "glibc.malloc.trim_threshold=131072" if name == "GLIBC_TUNABLES" else "131072"
    assert _answer("print(keep_freed_memory())", **{name: value}) == "False"


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the calls are missing, both say that nothing was done."""
    monkeypatch.setattr(heap, "_glibc", lambda: None)
    heap._keep.cache_clear()
    assert not heap.keep_freed_memory()
    assert not heap.give_back()
    heap._keep.cache_clear()


_FLAGS = """
def asked_for_huge_pages():
    with open("/proc/self/smaps") as file:
        return any(line.startswith("VmFlags:") and " hg" in line for line in file)
before = asked_for_huge_pages()
"""

needs_huge_pages = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="the system has no huge pages to give"
)


@needs_glibc
@needs_huge_pages
def test_the_heap_asks_for_huge_pages() -> None:
    """It takes no memory before something is written to them."""
    code = "start = resident()\nkeep_freed_memory()\nprint(before, asked_for_huge_pages(), resident() - start < 4)"
    assert _answer(_FLAGS + code) == "False True True"


@needs_glibc
@needs_huge_pages
def test_a_process_with_limited_addresses_gets_no_more_heap_than_it_needs() -> None:
    code = """
    resource.setrlimit(resource.RLIMIT_AS, (1 << 34, 1 << 34))
    print(keep_freed_memory(), asked_for_huge_pages())
    """
    assert _answer(_FLAGS + textwrap.dedent(code)) == "True False"
