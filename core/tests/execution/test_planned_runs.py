"""Runs in memory that is kept: same results, never the caller's memory, and plain again where a plan does not hold."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.tests.driving import Driven, HostProvider, drive, floats, reference
from ort_py.contracts import KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import ExecutionError, Fail, LimitError
from ort_py.execution import bodies, planned_runs
from ort_py.execution.compile_plan import compile_plan
from ort_py.execution.planned_runs import PlannedRuns
from ort_py.execution.watch import RunWatch
from ort_py.profiling.recorder import Recorder
from ort_py_kit.fake_device import fake_kernels

LONG = 5_000
"""Elements that make planning pay."""

CHAIN = "g (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Exp(b) d = Add(c, b) y = Tanh(d) }"


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every planned run begins with an arena full of NaN."""
    monkeypatch.setattr(PlannedRuns, "poison", True)


def planned_slots(driven: Driven) -> list[int]:
    """Slots with a place in the plan of each signature."""
    return [value.slot for plan in driven.program.runs.plans() for value in plan.values]


def counting(name: str = "Exp") -> tuple[HostProvider, list[int]]:
    """A provider, and how many arguments each call of one of its kernels got."""
    calls: list[int] = []

    def call(*arrays: Any) -> Any:
        calls.append(len(arrays))
        return getattr(np, name.lower())(*arrays)

    others = [kernel for kernel in fake_kernels() if kernel.op_type != name]
    return HostProvider([KernelDef(name, lambda _ctx: call, since=1, until=99, out=True), *others]), calls


def test_the_second_run_writes_into_the_arena() -> None:
    """The first run of a shape makes its arrays, later ones do not; a new shape starts from the beginning."""
    provider, calls = counting()
    driven = drive(CHAIN, provider)
    x = floats(LONG)
    expected = reference(CHAIN, {"x": x})
    for _ in range(3):
        np.testing.assert_allclose(driven.run({"x": x})[0], expected[0], rtol=1e-6)
    driven.run({"x": floats(LONG + 1)})
    driven.run({"x": floats(LONG + 1)})
    assert calls == [1, 2, 2, 1, 2]


def test_a_watch_changes_nothing() -> None:
    """Recorded and planned runs are profiled and cancelled like others."""
    driven, x = drive(CHAIN), floats(LONG)
    (expected,) = driven.run({"x": x})
    for watch in (RunWatch(recorder=Recorder()), RunWatch(seconds=60), RunWatch(terminate=lambda: False)):
        (found,) = driven.run({"x": x}, watch)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(Fail, match="terminate is set"):
        driven.run({"x": x}, RunWatch(terminate=lambda: True))
    np.testing.assert_array_equal(driven.run({"x": x})[0], expected)


def test_a_first_run_may_be_watched() -> None:
    """A profile of the first run records for the plan too."""
    driven, x = drive(CHAIN), floats(LONG)
    driven.run({"x": x}, RunWatch(recorder=Recorder()))
    assert planned_slots(driven)


def test_a_memory_limit_counts_what_is_alive() -> None:
    """Runs under such a limit make their arrays, before and after planned ones: an arena would count as a whole."""
    provider, calls = counting()
    driven, x = drive(CHAIN, provider), floats(LONG)
    just_enough = 2 * x.nbytes
    drive(CHAIN).run({"x": x}, RunWatch(memory_bytes=just_enough))
    for watch in (None, None, RunWatch(memory_bytes=just_enough), None):
        driven.run({"x": x}, watch)
    assert calls == [1, 2, 1, 2]
    with pytest.raises(LimitError, match="The run holds"):
        driven.run({"x": x}, RunWatch(memory_bytes=just_enough - 1))


