"""Collection is off while a graph is built, and what was made meanwhile is collected when it is garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tests.interpreters import answer
from ort_py import collection
from ort_py.collection import paused_collection

pytestmark = pytest.mark.quick


class _Part:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_it_is_off_inside_and_on_behind() -> None:
    """A block that finds it off leaves it off."""
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.fixture
def small_heap() -> Iterator[None]:
    """Collections do not look at what is there already: with the heap of thousands of tests each takes a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("small_heap")
def test_what_became_garbage_is_collected_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that are built and dropped one after the other do not pile up: few of a hundred are there at the end."""
    monkeypatch.setattr(collection, "_LEAST", 2000)
    gc.collect()
    monkeypatch.setattr(collection, "_uncounted", collection._Uncounted())
    monkeypatch.setattr(collection._uncounted, "_old", 0)
    seen: list[weakref.ref[_Part]] = []
    for _ in range(100):
        with paused_collection():
            parts = [_Part() for _ in range(1000)]
            seen.append(weakref.ref(parts[0]))
            del parts
        collection._uncounted._old = 0  # a heap of tests is large: a quarter of it is more than is made here
    assert sum(one() is not None for one in seen) < 10


def test_a_large_heap_is_not_collected_for_a_small_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the old objects have to be new, as for Python itself."""
    monkeypatch.setattr(collection, "_LEAST", 10)
    uncounted = collection._Uncounted()
    uncounted.collect()
    uncounted._old = 10**9
    uncounted.add(1000)
    before = gc.get_stats()[-1]["collections"]
    uncounted.collect()
    assert gc.get_stats()[-1]["collections"] == before


def test_frozen_objects_stay_frozen_and_are_counted_once() -> None:
    """A program may have frozen its objects for a fork; counting millions of them takes milliseconds."""
    code = (
        "import gc\n"
        "from ort_py.collection import paused_collection\n"
        "gc.freeze()\n"
        "counts, count = [], gc.get_freeze_count\n"
        "gc.get_freeze_count = lambda: counts.append(1) or count()\n"
        "for _ in range(5):\n"
        "    with paused_collection():\n"
        "        pass\n"
        "print(len(counts), count() > 0)\n"
    )
    assert answer(code) == "1 True"


def test_other_threads_may_make_tuples_meanwhile() -> None:
    """A tuple that is being made of a generator has one owner, or it cannot be finished."""
    code = (
        "import sys, threading\n"
        "from ort_py import collection\n"
        "heap = [[] for _ in range(20_000)]\n"
        "collection._LEAST = 0\n"
        "sys.setswitchinterval(1e-5)\n"
        "ended = []\n"
        "def count():\n"
        "    for _ in range(300):\n"
        "        collection._uncounted._old = 0\n"
        "        collection._uncounted.add(1)\n"
        "        collection._uncounted.collect()\n"
        "    ended.append(True)\n"
        "threading.Thread(target=count).start()\n"
        "made = 0\n"
        "while not ended:\n"
        "    made += len(tuple(one for one in range(1000)))\n"
        "print(made > 0)\n"
    )
    assert answer(code) == "True"


def test_importing_looks_through_nothing_that_was_imported_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy leaves thousands of young objects: a collection of them takes a millisecond and finds nothing.

    Modules are compiled in a process before, since compiling makes objects, too. There are no young objects
    when it begins, however many this NumPy has made.
    """
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    code = (
        "import gc, numpy\n"
        "seen = []\n"
        "gc.collect()\n"
        "gc.callbacks.append(lambda phase, facts: seen.append(facts['generation']) if phase == 'start' else None)\n"
        "import ort_py\n"
        "ort_py.InferenceSession, ort_py.SessionOptions\n"
        "print(seen)"
    )
    answer(code)
    assert answer(code) == "[]"
