"""Memory for shapes seen before: bounded by bytes, what is shared counted once, what is used kept."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from ort_py_onednn.execution import shape_memory
from ort_py_onednn.execution.shape_memory import Entry, ShapeMemory
from providers.onednn.tests.models import model, node, open_session, run_plain


@dataclass(eq=False)
class _Part:
    nbytes: int


@dataclass
class _Owner:
    """Makes entries, and notes the names of those that were dropped."""

    dropped: list[str] = field(default_factory=list)

    def entry(self, name: str, nbytes: int, *shared: _Part, used: bool = False) -> Entry:
        made = Entry(nbytes, shared, lambda: self.dropped.append(name))
        made.used = used
        return made


def test_what_entries_share_counts_once() -> None:
    """And it stays counted until the last of them is gone."""
    memory, owner, part = ShapeMemory(1000), _Owner(), _Part(100)
    first, second = owner.entry("first", 10, part), owner.entry("second", 20, part)
    memory.add(first)
    memory.add(second)
    assert memory.nbytes == 130
    memory.remove(first)
    assert memory.nbytes == 120
    memory.remove(second)
    assert (memory.nbytes, len(memory)) == (0, 0)


def test_the_oldest_are_dropped_first() -> None:
    """The ones beyond the limit are released, and each is reported once."""
    memory, owner = ShapeMemory(30), _Owner()
    for name in "abcde":
        memory.add(owner.entry(name, 10))
    assert owner.dropped == ["a", "b"]
    assert memory.nbytes == 30


def test_the_heap_returns_its_pages_when_much_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each entry, and after what was dropped is gone."""
    owner, seen = _Owner(), list[list[str]]()
    monkeypatch.setattr(shape_memory, "_GIVE_BACK", 20)
    monkeypatch.setattr(shape_memory, "give_back", lambda: seen.append(list(owner.dropped)))
    memory = ShapeMemory(30)
    for name in "abcdefgh":
        memory.add(owner.entry(name, 10))
    assert seen == [["a", "b"], ["a", "b", "c", "d"]]


def test_an_entry_that_was_used_has_a_second_chance() -> None:
    """It takes the place of one that was just made."""
    memory, owner = ShapeMemory(30), _Owner()
    entries = {name: owner.entry(name, 10) for name in "abcd"}
    for name in "abc":
        memory.add(entries[name])
    entries["a"].used = True
    memory.add(entries["d"])
    assert owner.dropped == ["b"]


def test_the_newest_stays() -> None:
    """One that is larger than all that is allowed is kept until the next."""
    memory, owner = ShapeMemory(30), _Owner()
    memory.add(owner.entry("large", 100, used=True))
    assert (owner.dropped, memory.nbytes) == ([], 100)
    memory.add(owner.entry("small", 10))
    assert (owner.dropped, memory.nbytes) == (["large"], 10)


def test_an_entry_that_was_dropped_may_be_removed() -> None:
    """Its owner need not know which came first."""
    memory, owner = ShapeMemory(10), _Owner()
    first = owner.entry("first", 10)
    memory.add(first)
    memory.add(owner.entry("second", 10))
    memory.remove(first)
    assert memory.nbytes == 10


def test_removing_waits_for_nobody() -> None:
    """The garbage collector closes sessions wherever it runs, also while an entry is added."""
    memory, owner = ShapeMemory(100), _Owner()
    first = owner.entry("first", 10)
    memory.add(first)
    with memory._lock:
        memory.remove(first)
    memory.add(owner.entry("second", 20))
    assert memory.nbytes == 20


@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_run_while_others_make_their_memory_go(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Two sessions in two threads, with room for a single shape: each result is right."""
    from ort_py_onednn.execution.shape_memory import shape_memory

    monkeypatch.setattr(shape_memory, "allowed", 1)
    rng = np.random.default_rng(8)
    weights = {"w": rng.standard_normal((8, 8), np.float32)}
    data = model(
        [node("MatMul", "x w", "m"), node("Relu", "m", "y")],
        {"x": rng.standard_normal((3, 8), np.float32)},
        weights,
        dynamic=True,
    )
    feeds = [{"x": rng.standard_normal((rows, 8), np.float32)} for rows in range(1, 9)]
    wanted = [run_plain(data, one)[0] for one in feeds]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            for number, one in enumerate(feeds):
                if not np.allclose(session.run(None, one)[0], wanted[number], 1e-4, 1e-5):
                    wrong.append(number)

    with open_session(data, threads) as session:
        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not wrong
