"""Outputs of a run that the step which makes them writes directly into the caller's arrays.

A run of a binding has arrays for some outputs. The step of such an output is handed the array: a kernel that declares
`out`, or a compiled region. Its shape must be known in advance, so a step receives arrays from the second run with the
same input shapes on. Results that were written elsewhere are copied when they are collected. Comes after
`planned_runs`, whose choice of instructions it changes for one run; ordinary runs do not use this module.

Arrays that overlap an input, or each other, are left to the copy: a step could write what is still to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import RunDeclined
from ort_py.devices import HOST
from ort_py.planning.plan import KernelStep, RegionStep

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.execution.instructions import Instruction, Slots
    from ort_py.execution.program import Program

WORTH_BYTES = 256 << 10
"""Copying less takes less time than handing it to the step: some microseconds."""

_Array = np.ndarray[Any, Any]


class BoundOutputs:
    """Outputs of one program that a step can write in place. Threads share the object."""

    def __init__(self, program: Program) -> None:
        plan = program.plan
        wanted = {output.slot for output in plan.outputs if not output.copy and output.device == HOST}
        self._inputs = tuple(value.slot for value in plan.inputs)
        self._plain = program.instructions
        self._writers: dict[int, tuple[int, _Writer]] = {}
        for number, step in enumerate(plan.steps):
            if not wanted.intersection(step.outputs):
                continue
            if isinstance(step, KernelStep) and step.into is not None and step.device == HOST:
                if len(step.outputs) == 1:
                    self._writers[step.outputs[0]] = number, _KernelWriter(step)
            elif isinstance(step, RegionStep) and step.device == HOST:
                writer = _RegionWriter(step)
                self._writers |= dict.fromkeys(wanted.intersection(step.outputs), (number, writer))

    def bind(self, frame: Frame, targets: Mapping[int, _Array]) -> None:
        """Hand arrays to the steps of the next run of a frame whose inputs are in their slots.

        Args:
            targets: An array for the output in a slot, writable and in one piece; any may be left unused.
        """
        fitting = [
            (slot, array)
            for slot, array in targets.items()
            if slot in self._writers and array.nbytes >= WORTH_BYTES and array.flags.carray
        ]
        if not fitting:
            return
        others = [*_arrays([frame.slots[slot] for slot in self._inputs]), *targets.values()]
        handed: dict[int, dict[int, _Array]] = {}
        for slot, array in fitting:
            if sum(np.may_share_memory(array, other) for other in others) == 1:  # itself
                handed.setdefault(self._writers[slot][0], {})[slot] = array
        if handed:
            writers = dict(self._writers.values())
            steps = [(number, writers[number], arrays) for number, arrays in handed.items()]
            frame.chooser = partial(_choose_bound, chooser=frame.chooser, plain=self._plain, steps=steps)


def _choose_bound(
    frame: Frame,
    chooser: Callable[[Frame], None] | None,
    plain: list[Instruction],
    steps: list[tuple[int, _Writer, dict[int, _Array]]],
) -> None:
    """Choose the instructions of one run: those of the frame, but for the steps that are handed arrays.

    Args:
        chooser: The frame's own chooser, which makes all later choices.
    """
    frame.chooser = chooser
    if chooser is not None:
        chooser(frame)
    chosen = frame.instructions
    instructions = chosen.copy()
    for number, writer, arrays in steps:
        if chosen[number] is plain[number]:  # otherwise it is recorded or examined afterwards
            instructions[number] = partial(writer.run, arrays, chosen[number])
    instructions.append(partial(_put_back, frame, chosen))
    frame.instructions = instructions


def _put_back(frame: Frame, chosen: list[Instruction], s: Slots) -> None:
    frame.instructions = chosen


class _Writer:
    """Runs one step, writing to arrays where its last results for the same shapes would fit there."""

    __slots__ = ("_made", "step")

    def __init__(self, step: Any) -> None:
        self.step = step
        # Shapes of the inputs, and form by slot of what was made of them: one value, so that threads see both or none.
        self._made: tuple[tuple[Any, ...], dict[int, tuple[Any, Any]]] | None = None

    def run(self, arrays: Mapping[int, _Array], plain: Instruction, s: Slots) -> None:
        shapes = tuple([getattr(s[slot], "shape", None) for slot in self.step.inputs])
        known = self._made
        if known is not None and known[0] == shapes:
            fits = {slot: array for slot, array in arrays.items() if known[1].get(slot) == (array.shape, array.dtype)}
            if fits:
                self.write(fits, s)
                return
        plain(s)
        self._made = shapes, {slot: _form(s[slot]) for slot in arrays}

    def write(self, arrays: Mapping[int, _Array], s: Slots) -> None:
        """Run the step, handing it these arrays."""
        raise NotImplementedError


class _KernelWriter(_Writer):
    """A kernel with one output, whose shape follows from those of its inputs."""

    __slots__ = ()

    def write(self, arrays: Mapping[int, _Array], s: Slots) -> None:
        step: KernelStep = self.step
        assert step.into is not None
        (slot,) = step.outputs
        s[slot] = step.into(*[s[given] for given in step.inputs], arrays[slot])
        for released in step.release:
            s[released] = None


class _RegionWriter(_Writer):
    """A region, which makes the outputs itself that it is handed no array for."""

    __slots__ = ()

    def write(self, arrays: Mapping[int, _Array], s: Slots) -> None:
        step: RegionStep = self.step
        instance = s[step.instance]
        if instance is None:
            instance = s[0].instantiate(step)
        try:
            instance.bind([s[slot] for slot in step.inputs], [arrays.get(slot) for slot in step.outputs])
            made = instance()
        except RunDeclined as error:
            from ort_py.execution.declined import answer  # most regions decline no run

            made = answer(step, s, error)
        for slot, result in zip(step.outputs, made, strict=True):
            s[slot] = result
        for released in step.release:
            s[released] = None


def _form(value: Any) -> tuple[Any, Any]:
    return getattr(value, "shape", None), getattr(value, "dtype", None)


def _arrays(values: Sequence[Any]) -> list[Any]:
    """The arrays among values, those in sequences too."""
    found: list[Any] = []
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, np.ndarray):
            found.append(value)
    return found