def test_results_stay_what_they_are() -> None:
    """The next run overwrites nothing the caller holds, and writes to no feed."""
    text = """
    g (float[n] x) => (float[n] y, float[n] z, float[n] v) {
      a = Neg(x) b = Abs(a) y = Exp(b) z = Add(b, a) c = Tanh(z) v = Identity(y) w = Add(c, c)
    }
    """
    driven = drive(text)
    held: list[tuple[np.ndarray, np.ndarray]] = []
    for seed in range(5):
        x = floats(LONG, seed=seed)
        kept = x.copy()
        held += [(result, result.copy()) for result in driven.run({"x": x})]
        np.testing.assert_array_equal(x, kept)
    for result, copy in held:
        np.testing.assert_array_equal(result, copy)


def failing_on(calls: set[int], error: Exception) -> HostProvider:
    """A provider whose Exp raises in some of its calls."""
    count = iter(range(1_000))

    def call(*arrays: Any) -> Any:
        if next(count) in calls:
            raise error
        return np.exp(*arrays)

    others = [kernel for kernel in fake_kernels() if kernel.op_type != "Exp"]
    return HostProvider([KernelDef("Exp", lambda _ctx: call, since=1, until=99, out=True), *others])


@pytest.mark.parametrize("failed", [0, 1, 2], ids=["recorded", "first planned", "later"])
def test_a_failed_run_spoils_nothing(failed: int) -> None:
    """Whichever run fails, its error names the node, and the next runs are right."""
    driven, x = drive(CHAIN, failing_on({failed}, RuntimeError("boom"))), floats(LONG)
    expected = reference(CHAIN, {"x": x})[0]
    for number in range(5):
        if number == failed:
            with pytest.raises(ExecutionError, match=r"Exp 'c' failed: RuntimeError: boom"):
                driven.run({"x": x})
        else:
            np.testing.assert_allclose(driven.run({"x": x})[0], expected, rtol=1e-6)


def test_an_arena_that_cannot_be_had_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run makes its arrays one by one if memory is short."""
    driven, x = drive(CHAIN), floats(LONG)
    (expected,) = driven.run({"x": x})

    def full(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("ort_py.execution.arena.Arena._block", full)
    np.testing.assert_array_equal(driven.run({"x": x})[0], expected)


# Shapes that the data decide


def data_dependent() -> tuple[Driven, Callable[..., None]]:
    """A program with a data-dependent step, and a check of one run with the shape it asks for."""
    text = "g (float[n] x) => (float[m] y) { a = Neg(x) b = Abs(a) c = Relu(b) d = Exp(c) e = Abs(d) y = Tanh(e) }"
    length = [LONG]

    def cut(x: Any) -> Any:
        return x[: length[0]].copy()

    others = [kernel for kernel in fake_kernels() if kernel.op_type != "Relu"]
    # Believed, as the project's own kernels are: a plug-in's would be refused for its shape.
    relu = KernelDef("Relu", lambda _ctx: cut, since=1, until=99, implementation="ort_py:believed")
    driven = drive(text, HostProvider([relu, *others]))

    def check(wanted: int, watch: RunWatch | None = None) -> None:
        length[0] = wanted
        x = floats(LONG, seed=wanted)
        (found,) = driven.run({"x": x}, watch)
        np.testing.assert_allclose(found, np.tanh(np.exp(np.abs(x[:wanted]))), rtol=1e-6)

    return driven, check


def test_a_shape_that_changes_ends_the_plan() -> None:
    """The run goes on without it, and what lies behind such a step is not planned again."""
    driven, check = data_dependent()
    check(LONG)
    check(LONG)
    assert len(planned_slots(driven)) == 4
    check(100)
    assert not planned_slots(driven)
    for wanted in (1, LONG, 7, 0, LONG):
        check(wanted)
    names = {step.outputs[0]: step.location.node for step in driven.plan.steps}
    assert {names[slot] for slot in planned_slots(driven)} == {"a", "b"}


def test_a_changed_shape_in_a_profiled_run() -> None:
    """The loops that look between steps go on plainly too."""
    for watch in (RunWatch(recorder=Recorder()), RunWatch(seconds=60)):
        _, check = data_dependent()
        check(LONG)
        check(LONG)
        check(50, watch)


# Signatures


def test_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan that was not used for the longest goes first, and the arena shrinks to what is left."""
    monkeypatch.setattr(planned_runs, "_MOST_PLANS", 2)
    driven = drive(CHAIN)
    for length in (LONG * 9, LONG * 9, LONG, LONG, LONG * 2, LONG * 2):
        driven.run({"x": floats(length)})
    plans = driven.program.runs.plans()
    assert [plan.values[0].seen.shape for plan in plans] == [(LONG,), (LONG * 2,)]
    assert driven.pool.workspace().reserved == plans[1].sizes[HOST]


