"""The part of a plan that depends on the shapes of its inputs alone, with a program of whole numbers for most of it.

The walk through the constraints of operators that makes the gate of a region follows sizes, and lists of numbers made
of them. Here it goes through the steps of a plan. What it follows to the end, the program computes; positions, masks
and other long results are made otherwise. Comes after `fixed_values`; `execution.shape_results` runs what is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from ort_py.constraints.gate_program import GateProgram, Input
from ort_py.constraints.gate_walk import compiled, encoded, symbolic
from ort_py.constraints.scope import Dims, Tensor, content_of
from ort_py.constraints.sizes import ProgramRecorder, Size, is_known, product
from ort_py.constraints.trace import Trace, constrained, result_of, trace
from ort_py.dtypes import DataType, TensorType, numpy_dtype
from ort_py.lazy_dataclass import dataclass
from ort_py.planning.fixed_values import reads_shape, steps_fixed_by_shapes
from ort_py.planning.plan import NONE_SLOT, ContiguousStep, ExecutionPlan, KernelStep, RegionStep, Step

_WHOLE = frozenset({DataType.INT64, DataType.INT32, DataType.BOOL})
"""Types of numbers that a program computes exactly as kernels do. Those that would wrap around fail a condition."""

_FEWEST = 6
"""Steps that depend on shapes alone, from which on a program is worth its making."""


@dataclass(frozen=True, slots=True)
class Content:
    """A value that the program computes: the slot that holds it, its element type, and its shape."""

    slot: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Way(Enum):
    """The way in which the result of a step is made, where its shape is known."""

    STEP = 0
    """As the step makes it."""
    RESHAPE = 1
    EXPAND = 2
    RANGE = 3


@dataclass(frozen=True, slots=True)
class LeftStep:
    """A step whose result is no list of a few numbers.

    Attributes:
        source: Slot of the value that is reshaped or expanded.
        target: Slot of the result.
        registers: Registers of the result's sizes, or of a range's start, end and step.
        dtype: Element type of a range.
    """

    number: int
    way: Way
    source: int = NONE_SLOT
    target: int = NONE_SLOT
    registers: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None


@dataclass(frozen=True, slots=True)
class ShapeProgram:
    """The steps of a plan that depend on shapes alone.

    Attributes:
        program: Its first outputs are the elements of the `contents`, its values are the arrays that the `left` steps
            make, and its predicates say that no step would fail, and that no number would wrap around.
        inputs: Slots of the values whose shapes the program reads.
        left: What has to be made otherwise, in order, with the contents in their slots.
        replaced: Numbers of all steps whose results follow.
        results: Slots of the results that other steps read.
    """

    program: GateProgram
    inputs: tuple[int, ...]
    contents: tuple[Content, ...]
    left: tuple[LeftStep, ...]
    replaced: frozenset[int]
    results: tuple[int, ...]


_WAYS = {
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), Way.RESHAPE),
    "Expand": Way.EXPAND,
    "Range": Way.RANGE,
}


def shape_program(plan: ExecutionPlan) -> ShapeProgram | None:
    """Find what depends on the shapes of a main plan's inputs alone; None where that is little."""
    steady = {value.slot for value in plan.inputs if isinstance(value.type, TensorType)}
    candidates = steps_fixed_by_shapes(plan, steady)
    if len(candidates) < _FEWEST:
        return None
    walk = _Walk(plan, candidates)
    replaced = steps_fixed_by_shapes(plan, steady, range(len(plan.steps)), walk.contents)
    if len(replaced) < _FEWEST:
        return None
    read = {slot for number, step in enumerate(plan.steps) if number not in replaced for slot in step.inputs}
    wanted, left = set(read), []
    for number in sorted(replaced, reverse=True):
        step = plan.steps[number]
        if not wanted.isdisjoint(step.outputs) and not walk.contents.keys() >= set(step.outputs):
            one = walk.way(number, step)
            wanted.update(step.inputs if one.way is Way.STEP else [one.source])
            left.append(one)
    left.reverse()
    made = [slot for number in sorted(replaced) for slot in plan.steps[number].outputs if slot in wanted]
    contents = [slot for slot in made if slot in walk.contents]
    program = walk.program(contents, left)
    numbers = iter([one or () for one in program.outputs[len(contents) :]])
    return ShapeProgram(
        program,
        tuple(walk.slots),
        tuple(walk.contents[slot] for slot in contents),
        tuple(one if one.way is Way.STEP else replace(one, registers=next(numbers)) for one in left),
        replaced,
        tuple(slot for slot in made if slot in read),
    )


