"""Results that follow from the shapes of a run's inputs: computed by a program of whole numbers, and remembered.

Runs of a set of shapes take them from here instead of executing the steps that make them. If the program does not apply
to a run, or one of the steps would fail, the plan's own steps are executed and raise the errors. Comes after
`planning.shape_program`, which finds these steps; `frame` hands the results to a run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.execution.instructions import compile_release
from ort_py.planning.shape_program import Way

if TYPE_CHECKING:
    from ort_py.execution.instructions import Instruction, Slots
    from ort_py.planning.plan import ExecutionPlan, Step
    from ort_py.planning.shape_program import ShapeProgram

_LARGE_BYTES = 256 << 10
"""Bytes of a result from which on the time of a step is not its overhead, and its memory better goes at once."""

_REMEMBERED, _REMEMBERED_BYTES = 256, 32 << 10
"""Sets of shapes whose results are remembered, and the bytes up to which those of one are."""

_NEW = object()


class ShapeResults:
    """Results of a plan's steps that depend on shapes alone, by signature. Shared by threads.

    Args:
        plain: Instructions of the plan's steps.
        compile_step: Compiles a step that is run by itself.

    Attributes:
        instructions: A run that has them: what puts them into their slots, and the steps that they do not replace.
        numbers: The number of the step of each of these.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        plain: Sequence[Instruction],
        found: ShapeProgram,
        compile_step: Callable[[Step], Instruction],
    ) -> None:
        self._found = found
        self._contents = _by_type(found)
        # A tuple each: a new set of shapes costs as much as going through these.
        self._left = [
            (
                compile_step(replace(plan.steps[one.number], release=())) if one.way is Way.STEP else None,
                one.way is Way.RANGE,
                one.way is Way.EXPAND,
                one.source,
                one.target,
                one.registers,
                one.dtype,
            )
            for one in found.left
        ]
        made = {slot for number in found.replaced for slot in plan.steps[number].outputs}
        self._written = [*(one.slot for one in found.contents)]
        self._written += [slot for one in found.left for slot in plan.steps[one.number].outputs]
        self.instructions: list[Instruction] = [partial(_place, found.results)]
        self.numbers = [min(found.replaced)]
        for number, instruction in enumerate(plain):
            if number not in found.replaced:
                self.instructions.append(instruction)
            elif released := [slot for slot in plan.steps[number].release if slot not in made]:
                self.instructions.append(compile_release(released))
            else:
                continue
            self.numbers.append(number)
        self._known: dict[Any, Sequence[Any] | None] = {}
        self._order: deque[Any] = deque()

    def of(self, signature: Any, slots: Slots) -> Sequence[Any] | None:
        """The results for a set of shapes; None where the plan's own steps have to be executed.

        Args:
            slots: Slots of the frame, its inputs in place.
        """
        results = self._known.get(signature, _NEW)
        if results is _NEW:
            results = self._made(slots)
            if sum([getattr(one, "nbytes", 0) for one in results or ()]) <= _REMEMBERED_BYTES:
                self._known[signature] = results
                self._order.append(signature)
                if len(self._order) > _REMEMBERED:
                    self._known.pop(self._order.popleft(), None)
        return results  # type: ignore[return-value]  # it is not _NEW

    def _made(self, slots: Slots) -> Sequence[Any] | None:
        found = self._found
        numbers = found.program.numbers([slots[slot] for slot in found.inputs])
        if numbers is None:
            return None
        registers = found.program.program.run(numbers)
        if not all(registers[one.condition] for one in found.program.predicates):
            return None
        if any(registers[count] * itemsize > _LARGE_BYTES for count, itemsize, _ in found.program.values):
            return None
        try:
            self._write(registers, slots)
            for step, is_range, is_expanded, source, target, places, dtype in self._left:
                if step is not None:
                    step(slots)
                elif is_range:
                    first, end, by = places
                    slots[target] = np.arange(registers[first], registers[end], registers[by], dtype=dtype)
                elif is_expanded:
                    given = slots[source]
                    slots[target] = made = np.empty([registers[place] for place in places], given.dtype)
                    made[...] = given
                else:
                    slots[target] = slots[source].reshape([registers[place] for place in places])
            return [slots[slot] for slot in found.results]
        except Exception:  # the step fails again where the plan has it, and says so
            return None
        finally:
            for slot in self._written:
                slots[slot] = None

    def _write(self, registers: Sequence[int], slots: Slots) -> None:
        """Make arrays of the program's results: one for each element type, of which the values are parts."""
        for dtype, places, parts in self._contents:
            whole = np.array([registers[place] for place in places], dtype)
            for slot, first, last, shape in parts:
                part = whole[first:last]
                slots[slot] = part if len(shape) == 1 else part.reshape(shape)


def _by_type(found: ShapeProgram) -> list[tuple[Any, list[int], list[tuple[int, int, int, tuple[int, ...]]]]]:
    """For each element type the registers of all elements, and (slot, first, last, shape) of each value among them."""
    types: dict[Any, tuple[list[int], list[tuple[int, int, int, tuple[int, ...]]]]] = {}
    for content, registers in zip(found.contents, found.program.outputs, strict=False):
        assert registers is not None, "what the program computes is known"
        places, parts = types.setdefault(content.dtype, ([], []))
        parts.append((content.slot, len(places), len(places) + len(registers), content.shape))
        places.extend(registers)
    return [(dtype, *both) for dtype, both in types.items()]


def _place(results: Sequence[int], s: Slots) -> None:
    """Put the results into their slots."""
    for slot, result in zip(results, s[0].shape_results, strict=True):
        s[slot] = result