def test_shapes_that_do_not_come_back_are_not_recorded_for_ever() -> None:
    """After a few signatures, one must be met twice: growing sequences are not worth a plan each."""
    provider, calls = counting()
    driven = drive(CHAIN, provider)
    for length in range(LONG, LONG + 10):
        driven.run({"x": floats(length)})
    known = len(driven.program.runs.plans())
    assert known == planned_runs._AT_ONCE
    calls.clear()
    for _ in range(3):
        driven.run({"x": floats(LONG + 9)})
    assert calls == [1, 2, 2]


def test_many_shapes_that_take_turns_are_not_recorded_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their plans would be dropped before they are used. A shape that stays is planned all the same."""
    provider, calls = counting()
    driven = drive(CHAIN, provider)
    recorded: list[Any] = []
    recording = PlannedRuns.recording

    def noted(runs: PlannedRuns, *given: Any) -> Any:
        recorded.append(given[0])
        return recording(runs, *given)

    monkeypatch.setattr(PlannedRuns, "recording", noted)
    for _ in range(12):
        for length in range(LONG, LONG + 20):
            driven.run({"x": floats(length)})
    assert planned_runs._COST * len(recorded) <= planned_runs._MOST_CREDIT + calls.count(2)
    calls.clear()
    for _ in range(4):
        driven.run({"x": floats(LONG + 30)})
    assert calls == [1, 1, 2, 2]


def test_tiny_plans_ask_once() -> None:
    """Where shapes are fixed and nothing is to be won, frames do not even look."""
    driven = drive("g (float[4] x) => (float[4] y) { a = Neg(x) y = Abs(a) }")
    for _ in range(3):
        driven.run({"x": floats(4)})
    assert driven.program.runs.over
    assert driven.pool.take().chooser is None


def test_memory_is_not_kept_where_it_is_not_wanted() -> None:
    """A program can be set to let its kernels allocate all arrays; its figures are available all the same."""
    provider, calls = counting()
    driven = drive(CHAIN, provider)
    driven = replace(driven, program=compile_plan(driven.plan, reuses_memory=False))
    for _ in range(3):
        driven.run({"x": floats(LONG)})
    assert calls == [1, 1, 1]
    assert driven.pool.workspace().high_water > 0


# Frames


def test_frames_share_plans_and_no_memory() -> None:
    """Two runs at once write into arenas of their own; the second frame records nothing."""
    driven, x = drive(CHAIN), floats(LONG)
    driven.run({"x": x})
    driven.run({"x": x})
    one = driven.pool.workspace().reserved
    first = driven.pool.take()
    driven.run({"x": x})
    driven.pool.give_back(first)
    assert driven.pool.workspace().reserved == 2 * one
    driven.pool.trim()
    assert driven.pool.workspace().reserved == 0


def test_threads_run_one_program() -> None:
    """Eight threads with three signatures: every result is right."""
    driven = drive(CHAIN)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for turn in range(20):
            x = floats(LONG + (seed + turn) % 3, seed=seed)
            (found,) = driven.run({"x": x})
            e = np.exp(np.abs(x))
            if not np.allclose(found, np.tanh(e + np.abs(x)), rtol=1e-5):
                wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_workspace_names_the_largest() -> None:
    """High water and its nodes come from the recorded run; weights and feeds do not count."""
    text = "g (float[n] x) => (float[n] y) <float[1] w = {2}> { a = Add(x, w) b = Exp(a) c = Add(a, b) y = Abs(c) }"
    driven, x = drive(text), floats(LONG)
    assert driven.pool.workspace().high_water == 0
    driven.run({"x": x})
    found = driven.pool.workspace()
    assert found.high_water == 3 * x.nbytes
    assert found.largest == (("Add 'a'", x.nbytes), ("Exp 'b'", x.nbytes), ("Add 'c'", x.nbytes))
    assert found.reserved == 0
    driven.run({"x": x})
    assert dict(driven.pool.workspace().reserved_by_device) == {HOST: -(-x.nbytes // 64) * 64 * 2}


def test_a_bodys_values_count_with_those_around_it() -> None:
    """At its peak a loop holds what its body holds and what waits outside."""
    text = """
    g (float[4096] x, int64 n) => (float[4096] y) <bool go = {1}> {
      a = Neg(x)
      r = Loop (n, go, a) <body = b (int64 i, bool c, float[4096] v) => (bool c2, float[4096] w) {
        c2 = Identity(c) t = Abs(v) u = Exp(t) w = Tanh(u)
      }>
      y = Add(r, a)
    }
    """
    driven, x = drive(text), floats(4096)
    for _ in range(3):
        driven.run({"x": x, "n": np.array(3)})
    assert driven.pool.workspace().high_water >= 3 * x.nbytes
    names = [name for name, _ in driven.pool.workspace().largest]
    assert "Loop 'r'" in names


def test_bodies_have_arenas_of_their_own() -> None:
    """The iterations of a loop share the memory of its body's frame."""
    text = """
    g (float[n] x, int64 k) => (float[n] y) <bool go = {1}> {
      y = Loop (k, go, x) <body = b (int64 i, bool c, float[n] v) => (bool c2, float[n] w) {
        c2 = Identity(c) t = Abs(v) u = Exp(t) s = Neg(u) w = Tanh(s)
      }>
    }
    """
    provider, calls = counting()
    driven = drive(text, provider)
    driven.run({"x": floats(LONG), "k": np.array(4)})
    assert calls == [1, 2, 2, 2]
    assert driven.pool.workspace().reserved > 0


