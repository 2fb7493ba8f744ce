"""Values with names and layouts, and reorders between them: the part of a planner that knows nothing of fusing.

A value may exist in several layouts and types; a reorder is made at the first wish for one and remembered. So both
wander from operation to operation, and data are moved, or converted in the same step, only where two of them disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.half_floats import Conversion
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.execution.coalescing import Result, coalesced
from ort_py_onednn.execution.elements import as_bytes, element_of, numpy_of
from ort_py_onednn.execution.large_pages import aligned
from ort_py_onednn.execution.packed_weights import Weight
from ort_py_onednn.execution.plan import Buffer, Place, Plan, Step
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.graph.precision import FLOATING
from ort_py_onednn.lowering.steps import StepPlanner
from ort_py_onednn.lowering.values import Value, lies_plainly

__all__ = ["LayoutPlanner"]


class LayoutPlanner(StepPlanner):
    """Makes a plan of values and steps.

    Args:
        library: For the number of threads.
        weights: Constants of the region that are computed with.
        small: Constants that are looked at while planning: shapes, axes, bounds.
        threads: Threads of a run.
        uses: How often each value is read, outputs of the region counted.
        keep: Called with each primitive of a step as soon as it is known, so that its code can be generated meanwhile.

    Attributes:
        factor_type: Type in which its products read.
        dtype: Type of what it makes; None where that follows from what it reads.
        only: Type in which it gets floating values; None where any will do.
        alone: Whether no plan of other shapes will want the same weights.
        readers: Kinds of the operations that read each value; those of the region's outputs are not known.
        forms: What was made of the bytes of a buffer so far and may be read again, by a name of what it is.
    """

    def __init__(
        self,
        library: Library,
        weights: Mapping[str, Weight],
        small: Mapping[str, np.ndarray[Any, Any]],
        threads: int,
        uses: Mapping[str, int],
        keep: Callable[[Primitive], None],
    ) -> None:
        super().__init__(library, threads, keep)
        self._known = dict(small)
        self._weights = weights
        self._uses = dict(uses)
        self._values: dict[str, Value] = {}
        self._names: dict[Buffer, set[str]] = {}
        self.operands: set[Buffer | None] = set()
        self.alone = False
        self.readers: Mapping[str, frozenset[str]] = {}
        self.forms: dict[tuple[Buffer, str], Value] = {}
        self.factor_type: Element = F32
        self.dtype: Element | None = None
        self.only: Element | None = None

    # Values -----------------------------------------------------------------------------------------------------------

    def feed(self, name: str, index: int, shape: Sequence[int], dtype: Element = F32) -> None:
        """Declare an input of the region."""
        desc = Desc.plain(shape, dtype)
        value = Value(desc, Buffer(Place.INPUT, desc.nbytes, index), tuple(shape))
        self.bind(name, value)

    def value(self, name: str | None) -> Value:
        """A value by name; constants come as they lie."""
        assert name
        found = self._values.get(name)
        if found is None and name not in self._weights:
            # It follows from shapes: a number or two, seen from here like a constant.
            found = self.fixed(self._known[name].astype(np.float32))
            self.bind(name, found)
        if found is None:
            weight = self._weights[name]
            desc = Desc.plain(weight.shape, weight.dtype)
            found = Value(desc, None, weight.shape, weight)
            self.bind(name, found)
        if self.only is not None and found.dtype != self.only and found.dtype in FLOATING:
            return self.converted(found, self.only)
        return found

    def integers(self, name: str | None) -> Sequence[int]:
        """A known value of whole numbers: shapes, axes, bounds."""
        return [int(number) for number in self.known(name).reshape(-1)]

    def numbers(self, name: str | None) -> Sequence[float]:
        """A known value of a few numbers."""
        return [float(number) for number in self.known(name).reshape(-1)]

    def known(self, name: str | None) -> np.ndarray[Any, Any]:
        """The array of a value that is known while planning: a small constant, or what follows from shapes."""
        assert name
        return self._known[name]

    def know(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Note a value that follows from shapes."""
        self._known[name] = array

    def shape(self, name: str | None) -> tuple[int, ...]:
        """A value's shape, whether it is computed or known."""
        assert name
        return tuple(self._known[name].shape) if name in self._known else self.value(name).shape

    def bind(self, name: str, value: Value) -> None:
        """Give a value its name."""
        self._values[name] = value
        if value.buffer is not None:
            self._names.setdefault(value.buffer, set()).add(name)

    def type_of(self, name: str) -> Element | None:
        """The type that a value is held in; None for one that has no elements here."""
        return self._values[name].dtype if name in self._values else None

    def has(self, name: str) -> bool:
        """Return whether a value was given this name."""
        return name in self._values

    def alias(self, name: str, value: Value, original: str) -> None:
        """Give a form of a value a name of its own, free as soon as the original is."""
        self._uses[name] = self._uses.get(original, 0)
        self.bind(name, value)

    def fixed(self, array: np.ndarray[Any, Any]) -> Value:
        """A small constant that planning came up with, of a type that oneDNN has."""
        element = element_of(array.dtype)
        assert element is not None, f"oneDNN has no {array.dtype}"
        desc = Desc.plain(array.shape, element)
        data = aligned(desc.nbytes)
        data[:] = as_bytes(np.ascontiguousarray(array))
        return Value(desc, Buffer(Place.CONSTANT, desc.nbytes, data=data), array.shape)

    def read(self, operation: Operation) -> None:
        """Note that an operation has its operands."""
        for name in operation.reads():
            self._uses[name] = self._uses.get(name, 1) - 1
        self.operands = {self._values[name].buffer for name in operation.inputs if name in self._values}

    def is_last(self, value: Value) -> bool:
        """Return whether no later operation seems to read a value's bytes. Optimisations may depend on this,
        correctness may not, because only names are known here (`execution.coalescing` proves it).
        """
        buffer = value.buffer
        if buffer is None or buffer.place is not Place.ARENA:
            return False
        return all(self._uses.get(name, 0) <= 0 for name in self._names.get(buffer, ()))

    # Layouts ----------------------------------------------------------------------------------------------------------

    def in_layout(self, value: Value, desc: Desc) -> Value:
        """A value in a layout and type, reordered where it is not there already."""
        if value.desc.same(desc):
            return value
        key = desc.key
        found = value.others.get(key) if key is not None else None
        if found is None:
            if value.weight is not None:
                packed = value.weight.in_layout(desc, value.desc)
                found = Value(desc, Buffer(Place.CONSTANT, packed.data.nbytes, data=packed.data), value.shape)
            else:
                found = self.new(desc, value.shape)
                self.move(value, found)
            if found.buffer is not None and value.buffer in self._names:
                self._names.setdefault(found.buffer, set()).update(self._names[value.buffer])
            if key is not None:
                value.others[key] = found
                found.others = value.others
        return found

    def move(self, source: Value, target: Value) -> None:
        """Append the step that gives a new value the elements of another, in its own layout and type."""
        primitive = self.make(lambda: primitives.reorder(source.desc, target.desc), target.desc)
        conversion = None if primitive.is_tuned else Conversion.made(self.library, source.desc, target.desc)
        self.emit(conversion or primitive, {Argument.SRC: source, Argument.DST: target})

    def plain(self, value: Value) -> Value:
        """A value as a C-contiguous array of its type."""
        if value.desc.is_plain:
            return value
        desc = Desc.plain(value.dims, value.dtype)
        if lies_plainly(value.desc):
            return self.view(value, desc, value.shape)
        return self.in_layout(value, desc)

    def result_type(self, *values: Value) -> Element:
        """Type of what the operation makes of values: its own, else that of the largest that is computed, of two of a
        size the shorter."""
        if self.dtype is not None:
            return self.dtype
        computed = [value for value in values if value.weight is None] or values
        return min(computed, key=lambda value: (-math.prod(value.dims), value.dtype.nbytes)).dtype

    def arithmetic_type(self, *values: Value) -> Element:
        """Type of a function of several values: the `result_type` of those that are real numbers.

        Integers that stand for numbers never decide: a result is not an integer of theirs, and would be rounded.
        """
        real = [value for value in values if value.dtype in FLOATING]
        return self.result_type(*real) if real else self.dtype or F32

    def converted(self, value: Value, dtype: Element) -> Value:
        """A value in a type, as it lies where its layout is strides, else as a C-contiguous array."""
        if value.dtype == dtype:
            return value
        desc = value.desc.of(dtype) if value.weight is None else None
        return self.in_layout(value, desc or Desc.plain(value.dims, dtype))

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A value with other dimensions, moved only where its layout does not allow it."""
        dims = tuple(shape) or (1,)
        if value.weight is not None and value.buffer is None:
            return Value(Desc.plain(dims, value.dtype), None, tuple(shape), value.weight)
        if not value.desc.is_plain:
            found = None if lies_plainly(value.desc) else value.desc.reshaped(dims)
            if found is not None:
                return self.view(value, found, shape)
            if value.desc.is_channels_last and len(dims) >= 3:
                # Moved, but to where the next convolution wants it.
                target = Desc.channels_last(dims, value.dtype)
                seen = target.reshaped(value.dims)
                if seen is not None:
                    return self.view(self.in_layout(value, seen), target, shape)
        return self.view(self.plain(value), Desc.plain(dims, value.dtype), shape)

    def ranked(self, value: Value, rank: int) -> Value:
        """A value with leading dimensions of 1 added up to a rank."""
        missing = rank - len(value.dims)
        return value if missing <= 0 else self.reshaped(value, (1,) * missing + value.dims)

    # The end ----------------------------------------------------------------------------------------------------------

    def finish(self, outputs: Sequence[str], dtypes: Sequence[Element | None] = ()) -> Plan:
        """The plan: outputs are written where they are wanted, or moved there.

        Args:
            outputs: The region's outputs.
            dtypes: Their types, None for one that is known; float32 where none are given.
        """
        results: list[Result] = []
        shapes: list[tuple[int, ...]] = []
        self.title = "the region's outputs"
        kinds = tuple(dtypes) or (F32,) * len(outputs)
        given: list[tuple[int, np.ndarray[Any, Any]]] = []
        made: list[np.dtype[Any]] = []
        for index, (name, dtype) in enumerate(zip(outputs, kinds, strict=True)):
            if dtype is None or name in self._known:
                array = self._known[name]
                given.append((index, array))
                shapes.append(array.shape)
                made.append(array.dtype)
                continue
            value = self.value(name)
            shapes.append(value.shape)
            made.append(numpy_of(dtype))
            if value.dtype != dtype:
                wanted = Desc.plain(value.dims, dtype)
                source = self.plain(value) if dtype == Element.F16 else value
                self.buffer_of(source)
                self.move(source, Value(wanted, Buffer(Place.OUTPUT, wanted.nbytes, index), value.shape))
                continue
            if 0 in value.dims:
                continue  # nothing is returned
            found = self.plain(value)
            goal = Buffer(Place.OUTPUT, found.desc.nbytes, index)
            source = Value(found.desc, self.buffer_of(found), value.shape)
            results.append(Result(self.buffer_of(found), goal, partial(self._returned, source, goal)))
        done = coalesced(self._steps, results)
        return Plan(done.steps, done.arena_bytes, tuple(shapes), tuple(made), tuple(given))

    def _returned(self, source: Value, target: Buffer) -> Step:
        """The step that copies a value to an array of the run."""
        desc = source.desc
        primitive = self.make(lambda: primitives.reorder(desc, desc), desc)
        first = len(self._steps)
        self.emit(primitive, {Argument.SRC: source, Argument.DST: Value(desc, target, source.shape)})
        (step,) = self._steps[first:]
        return step
