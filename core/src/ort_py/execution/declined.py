"""Runs that a region declines: its nodes run one by one, and after several such runs the region is left in peace.

Nothing here costs anything while regions answer. The first declined run of a frame puts a `StandInInstance` into the
slot of the region's instance; the first run that the region answers takes it out again. Comes after
`planning.stand_in`, which has the plan.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import RegionInstance, RunDeclined
from ort_py.errors import EPFail, Location

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.planning.plan import RegionStandIn, RegionStep

_IN_A_ROW = 3
"""Declined runs in a row after which the region is not asked about such shapes for a while: each is a second run."""

MOST_PAUSED = 64
"""Runs in which it is not asked, at most: a region that always declines then costs a sixty-fourth of a run."""


def answer(step: RegionStep, slots: list[Any], error: RunDeclined) -> Sequence[Any]:
    """Compute the outputs of a region that declined a run whose inputs are in their slots.

    Raises:
        EPFail: No other provider may or can run the region's nodes.
    """
    if step.stand_in is None:
        raise EPFail(
            f"The region '{step.name}' of {step.provider} declined a run on {step.device}.",
            where=Location(step.location.node, step.location.op_type, step.location.domain, step.provider),
            why=(error.reason, "other providers may not run it"),
            fix="Run this input with other providers, or report it to the author of the provider.",
        ) from error
    frame: Frame = slots[0]
    instance = StandInInstance(step, step.stand_in, frame, slots[step.instance])
    found = instance.instead([slots[slot] for slot in step.inputs], error.reason, early=error.early)
    slots[step.instance] = instance
    return found


class StandInInstance(RegionInstance):
    """In the place of an instance that declined its last run."""

    def __init__(self, step: RegionStep, stand_in: RegionStandIn, frame: Frame, instance: RegionInstance) -> None:
        self._step = step
        self._stand_in = stand_in
        self._frame = frame
        self._instance = instance
        self._inner: Frame | None = None
        self._in_a_row = 0
        self._pause = 0
        self._declined: list[Any] = []
        self._inputs: Sequence[Any] = ()
        self._outputs: Sequence[Any] = ()

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any | None]) -> None:
        """Note the arrays: the region's instance gets them when it is asked."""
        self._inputs, self._outputs = inputs, outputs

    def __call__(self) -> Sequence[Any]:
        """Ask the region's instance again, unless there is a pause."""
        inputs, outputs = self._inputs, self._outputs
        self._inputs = self._outputs = ()
        if self._pause and self._declined == [array.shape for array in inputs]:
            self._pause -= 1
            return self.instead(inputs, None)
        try:
            self._instance.bind(inputs, outputs)
            found = self._instance()
        except RunDeclined as error:
            return self.instead(inputs, error.reason, early=error.early)
        self._frame.slots[self._step.instance] = self._instance
        return found

    def reserved_bytes(self) -> int:
        """Bytes that the region's instance holds."""
        return self._instance.reserved_bytes()

    def instead(self, inputs: Sequence[Any], reason: str | None, *, early: bool = False) -> Sequence[Any]:
        """Run the nodes.

        Args:
            reason: Why the region declined; None where it was not asked.
            early: Whether it declined before it computed anything.
        """
        if reason is not None and not early:
            self._in_a_row += 1
            self._declined = [array.shape for array in inputs]
            if self._in_a_row >= _IN_A_ROW:
                self._pause = min(2 ** (self._in_a_row - _IN_A_ROW + 1), MOST_PAUSED)
        inner = self._inner = self._inner or self._frame.beside(_program_of(self._stand_in))
        self._stand_in.note(reason)
        return _run(inner, inputs, self._frame)


def _program_of(stand_in: RegionStandIn) -> Any:
    """The program of the nodes: one for all frames, gone with the last of them."""
    from ort_py.execution.compile_plan import compile_plan  # which answers declined runs with this module

    with stand_in.lock:
        found = stand_in.program()
        if found is None:
            found = compile_plan(stand_in.plan(), reuses_memory=False)
            stand_in.program = weakref.ref(found)
        return found


def _run(inner: Frame, inputs: Sequence[Any], outer: Frame) -> list[Any]:
    """Run a plan; its results become arrays of their own, as those of a region are."""
    from ort_py.execution.sequential import run_frame

    plan, slots = inner.program.plan, inner.slots
    for given, array in zip(plan.inputs, inputs, strict=True):
        slots[given.slot] = array
    inner.watch = outer.watch
    try:
        run_frame(inner)
        taken = [id(array) for array in (*inputs, *plan.template)]
        found: list[Any] = []
        for value in plan.outputs:
            result = slots[value.slot]
            if isinstance(result, np.ndarray | np.generic):
                result = np.asarray(result)
                if result.base is not None or not result.flags.c_contiguous or id(result) in taken:
                    result = result.copy(order="C")
            taken.append(id(result))
            found.append(result)
    finally:
        inner.clear()
    return found
