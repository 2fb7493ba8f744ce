"""The runs that count among those that share the machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ort_py.errors import Location
from ort_py.execution import executors as module
from ort_py.execution.executors import CountedRuns, is_light, short_run
from ort_py.planning.plan import ExecutionPlan, IfStep, KernelStep, NestedPlan, RegionStep, Step
from ort_py.platform.native_threads import ActiveRuns


def plan_of(*steps: Step) -> ExecutionPlan:
    """A plan of steps that are never run."""
    return ExecutionPlan("g", steps, (), (), (), ())


def kernel(op_type: str, domain: str = "") -> KernelStep:
    """The step of a node."""
    step = KernelStep.__new__(KernelStep)
    object.__setattr__(step, "location", Location("n", op_type, domain))
    return step


@pytest.mark.parametrize(
    ("steps", "light"),
    [
        ((), True),
        ((kernel("Add"), kernel("Reshape")), True),
        ((kernel("Add"), kernel("MatMul")), False),
        ((kernel("Add", "com.example"),), False),
        ((IfStep.__new__(IfStep),), False),
    ],
)
def test_plans_that_cannot_call_blas_are_light(steps: tuple[Step, ...], light: bool) -> None:
    """Only known operators of ONNX that move and combine elements; bodies and other domains may do anything."""
    assert is_light(plan_of(*steps)) is light


REGION = RegionStep.__new__(RegionStep)


def either(*steps: Step) -> IfStep:
    """An If of which one branch has these steps, the other none."""
    step = IfStep.__new__(IfStep)
    object.__setattr__(step, "then_branch", NestedPlan(plan_of(*steps), 0, ()))
    object.__setattr__(step, "else_branch", NestedPlan(plan_of(), 0, ()))
    return step


@pytest.mark.parametrize(
    ("steps", "milliseconds"),
    [
        ((REGION, kernel("Add")), 1),
        ((either(REGION, kernel("Add")),), 1),
        ((REGION, kernel("MatMul")), 0.005),
        ((either(kernel("MatMul")),), 0.005),
    ],
)
def test_plans_of_regions_are_counted_later(steps: tuple[Step, ...], milliseconds: float) -> None:
    """Regions know their number of threads. Steps that may call BLAS, in bodies too, are counted before it could use a
    second.
    """
    assert short_run(plan_of(*steps)) == pytest.approx(milliseconds / 1000)


def test_long_runs_are_counted_and_short_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the last run decides about the next; the first is counted."""
    runs, counted, clock = ActiveRuns(), [], iter([0.0, 1.0, 2.0, 2.0 + 1e-6, 3.0, 4.0, 5.0, 6.0])
    monkeypatch.setattr(module, "active_runs", runs)
    monkeypatch.setattr(module, "run", lambda _frame: counted.append(len(runs._threads)))
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    execute: Any = CountedRuns(2)
    for _ in range(4):
        execute(None)
    assert counted == [1, 1, 0, 1]


def test_a_run_that_fails_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = ActiveRuns()
    monkeypatch.setattr(module, "active_runs", runs)

    def fail(_frame: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run", fail)
    execute: Any = CountedRuns(2)
    with pytest.raises(KeyboardInterrupt):
        execute(None)
    assert len(runs._threads) == 0
