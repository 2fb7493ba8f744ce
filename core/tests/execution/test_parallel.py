"""One run on several threads: the same bits as one after another, whatever the order; failures, stops, releases."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.driving import Driven, HostProvider, drive, floats
from core.tests.execution.random_graphs import feeds, graphs
from ort_py.contracts import KernelDef
from ort_py.engine.runner import finish_result
from ort_py.errors import ExecutionError, Fail, InvalidArgument, KernelInputError, LimitError, OrtPyError
from ort_py.execution.parallel import run_tasks
from ort_py.execution.row_splitter import RowSplitter
from ort_py.execution.task_program import TaskProgram
from ort_py.execution.thread_pool import pool_of
from ort_py.execution.watch import RunWatch
from ort_py.planning.dependencies import dependencies_of
from ort_py.planning.lanes import Arrangement, LaneTask, arrange
from ort_py.profiling.recorder import Recorder
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider, fake_kernels

LANES = 3


@pytest.fixture(autouse=True)
def threads_are_free() -> None:
    """Threads of the run before count as busy until they have left it, and a busy thread is not invited."""
    wait_for_threads()


def wait_for_threads() -> None:
    """Wait until all threads of the pool are free."""
    while pool_of(LANES).free() < LANES - 1:
        time.sleep(0.001)


def one_task_a_step(driven: Driven) -> TaskProgram:
    """The most that can happen at the same time: every step may run as soon as its inputs are there."""
    dependencies = dependencies_of(driven.plan)
    tasks = tuple(
        LaneTask((step,), waits, step in dependencies.pinned) for step, waits in enumerate(dependencies.waits)
    )
    return TaskProgram(driven.plan, Arrangement(tasks, 0))


def run_parallel(
    driven: Driven, values: dict[str, Any], program: TaskProgram | None = None, watch: RunWatch | None = None
) -> list[Any]:
    """A run on up to three threads; the frame is looked at afterwards."""
    program = program or one_task_a_step(driven)
    frame = driven.pool.take()
    frame.watch = watch
    try:
        for value in driven.plan.inputs:
            frame.slots[value.slot] = values[value.name]
        run_tasks(frame, program, LANES, pool_of(LANES))
        results = [finish_result(frame.slots[value.slot], value.copy) for value in driven.plan.outputs]
    except BaseException:
        driven.pool.discard(frame)
        raise
    frame.watch = None
    frame.clear()
    kept = [value for step in driven.plan.steps for slot in step.release if (value := frame.slots[slot]) is not None]
    assert not kept, "a slot was not released"
    driven.pool.give_back(frame)
    return results


def assert_same(got: list[Any], wanted: list[Any]) -> None:
    """Equal to the last bit."""
    assert [value.tobytes() for value in got] == [value.tobytes() for value in wanted]


@settings(derandomize=True, max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 7))
def test_parallel_equals_sequential(text: str, seed: int) -> None:
    """Random graphs with views, several outputs and control flow; every step a task of its own."""
    driven = drive(text)
    wanted = driven.run(feeds(seed))
    for _ in range(3):
        assert_same(run_parallel(driven, feeds(seed)), wanted)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(graphs(), st.integers(0, 7), st.data())
def test_any_times_give_the_same_results(text: str, seed: int, data: st.DataObject) -> None:
    """Tasks made from any times, right or wrong, are only another order."""
    driven = drive(text)
    dependencies = dependencies_of(driven.plan)
    count = len(driven.plan.steps)
    times = data.draw(st.lists(st.integers(0, 200_000), min_size=count, max_size=count))
    program = TaskProgram(driven.plan, arrange(dependencies, times, LANES, 1000))
    assert_same(run_parallel(driven, feeds(seed), program), driven.run(feeds(seed)))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 7), st.sets(st.sampled_from(["Add", "MatMul", "Tanh", "Neg", "Split"]), min_size=1))
def test_steps_on_a_device_with_a_stream_stay_in_order(text: str, seed: int, operators: set[str]) -> None:
    """Parts of the graph on a device that works late and poisons what is free: the results are the host's."""
    driven = drive(text, FakeProvider(behaviour=FakeBehaviour(operators=operators)), HostProvider())
    assert_same(run_parallel(driven, feeds(seed)), drive(text).run(feeds(seed)))