def test_a_body_is_planned_for_what_it_captures() -> None:
    """Its signature holds the shapes of outer values, and of inputs whatever the model says about them."""
    text = """
    g (float[n] x, int64 k, bool c) => (float[m] y) {
      p = Relu(x)
      y = Loop (k, c, x) <body = b (int64 i, bool g, float[5000] v) => (bool h, float[m] w) {
        h = Identity(g) t = Neg(p) u = Abs(t) e = Exp(u) s = Neg(v) r = Abs(s) q = Tanh(r) w = Add(e, e)
      }>
    }
    """
    length = [LONG]

    def cut(x: Any) -> Any:
        return x[: length[0]].copy()

    others = [kernel for kernel in fake_kernels() if kernel.op_type != "Relu"]
    # Believed, as the project's own kernels are: a plug-in's would be refused for its shape.
    relu = KernelDef("Relu", lambda _ctx: cut, since=1, until=99, implementation="ort_py:believed")
    driven = drive(text, HostProvider([relu, *others]))
    x = floats(LONG)
    for length[0] in (LONG, LONG, 100, LONG, 100, 7):
        (found,) = driven.run({"x": x, "k": np.array(3), "c": np.array(True)})
        np.testing.assert_allclose(found, 2 * np.exp(np.abs(x[: length[0]])), rtol=1e-6)


