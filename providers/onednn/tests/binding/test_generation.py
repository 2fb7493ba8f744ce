"""Code of primitives: made when it is wanted, by several threads where there are some, and errors come back."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from ort_py.errors import EPFail
from ort_py_onednn.binding import primitives, remembered
from ort_py_onednn.binding.calls import Call, CallList
from ort_py_onednn.binding.constants import Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.generation import Generation
from ort_py_onednn.binding.openmp import threads
from ort_py_onednn.binding.primitive import Function, Primitive


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    """Primitives of other tests have their code already."""
    remembered.forget()


def _some(count: int) -> list[Primitive]:
    descs = [Desc.plain((3, 5 + number)) for number in range(count)]
    return [primitives.eltwise(Function(Eltwise.TANH), desc, desc) for desc in descs]


def _planned(count: int, failure: Exception | None = None) -> None:
    with Generation(count) as generation:
        for primitive in _some(30):
            generation.add(primitive)
        if failure is not None:
            raise failure


def _ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ort-py-onednn-code"]


def test_a_description_generates_nothing() -> None:
    """Planning asks for more than it keeps; layouts and the name of the code are known without code."""
    (primitive,) = _some(1)
    assert primitive.implementation
    assert primitive.arguments
    assert not primitive.is_generated


def test_the_handle_has_its_code() -> None:
    """Users of a primitive do not depend on its generation; the code is made once."""
    (primitive,) = _some(1)
    handle = primitive.handle
    assert primitive.is_generated
    assert primitive.handle is handle


@pytest.mark.parametrize("count", [1, 2, 5])
def test_everything_is_generated_when_the_block_is_left(count: int) -> None:
    """With any number of threads, of which none is left behind for a fork to find."""
    made = _some(20)
    with Generation(count) as generation:
        for primitive in (*made, made[0]):
            generation.add(primitive)
    assert all(primitive.is_generated for primitive in made)
    assert not _ours()


def test_other_threads_begin_before_the_planner_is_done() -> None:
    """Kept primitives are generated while planning continues."""
    made = _some(20)
    with Generation(2) as generation:
        for primitive in made:
            generation.add(primitive)
        (worker,) = _ours()
        for _ in range(10_000):
            if made[0].is_generated:
                break
            worker.join(0.001)
        assert made[0].is_generated


def test_one_thread_starts_no_other() -> None:
    """A session of one thread stays one."""
    with Generation(1) as generation:
        for primitive in _some(12):
            generation.add(primitive)
        assert not _ours()


def test_code_is_for_the_threads_of_its_description(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for those of the thread that generates it, whose own number stays as it was."""
    library = engine().library
    if not library.threaded:
        pytest.skip("this libdnnl has no OpenMP threads")
    made: list[tuple[object, ...]] = []

    def observed(calls: Sequence[Call], names: Sequence[str], kind: str) -> CallList:
        made.extend(arguments for _, arguments, checked in calls if not checked)
        return CallList(calls, names, kind)

    monkeypatch.setattr("ort_py_onednn.binding.primitive.CallList", observed)
    with threads(library, 2):
        (primitive,) = _some(1)
    with threads(library, 1):
        primitive.generate()
        assert library.c.omp_get_max_threads() == 1
    assert made == [(2,)]


def test_a_batch_leaves_out_what_another_thread_is_at() -> None:
    """It does not wait, and the rest is made in one call."""
    first, second = _some(2)
    with first._lock:
        Primitive.generate_together([first, second, second])
    assert second.is_generated
    assert not first.is_generated


def test_what_another_thread_began_is_there_when_the_block_is_left() -> None:
    """Plans share primitives: two may be made at once that need the same one."""
    (primitive,) = _some(1)
    primitive._lock.acquire()
    later = threading.Timer(0.05, primitive._lock.release)
    later.start()
    with Generation(1) as generation:
        generation.add(primitive)
    later.join()
    assert primitive.is_generated


@pytest.mark.parametrize("count", [1, 3])
def test_a_failure_is_raised_where_the_plan_is_made(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever thread met it, and no thread is left."""

    def fail(*_: object) -> None:
        raise EPFail("dnnl_primitive_create failed: out of luck.")

    monkeypatch.setattr(Primitive, "_generate", fail)
    with pytest.raises(EPFail, match="out of luck"):
        _planned(count)
    assert not _ours()


def test_a_plan_that_fails_leaves_nothing_running() -> None:
    """Its own error is the one that is seen."""
    with pytest.raises(KeyError, match="planning"):
        _planned(3, KeyError("planning"))
    assert not _ours()