@pytest.mark.parametrize("compiles", [False, True])
def test_eight_threads_run_in_parallel_at_the_same_time(compiles: bool) -> None:
    """Each with a frame of its own, on one pool."""
    text = """g (float[8,8] x, float[8,8] w) => (float[8,8] y) {
      a = MatMul(x, w) b = Tanh(w) c = Neg(x) d = Add(b, c) y = Add(a, d) }"""
    provider = FakeProvider(behaviour=FakeBehaviour(operators={"MatMul", "Neg"}, compiles=compiles))
    driven = drive(text, provider, HostProvider())
    program, failures = one_task_a_step(driven), []

    def work(seed: int) -> None:
        values = {"x": floats(8, 8, seed=seed), "w": floats(8, 8, seed=seed + 50)}
        wanted = np.matmul(values["x"], values["w"]) + (np.tanh(values["w"]) - values["x"])
        try:
            for _ in range(20):
                np.testing.assert_allclose(run_parallel(driven, values, program)[0], wanted, rtol=1e-4, atol=1e-5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


# -- what kernels do to a run ------------------------------------------------------------------------------------


def hooked(**hooks: Callable[[Any], Any]) -> HostProvider:
    """A provider whose operators of these names call a function of their input instead."""

    def definition(one: KernelDef) -> KernelDef:
        hook = hooks.get(one.op_type)
        return one if hook is None else replace(one, factory=lambda _ctx: hook)

    return HostProvider([definition(one) for one in fake_kernels()])


BRANCHES = "g (float[4] x) => (float[4] y) { a = Exp(x) b = Sqrt(x) y = Add(a, b) }"
X = {"x": np.array([1, 4, 9, 16], np.float32)}


def test_branches_run_at_the_same_time() -> None:
    """Two steps meet at a barrier, which one thread alone never passes."""
    barrier = threading.Barrier(2, timeout=20)

    def meet(x: Any) -> Any:
        barrier.wait()
        return x

    (y,) = run_parallel(drive(BRANCHES, hooked(Exp=meet, Sqrt=meet)), X)
    np.testing.assert_array_equal(y, 2 * X["x"])


def test_an_exception_has_its_place_and_the_session_goes_on() -> None:
    """The error has the node, its inputs, and the kernel's exception as the cause, like that of a sequential run."""
    broken = [True]

    def fail(x: Any) -> Any:
        if broken:
            raise ZeroDivisionError("nothing")
        return x

    driven = drive(BRANCHES, hooked(Sqrt=fail))
    with pytest.raises(ExecutionError, match=r"Sqrt '.*' failed: ZeroDivisionError: nothing") as caught:
        run_parallel(driven, X)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "input 0: float32 (4,)" in str(caught.value)
    broken.clear()
    np.testing.assert_array_equal(run_parallel(driven, X)[0], np.exp(X["x"]) + X["x"])


def test_a_refusal_is_the_kernels_own() -> None:
    """A kernel that refuses its input says so in the class that applications wait for."""

    def refuse(_x: Any) -> Any:
        raise InvalidArgument("no", fix="none")

    with pytest.raises(KernelInputError, match="no"):
        run_parallel(drive(BRANCHES, hooked(Exp=refuse)), X)


def test_the_first_failure_in_the_plan_is_raised() -> None:
    """Both branches fail at the same time; the raised error does not depend on chance."""
    barrier = threading.Barrier(2, timeout=20)

    def failing(message: str) -> Callable[[Any], Any]:
        def fail(_x: Any) -> Any:
            barrier.wait()
            raise ValueError(message)

        return fail

    driven = drive(BRANCHES, hooked(Exp=failing("first"), Sqrt=failing("second")))
    for _ in range(5):
        wait_for_threads()
        with pytest.raises(ExecutionError, match="first"):
            run_parallel(driven, X)


def test_nothing_runs_on_after_a_failure() -> None:
    """The other branch is awaited, and what would have come after it does not begin."""
    begun, done = threading.Event(), []

    def slow(x: Any) -> Any:
        begun.set()
        threading.Event().wait(0.05)
        done.append("slow")
        return x

    def fail(_x: Any) -> Any:
        assert begun.wait(20)
        raise ValueError("now")

    def after(x: Any) -> Any:
        done.append("after")
        return x

    text = "g (float[4] x) => (float[4] y) { a = Exp(x) b = Sqrt(x) c = Tanh(b) y = Add(a, c) }"
    with pytest.raises(ExecutionError, match="now"):
        run_parallel(drive(text, hooked(Exp=fail, Sqrt=slow, Tanh=after)), X)
    assert done == ["slow"]


def test_ctrl_c_waits_for_the_other_threads() -> None:
    """An interruption of the thread that began the run: the others end their step, no new one begins."""
    begun, done = threading.Event(), []

    def interrupt(x: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            threading.Event().wait(0.05)
            done.append("ended")
            return x
        assert begun.wait(20)
        raise KeyboardInterrupt

    driven = drive(BRANCHES, hooked(Exp=interrupt, Sqrt=interrupt))
    with pytest.raises(KeyboardInterrupt):
        run_parallel(driven, X)
    assert done == ["ended"]


def test_a_step_that_splits_its_rows_does_not_wait_for_busy_threads() -> None:
    """All threads of the pool are in steps; whoever splits does the rows itself, and shares them with who is free."""
    splitter, lock = RowSplitter(LANES), threading.Lock()
    rows: list[int] = []

    def split(x: Any) -> Any:
        def part(start: int, stop: int) -> None:
            with lock:
                rows.extend(range(start, stop))

        for _ in range(20):
            splitter(60, 1, part)
        return x

    run_parallel(drive(BRANCHES, hooked(Exp=split, Sqrt=split)), X)
    assert sorted(rows) == sorted(list(range(60)) * 40)


def test_what_no_later_task_uses_goes_with_its_last_user() -> None:
    """A value that two branches read is dropped when both have ended, before the run has."""
    alive: list[weakref.ref[Any]] = []
    seen: list[bool] = []

    class Watched(np.ndarray[Any, Any]):
        """An array that can be watched dying."""

    def make(x: Any) -> Any:
        value = x.copy().view(Watched)
        alive.append(weakref.ref(value))
        return value

    def look(x: Any) -> Any:
        gc.collect()
        seen.append(alive[0]() is None)
        return x

    text = """g (float[4] x) => (float[4] y) {
      m = Exp(x) a = Neg(m) b = Abs(m) c = Add(a, b) d = Sqrt(c) y = Identity(d) }"""
    run_parallel(drive(text, hooked(Exp=make, Sqrt=look)), X)
    assert seen == [True]


def test_late_comers_keep_nothing_alive() -> None:
    """A thread that was invited and comes when the run is over finds nothing of it."""

    class Late:
        """A pool that makes calls on request."""

        def __init__(self) -> None:
            self.calls: list[Callable[[], Any]] = []

        def offer(self, call: Callable[[], Any], count: int) -> int:
            """Keep the calls."""
            self.calls += [call] * count
            return count

    class Watched(np.ndarray[Any, Any]):
        """An array that can be watched dying."""

    driven, pool, feed = drive(BRANCHES), Late(), X["x"].view(Watched)
    frame, gone = driven.pool.take(), weakref.ref(feed)
    frame.slots[driven.plan.inputs[0].slot] = feed
    run_tasks(frame, one_task_a_step(driven), LANES, pool)  # type: ignore[arg-type]  # what a run asks of a pool
    assert len(pool.calls) == 1
    driven.pool.discard(frame)
    del frame, driven, feed
    gc.collect()
    assert gone() is None
    assert pool.calls[0]() is None


# -- what is looked at between steps ------------------------------------------------------------------------------


def test_terminate_stops_a_run() -> None:
    """Like a sequential run, it stops before the next step of any thread."""
    asked: list[int] = []

    def terminate() -> bool:
        asked.append(1)
        return len(asked) > 1

    with pytest.raises(Fail, match=r"RunOptions\.terminate is set"):
        run_parallel(drive(BRANCHES), X, watch=RunWatch(terminate=terminate))


def test_a_time_limit_stops_a_run() -> None:
    """The limit is looked at before each step."""
    with pytest.raises(LimitError, match="longer than"):
        run_parallel(drive(BRANCHES), X, watch=RunWatch(seconds=-1.0))


def test_a_profile_tells_the_thread_of_each_step() -> None:
    """One event a step, with the native identity of the thread it ran on, and one for the whole."""
    barrier = threading.Barrier(2, timeout=20)

    def meet(x: Any) -> Any:
        barrier.wait()
        return x

    recorder = Recorder()
    run_parallel(drive(BRANCHES, hooked(Exp=meet, Sqrt=meet)), X, watch=RunWatch(recorder=recorder))
    steps = [event for event in recorder.events if event.category == "Node"]
    assert len(steps) == 3
    assert len({event.thread for event in steps if event.arguments["op_name"] in ("Exp", "Sqrt")}) == 2
    assert len([event for event in recorder.events if event.category == "Session"]) == 1


@contextlib.contextmanager
def warnings_off() -> Iterator[None]:
    """NumPy's warnings as a program may have set them: errors."""
    with np.errstate(all="raise"):
        yield


def test_numpys_warnings_are_off_on_every_thread() -> None:
    """A division by nothing is a value in ONNX, not a warning, whoever runs it."""
    text = "g (float[4] x) => (float[4] y) { z = Sub(x, x) a = Div(x, z) b = Div(z, z) y = Add(a, b) }"
    with warnings_off():
        for _ in range(10):
            (y,) = run_parallel(drive(text), X)
            assert np.isnan(y).all()


def test_errors_of_bodies_are_placed() -> None:
    """A node inside a body is named with its path, from whichever thread."""

    def fail(_x: Any) -> Any:
        raise ValueError("inside")

    text = """g (float[4] x, bool c) => (float[4] y) { a = Neg(x)
      b = If(c) <then_branch = t() => (float[4] p) { p = Exp(x) }, else_branch = e() => (float[4] q) { q = Abs(x) }>
      y = Add(a, b) }"""
    with pytest.raises(OrtPyError, match="inside") as caught:
        run_parallel(drive(text, hooked(Exp=fail)), {**X, "c": np.array(True)})
    assert caught.value.location.op_type == "Exp"
