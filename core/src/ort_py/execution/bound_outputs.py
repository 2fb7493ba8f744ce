"""Outputs of a run that the step which makes them writes directly into the caller's arrays.

A run of a binding has arrays for some outputs. The step of such an output is handed the array: a kernel that declares
`out`, or a compiled region. Its shape must be known in advance, so a step receives arrays from the second run with the
same input shapes on. Results that were written elsewhere are copied when they are collected. Comes after
`planned_runs`, whose choice of instructions it changes for one run; ordinary runs do not use this module.

An array that is the memory of an input, as decoders bind their caches, is updated in place where the plan proves that
nothing reads the input afterwards (`planning.shared_buffers`). All other arrays that overlap an input, or each other,
are left to the copy: a step could write what is still to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import call, is_
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ort_py.contracts import RunDeclined
from ort_py.devices import HOST
from ort_py.execution.instructions import rechecked
from ort_py.planning.plan import KernelStep, RegionStep
from ort_py.planning.shared_buffers import pairs_over_feeds

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.execution.instructions import Instruction, Slots
    from ort_py.execution.program import Program

WORTH_BYTES = 64 << 10
"""Copying less takes less time than handing it to the step: some microseconds."""

_Array = np.ndarray[Any, Any]


class BoundOutputs:
    """Outputs of one program that a step can write in place. Threads share the object."""

    def __init__(self, program: Program) -> None:
        plan = program.plan
        wanted = {output.slot for output in plan.outputs if not output.copy and output.device == HOST}
        self._inputs = tuple(value.slot for value in plan.inputs)
        self._plain = program.instructions
        self._over = pairs_over_feeds(plan)
        self._writers: dict[int, tuple[int, _Writer]] = {}
        for number, step in enumerate(plan.steps):
            if not wanted.intersection(step.outputs):
                continue
            if isinstance(step, KernelStep) and step.device == HOST:
                writer: _Writer
                if step.over is not None:
                    writer = _Updater(step)
                elif step.into is not None and not set(step.outputs).intersection(step.release):
                    writer = _KernelWriter(step)
                else:
                    continue  # it makes its outputs itself, or one of them is dropped before its shape can be noted
                self._writers |= dict.fromkeys(wanted.intersection(step.outputs), (number, writer))
            elif isinstance(step, RegionStep) and step.device == HOST:
                writer = _RegionWriter(step)
                self._writers |= dict.fromkeys(wanted.intersection(step.outputs), (number, writer))
        self._by_number = dict(self._writers.values())

    def feeds_of(self, frame: Frame) -> list[Any]:
        """The inputs of the next run of a frame, which are in their slots."""
        slots = frame.slots
        return [slots[slot] for slot in self._inputs]

    def decide(self, feeds: Sequence[Any], targets: Mapping[int, _Array]) -> Decision:
        """Find which arrays can be handed to steps in runs with these inputs.

        Args:
            feeds: The inputs, as of `feeds_of`.
            targets: An array for the output in a slot; any may be left unused.
        """
        fitting = [
            (slot, array)
            for slot, array in targets.items()
            if slot in self._writers and array.nbytes >= WORTH_BYTES and array.flags.carray
        ]
        if not fitting:
            return Decision(feeds, targets, (), {})
        others = [(None, array) for array in _arrays(feeds)]
        alone, met = _overlaps([*others, *targets.items()])
        handed: dict[int, dict[int, _Array]] = {}
        over: dict[int, int] = {}
        by_slot = dict(zip(self._inputs, feeds, strict=True))
        for slot, array in fitting:
            feed = self._over.get(slot)
            if feed is not None and met.get(slot) is by_slot[feed] and _is_same(array, by_slot[feed]):
                over[slot] = feed
            elif slot not in alone or isinstance(self._writers[slot][1], _Updater):
                continue
            handed.setdefault(self._writers[slot][0], {})[slot] = array
        return Decision(feeds, targets, list(handed.items()), over)

    def bind(self, frame: Frame, decision: Decision) -> None:
        """Hand arrays to the steps of the next run of a frame, as was decided for its inputs."""
        if decision.steps:
            writers, steps, over = self._by_number, decision.steps, decision.over
            chooser = partial(_choose_bound, plain=self._plain, writers=writers, steps=steps, over=over)
            frame.chooser = partial(chooser, chooser=frame.chooser)


class Decision:
    """The steps of a run that write to arrays, and these. It holds for runs with the same arrays, as long as they are
    as they were: it takes a microsecond to find out where one of them lies in memory.

    It keeps no feed alive, which may be a copy made for one run, and nothing of the program, which ends with its
    session.

    Attributes:
        steps: Number of each step, and its arrays by slot.
        over: Slot of the feed that the output in a slot is written over.
    """

    __slots__ = ("_feeds", "_shapes", "_targets", "over", "steps")

    def __init__(
        self,
        feeds: Sequence[Any],
        targets: Mapping[int, _Array],
        steps: Sequence[tuple[int, dict[int, _Array]]],
        over: Mapping[int, int],
    ) -> None:
        self.steps = steps
        self.over = over
        lasting = all(type(feed) is np.ndarray for feed in feeds)
        self._feeds = [ref(feed) for feed in feeds] if lasting else None
        self._targets = list(targets.values())
        self._shapes = [array.shape for array in (*feeds, *self._targets)] if lasting else []

    def holds_for(self, feeds: Sequence[Any]) -> bool:
        """Return whether it holds for a run with these inputs, whose arrays are in one piece."""
        known = self._feeds
        if known is None or not all(map(is_, feeds, map(call, known))):
            return False
        try:
            shapes = [array.shape for array in [*feeds, *self._targets]]
        except AttributeError:
            return False  # None for an input that is not fed now, and for the array that was, which is gone
        return shapes == self._shapes and all(
            array.flags.carray for _, arrays in self.steps for array in arrays.values()
        )


def _choose_bound(
    frame: Frame,
    chooser: Callable[[Frame], None] | None,
    plain: list[Instruction],
    writers: Mapping[int, _Writer],
    steps: Sequence[tuple[int, dict[int, _Array]]],
    over: Mapping[int, int],
) -> None:
    """Choose the instructions of one run: those of the frame, but for the steps that are handed arrays.

    Args:
        chooser: The frame's own chooser, which makes all later choices.
        writers: What runs each step that can be handed arrays, by its number.
        steps: Numbers of those that are, and the arrays by slot.
        over: Slot of the feed that the output in a slot is written over.
    """
    frame.chooser = chooser
    if chooser is not None:
        chooser(frame)
    chosen = frame.instructions
    instructions = chosen.copy()
    for number, arrays in steps:
        place = number if frame.numbers is None else frame.numbers.index(number)
        bound = rechecked(chosen[place], plain[number], partial(writers[number].run, arrays, over, plain[number]))
        if bound is not None:  # otherwise it is recorded
            instructions[place] = bound
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

    def run(self, arrays: Mapping[int, _Array], over: Mapping[int, int], plain: Instruction, s: Slots) -> None:
        """Run the step.

        Args:
            over: Slot of the feed that has the memory of an array, by the array's slot.
            plain: Its instruction for runs that are handed nothing.
        """
        shapes = tuple([getattr(s[slot], "shape", None) for slot in self.step.inputs])
        known = self._made
        if known is not None and known[0] == shapes:
            fits = {slot: array for slot, array in arrays.items() if known[1].get(slot) == (array.shape, array.dtype)}
            if fits:
                _share(fits, over, s)
                self.write(fits, known[1], s)
                return
        plain(s)
        self._made = shapes, {slot: _form(s[slot]) for slot in self.step.outputs}

    def write(self, arrays: Mapping[int, _Array], forms: Mapping[int, tuple[Any, Any]], s: Slots) -> None:
        """Run the step, handing it these arrays.

        Args:
            forms: Shape and type of each of its outputs.
        """
        raise NotImplementedError


def _share(arrays: Mapping[int, _Array], over: Mapping[int, int], s: Slots) -> None:
    """Let the feeds that are written over be the very arrays that the step is handed."""
    for slot, feed in over.items():
        if slot in arrays:
            s[feed] = arrays[slot]


class _KernelWriter(_Writer):
    """A kernel whose outputs have shapes that follow from those of its inputs."""

    __slots__ = ()

    def write(self, arrays: Mapping[int, _Array], forms: Mapping[int, tuple[Any, Any]], s: Slots) -> None:
        step: KernelStep = self.step
        assert step.into is not None
        targets = [arrays[slot] if slot in arrays else np.empty(*forms[slot]) for slot in step.outputs]
        _store(step, step.into(*[s[given] for given in step.inputs], *targets), s)


class _Updater(_Writer):
    """A kernel that can update inputs, and decides itself whether the outputs are as large as they."""

    __slots__ = ()

    def run(self, arrays: Mapping[int, _Array], over: Mapping[int, int], plain: Instruction, s: Slots) -> None:
        step: KernelStep = self.step
        assert step.over is not None
        _share(arrays, over, s)
        _store(step, step.over(*[s[given] for given in step.inputs], *[arrays.get(slot) for slot in step.outputs]), s)


def _store(step: KernelStep, results: Any, s: Slots) -> None:
    if len(step.outputs) == 1:
        results = (results,)
    for slot, result in zip(step.outputs, results, strict=True):
        s[slot] = result
    for released in step.release:
        s[released] = None


class _RegionWriter(_Writer):
    """A region, which makes the outputs itself that it is handed no array for."""

    __slots__ = ()

    def write(self, arrays: Mapping[int, _Array], forms: Mapping[int, tuple[Any, Any]], s: Slots) -> None:
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


def _is_same(one: _Array, other: Any) -> bool:
    """Return whether two arrays in one piece are one memory with one meaning."""
    return one is other or (one.shape == other.shape and one.dtype == other.dtype and _span(one) == _span(other))


def _span(array: _Array) -> tuple[int, int]:
    """Address of the first byte of an array, and of the first behind it."""
    first = array.__array_interface__["data"][0]
    if array.flags.c_contiguous or not array.size:
        return first, first + array.nbytes
    ends = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    low, high = sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)
    return first + low, first + high + array.itemsize


def _overlaps(arrays: Sequence[tuple[int | None, _Array]]) -> tuple[set[int], dict[int, _Array]]:
    """Find which arrays for outputs share memory with others.

    Args:
        arrays: All feeds, with None, and all arrays for outputs, with the slot of the output.

    Returns:
        Slots of arrays that share memory with nothing, and by slot the one feed that others share memory with.
    """
    spans: dict[int, tuple[int, int]] = {}
    for _, array in arrays:
        if id(array) not in spans:  # most caches are bound as the very array that is fed
            spans[id(array)] = _span(array)
    ordered = sorted([(*spans[id(array)], place) for place, (_, array) in enumerate(arrays) if array.size])
    alone: set[int] = set()
    met: dict[int, _Array] = {}
    group: list[int] = []
    reach = 0
    for start, end, place in [*ordered, (1 << 64, 1 << 64, -1)]:
        if start < reach or not group:
            group.append(place)
            reach = max(reach, end)
            continue
        slots = [slot for slot, _ in map(arrays.__getitem__, group) if slot is not None]
        if len(slots) == 1:
            if len(group) == 1:
                alone.add(slots[0])
            elif len(group) == 2:
                met[slots[0]] = next(array for slot, array in map(arrays.__getitem__, group) if slot is None)
        group, reach = [place], end
    return alone, met