def test_kernels_know_what_stays_the_same() -> None:
    """A kernel is bound once more to sizes that follow from the shapes of a run, for that shape alone."""
    known: list[Any] = []

    def factory(ctx: KernelContext) -> Any:
        size = ctx.constant(1)
        known.append(None if size is None else size.tolist())
        return lambda x, shape: x.reshape(shape if size is None else size)

    kernels = [
        *(kernel for kernel in fake_kernels() if kernel.op_type != "Reshape"),
        KernelDef("Reshape", factory, since=1, until=99, implementation="ort_py:x"),
    ]
    text = "g (float[n] x) => (float[n] y) { a = Neg(x) s = Shape(x) b = Reshape(a, s) y = Abs(b) }"
    driven = drive(text, HostProvider(kernels))
    for length in (5, 5, 5, 7, 5, 7):
        x = floats(length)
        (y,) = driven.run({"x": x})
        np.testing.assert_array_equal(y, np.abs(x))
    assert known == [None, [5], [7]]


def test_a_failing_step_is_named_behind_steps_that_are_left_out() -> None:
    """A planned run has no instruction for what stays the same, and names the step that fails all the same."""
    text = """
    g (float[n] x) => (float[n] y) {
      a = Neg(x) s = Shape(x) t = Mul(s, s) c = Cast <to = 1> (t) b = Mul(a, c) y = Exp(b)
    }
    """
    driven, x = drive(text, failing_on({3}, ValueError("no"))), floats(5)
    for _ in range(3):
        driven.run({"x": x})
    with pytest.raises(ExecutionError, match="Exp 'y'"):
        driven.run({"x": x})


CHOSEN = """
g (float[n] x) => (float[a, b] y, float[c, d] z) <int64[1] one = {1}, int64[2] row = {1, -1}, int64[2] line = {-1, 1}> {
  a = Neg(x)
  s = Shape(a)
  t = Sub(s, one)
  c = Cast <to = 9> (t)
  b, d = If (c) <
    then_branch = t () => (float[p, q] r, float[u, v] w) { r = Reshape(a, row) w = Reshape(x, line) },
    else_branch = e () => (float[p, q] r, float[u, v] w) { e = Exp(a) r = Reshape(e, row) w = Reshape(e, row) }
  >
  y = Abs(b)
  z = Exp(d)
}
"""


def viewing() -> HostProvider:
    """A provider whose Reshape makes views, and is believed to do so as it should."""
    made = KernelDef(
        "Reshape",
        lambda _ctx: lambda x, size: x.reshape(size),
        since=1,
        until=99,
        strided=True,
        views=((0, 0),),
        implementation="ort_py:believed",
    )
    return HostProvider([made, *(kernel for kernel in fake_kernels() if kernel.op_type != "Reshape")])


@pytest.mark.parametrize("count", [1, 3])  # the branch for one element does more than make views
def test_a_branch_that_shapes_choose_is_chosen_once(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """The same results for each set of shapes; a branch that makes views needs no look at the condition."""
    asked: list[bool] = []
    truth = bodies.truth

    def noted(value: Any, where: Any) -> bool:
        asked.append(truth(value, where))
        return asked[-1]

    monkeypatch.setattr("ort_py.execution.control_flow.truth", noted)
    driven = drive(CHOSEN, viewing())
    x = floats(count)
    for run in range(4):
        for actual, wanted in zip(driven.run({"x": x}), reference(CHOSEN, {"x": x}), strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-6)
        if run == 1:
            asked.clear()
    assert len(asked) == (2 if count == 1 else 0)


def test_a_branch_that_shapes_choose_is_another_for_others() -> None:
    driven = drive(CHOSEN, viewing())
    for count in (1, 3, 1, 1, 3, 3, 2, 1):
        x = floats(count)
        for actual, wanted in zip(driven.run({"x": x}), reference(CHOSEN, {"x": x}), strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-6)


def test_a_branch_that_shapes_choose_is_recorded_in_a_trace() -> None:
    """A profile shows its steps, as it does in the first run."""
    driven = drive(CHOSEN, viewing())
    x = floats(3)
    for _ in range(3):
        driven.run({"x": x})
    recorder = Recorder()
    driven.run({"x": x}, RunWatch(recorder=recorder))
    assert sum(event.arguments.get("op_name") == "Reshape" for event in recorder.events) == 2