class _Walk:
    """The walk through the steps that make some results, and through those that the shapes in them come from.

    Attributes:
        contents: What a program can compute, by slot.
        slots: Slots of the inputs of the program.
    """

    def __init__(self, plan: ExecutionPlan, numbers: Iterable[int]) -> None:
        self._plan = plan
        self._recorder = ProgramRecorder()
        self._found = Trace()
        self._tensors: dict[int, Tensor] = {}
        self._makers: dict[int, int] = {}
        self._inputs: list[Input] = []
        self.contents: dict[int, Content] = {}
        self.slots: list[int] = []
        symbols: dict[str, Size] = {}
        for value in plan.inputs:
            kind = value.type
            self._tensors[value.slot] = Tensor()
            if isinstance(kind, TensorType) and kind.shape is not None:
                dims = symbolic(kind.shape, self._recorder, symbols)
                self._tensors[value.slot] = Tensor(tuple(dims), kind.data_type, border=0)
                self._inputs.append(Input(encoded(dims)))
                self.slots.append(value.slot)
        for number in _with_sources(plan, numbers):
            self._go_through(number, plan.steps[number])

    def way(self, number: int, step: Step) -> LeftStep:
        """The way in which a step's result is made whose elements are not followed."""
        place = step.location
        shape = self._tensors.get(step.outputs[0], Tensor()).shape
        if isinstance(step, KernelStep) and not place.domain and shape is not None and all(map(is_known, shape)):
            found = LeftStep(number, _WAYS.get(place.op_type, Way.STEP), step.inputs[0], step.outputs[0])
            if found.way is not Way.RANGE:
                return found
            bounds = [_exact_content(slot, self._tensors[slot]) for slot in step.inputs]
            types = {None if one is None else one.dtype for one in bounds}
            if len(types) == 1 and None not in types:
                return replace(found, source=NONE_SLOT, dtype=types.pop())
        return LeftStep(number, Way.STEP)

    def _numbers(self, one: LeftStep) -> Dims | None:
        """The numbers that make a result: its sizes, or the bounds of a range."""
        if one.way is Way.RANGE:
            slots = self._plan.steps[one.number].inputs
            return tuple(number for slot in slots for number in content_of(self._tensors[slot]) or ())
        return self._tensors[one.target].shape

    def program(self, contents: Sequence[int], left: Sequence[LeftStep]) -> GateProgram:
        """The program for the contents of some slots, and for the numbers that what is left is made of."""
        conditions = {one.number for one in left}
        pending = [self._makers[slot] for slot in contents if slot in self._makers]
        pending += [
            self._makers[slot] for one in left for slot in self._plan.steps[one.number].inputs if slot in self._makers
        ]
        while pending:
            number = pending.pop()
            if number not in conditions:
                conditions.add(number)
                pending += [self._makers[slot] for slot in self._plan.steps[number].inputs if slot in self._makers]
        found = Trace()
        found.requirements = [one for one in self._found.requirements if one.node in conditions]
        found.outputs = [self._tensors[slot].content for slot in contents]
        found.outputs += [self._numbers(one) for one in left if one.way is not Way.STEP]
        made = [one.number for one in left if one.way is not Way.RESHAPE]
        for slot in [slot for number in made for slot in self._plan.steps[number].outputs]:
            tensor = self._tensors.get(slot, Tensor())
            if tensor.shape is not None and tensor.data_type is not None:
                found.values.append((product(tensor.shape), tensor.data_type, ""))
        return compiled(self._recorder, self._inputs, found, set())

    def _go_through(self, number: int, step: Step) -> None:
        if isinstance(step, ContiguousStep):
            source = self._tensors.get(step.inputs[0], Tensor())
            made = [Tensor(source.shape, source.data_type, source.content)]
        elif isinstance(step, KernelStep) and step.node is not None:
            made = self._of_kernel(number, step)
        elif isinstance(step, RegionStep) and step.admissions is not None:
            made = self._of_region(step)
        else:
            made = []
        for place, slot in enumerate(step.outputs):
            tensor = self._tensors[slot] = made[place] if place < len(made) else Tensor()
            self._makers[slot] = number
            content = _exact_content(slot, tensor)
            if content is None:
                # What follows must not count on numbers that a run may compute otherwise.
                tensor.content = tensor.constant = None
                tensor.border = 0  # indices in it are looked at by the steps that read them
            else:
                self.contents[slot] = content

    def _of_kernel(self, number: int, step: KernelStep) -> list[Tensor]:
        node, found = step.node, self._found
        assert node is not None
        given = [
            None if value is None else self._tensor(slot, value.data_type)
            for slot, value in zip(step.inputs, node.inputs, strict=True)
        ]
        doubts = len(found.violations), len(found.unchecked)
        made = constrained(node, number, given, found)
        if doubts != (len(found.violations), len(found.unchecked)):
            made = ()
        tensors = [
            Tensor() if value is None else result_of(made[place] if place < len(made) else None, value)
            for place, value in enumerate(node.outputs)
        ]
        if not reads_shape(step) and any(one is not None and one.data_type not in _WHOLE for one in given):
            for one in tensors:
                one.content = one.constant = None
        return tensors

    def _of_region(self, step: RegionStep) -> list[Tensor]:
        assert step.admissions is not None
        facts = step.admissions.gate.facts
        types = [kind.data_type if isinstance(kind, TensorType) else None for kind in facts.types]
        given = [self._tensor(slot, kind) for slot, kind in zip(step.inputs, types, strict=True)]
        shapes = trace(facts.nodes, given, facts.names, facts.outputs, facts.array).outputs
        return [Tensor(shape, value.data_type) for shape, value in zip(shapes, facts.outputs, strict=True)]

    def _tensor(self, slot: int, data_type: DataType | None) -> Tensor:
        """The facts about an input of a step: one that was walked over, or a constant."""
        found = self._tensors.get(slot)
        if found is None:
            array = self._plan.template[slot]
            found = Tensor()
            if isinstance(array, np.ndarray):
                found = Tensor(tuple(array.shape), data_type)
                if data_type in _WHOLE:
                    found.constant = lambda: array
            self._tensors[slot] = found
        return found


def _with_sources(plan: ExecutionPlan, numbers: Iterable[int]) -> list[int]:
    """Some steps, and all those that make what they read, directly or not; in order."""
    found, wanted = set(numbers), set[int]()
    for number in range(len(plan.steps) - 1, -1, -1):
        step = plan.steps[number]
        if number in found or not wanted.isdisjoint(step.outputs):
            found.add(number)
            wanted.update(step.inputs)
    wanted.discard(NONE_SLOT)
    return sorted(found)


def _exact_content(slot: int, tensor: Tensor) -> Content | None:
    """What a program can compute of a value: all elements, which are whole numbers."""
    kind, shape, content = tensor.data_type, tensor.shape, content_of(tensor)
    if content is None or shape is None or kind not in _WHOLE or not _are_whole(content):
        return None
    sizes = tuple(size for size in shape if isinstance(size, int))
    if len(sizes) != len(shape) or product(sizes) != len(content):
        return None
    return Content(slot, numpy_dtype(kind), sizes)


def _are_whole(content: Dims) -> bool:
    return all(isinstance(one, int | Size) and is_known(one) for one in content)
