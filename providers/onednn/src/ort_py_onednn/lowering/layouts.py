"""Values with layouts, reorders between them, steps: the part of a planner that knows nothing of fusing.

A value may exist in several layouts; a reorder is made at the first wish for one and remembered. Layouts so wander from
operation to operation, and data are moved only where two of them disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.errors import EPFail
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.openmp import threads as openmp_threads
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.execution.packed_weights import Weight, aligned
from ort_py_onednn.execution.plan import Buffer, Place, Plan, Step, lay_out
from ort_py_onednn.graph.operation import Combine, Operation
from ort_py_onednn.lowering.values import Value, lies_plainly

__all__ = ["LayoutPlanner"]

_TINY = 16_384
"""Elements below which a second thread costs more than it gives, for work of a few instructions an element."""


class LayoutPlanner:
    """Makes a plan of values and steps.

    Args:
        library: For the number of threads.
        weights: Constants of the region that are computed with.
        small: Constants that are looked at while planning: shapes, axes, bounds.
        threads: Threads of a run.
        uses: How often each value is read, outputs of the region counted.
    """

    def __init__(
        self,
        library: Library,
        weights: Mapping[str, Weight],
        small: Mapping[str, np.ndarray[Any, Any]],
        threads: int,
        uses: Mapping[str, int],
    ) -> None:
        self._library = library
        self._small = small
        self._weights = weights
        self._uses = dict(uses)
        self._values: dict[str, Value] = {}
        self._steps: list[Step] = []
        self._sharers: dict[Buffer, list[Value]] = {}
        self.operands: set[Buffer | None] = set()
        self._followers: set[Buffer | None] = set()
        self.count = 1
        self.threads = threads
        self.title = ""

    # Values -----------------------------------------------------------------------------------------------------------

    def feed(self, name: str, index: int, shape: Sequence[int]) -> None:
        """Declare an input of the region."""
        desc = Desc.plain(shape)
        self.bind(name, Value(desc, Buffer(Place.INPUT, desc.nbytes, index), tuple(shape)))

    def value(self, name: str | None) -> Value:
        """A value by name; constants come as they lie."""
        assert name
        found = self._values.get(name)
        if found is None:
            weight = self._weights[name]
            desc = Desc.plain(weight.shape)
            found = Value(desc, None, weight.shape, weight)
            self.bind(name, found)
        return found

    def integers(self, name: str | None) -> Sequence[int]:
        """A constant of whole numbers: shapes, axes, bounds."""
        assert name
        return [int(number) for number in self._small[name].reshape(-1)]

    def numbers(self, name: str | None) -> Sequence[float]:
        """A constant of a few numbers."""
        assert name
        return [float(number) for number in self._small[name].reshape(-1)]

    def bind(self, name: str, value: Value) -> None:
        """Give a value its name."""
        self._values[name] = value
        value.names.add(name)
        if value.buffer is not None:
            self._sharers.setdefault(value.buffer, []).append(value)

    def alias(self, name: str, value: Value, original: str) -> None:
        """Give a form of a value a name of its own, free as soon as the original is."""
        self._uses[name] = self._uses.get(original, 0)
        self._values[name] = value
        value.names.add(name)

    def fixed(self, array: np.ndarray[Any, Any]) -> Value:
        """A small constant that planning came up with."""
        desc = Desc.plain(array.shape)
        data = aligned(desc.nbytes)
        data[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return Value(desc, Buffer(Place.CONSTANT, desc.nbytes, data=data), array.shape)

    def new(self, desc: Desc, shape: Sequence[int] | None = None) -> Value:
        """A value in a new place of the arena."""
        return Value(desc, Buffer(Place.ARENA, desc.nbytes), tuple(desc.dims if shape is None else shape))

    def view(self, value: Value, desc: Desc, shape: Sequence[int] | None = None) -> Value:
        """The same bytes seen otherwise."""
        return Value(desc, self.buffer_of(value), tuple(desc.dims if shape is None else shape))

    def buffer_of(self, value: Value) -> Buffer:
        """Where a value lies; a constant is put in memory as it is now."""
        if value.buffer is None:
            assert value.weight is not None
            packed = value.weight.in_layout(value.desc, value.desc)
            value.buffer = Buffer(Place.CONSTANT, packed.data.nbytes, data=packed.data)
        return value.buffer

    def read(self, operation: Operation) -> None:
        """Note that an operation has its operands: a value that nobody else reads may be written over."""
        for name in operation.reads():
            self._uses[name] = self._uses.get(name, 1) - 1
        self.operands = {self._values[name].buffer for name in operation.inputs if name in self._values}
        self._followers = {self.value(post.value).buffer for post in operation.posts if isinstance(post, Combine)}

    def is_free(self, value: Value) -> bool:
        """Whether a value may be written over: nobody reads its bytes after the operation that was noted last, nor does
        what follows in that operation."""
        return value.buffer not in self._followers and self.is_last(value)

    def is_last(self, value: Value) -> bool:
        """Whether nobody reads a value's bytes after the operation that was noted last."""
        buffer = value.buffer
        if buffer is None or buffer.place is not Place.ARENA:
            return False
        return all(self._uses.get(name, 0) <= 0 for sharer in self._sharers.get(buffer, ()) for name in sharer.names)

    # Layouts ----------------------------------------------------------------------------------------------------------

    def in_layout(self, value: Value, desc: Desc) -> Value:
        """A value in a layout, reordered where it is not there already."""
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
                primitive = self.make(lambda: primitives.reorder(value.desc, desc), desc)
                self.emit(primitive, {Argument.SRC: value, Argument.DST: found})
            found.names = value.names
            if found.buffer is not None:
                self._sharers.setdefault(found.buffer, []).append(found)
            if key is not None:
                value.others[key] = found
                found.others = value.others
        return found

    def plain(self, value: Value) -> Value:
        """A value as a C-contiguous array."""
        if value.desc.is_plain:
            return value
        desc = Desc.plain(value.dims)
        if lies_plainly(value.desc):
            found = self.view(value, desc, value.shape)
            found.names = value.names
            self._sharers.setdefault(self.buffer_of(found), []).append(found)
            return found
        return self.in_layout(value, desc)

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A value with other dimensions, moved only where its layout does not allow it."""
        dims = tuple(shape) or (1,)
        if value.weight is not None and value.buffer is None:
            return Value(Desc.plain(dims), None, tuple(shape), value.weight)
        if not value.desc.is_plain:
            found = None if lies_plainly(value.desc) else value.desc.reshaped(dims)
            if found is not None:
                return self._alias(value, found, shape)
            if value.desc.is_channels_last and len(dims) >= 3:
                # Moved, but to where the next convolution wants it.
                target = Desc.channels_last(dims)
                seen = target.reshaped(value.dims)
                if seen is not None:
                    return self._alias(self.in_layout(value, seen), target, shape)
        return self._alias(self.plain(value), Desc.plain(dims), shape)

    def _alias(self, value: Value, desc: Desc, shape: Sequence[int]) -> Value:
        found = self.view(value, desc, shape)
        self._sharers.setdefault(self.buffer_of(found), []).append(found)
        return found

    def ranked(self, value: Value, rank: int) -> Value:
        """A value with leading dimensions of 1 added up to a rank."""
        missing = rank - len(value.dims)
        return value if missing <= 0 else self.reshaped(value, (1,) * missing + value.dims)

    # Steps ------------------------------------------------------------------------------------------------------------

    def make(self, build: Callable[[], Primitive], size: Desc) -> Primitive:
        """Create a primitive for one thread where the work is tiny, else for all."""
        self.count = 1 if math.prod(size.dims) < _TINY else self.threads
        with openmp_threads(self._library, self.count):
            return build()

    def make_heavy(self, build: Callable[[], Primitive], work: float) -> Primitive:
        """Create a primitive for products; `work` is the number of multiply-adds."""
        self.count = 1 if work < 8 * _TINY else self.threads
        with openmp_threads(self._library, self.count):
            return build()

    def emit(self, primitive: Primitive, values: Mapping[int, Value]) -> None:
        """Append a step; the number of threads is that of the primitive made last.

        Raises:
            EPFail: An argument is missing or has another layout than the primitive wants.
        """
        buffers: dict[int, Buffer] = {}
        for code, desc in primitive.arguments.items():
            if code == Argument.SCRATCHPAD:
                buffers[code] = Buffer(Place.ARENA, desc.nbytes)
                continue
            value = values.get(code)
            if value is None or not value.desc.same(desc):
                raise EPFail(
                    f"A oneDNN primitive of '{self.title}' ({primitive.implementation}) wants argument {code} as "
                    f"{desc.key}; it is bound to {None if value is None else value.desc.key}.",
                    fix="this is a mistake in ort-py-onednn: please report it with the model",
                )
            buffers[code] = self.buffer_of(value)
        self._steps.append(Step(primitive, buffers, self.count, self.title))

    def zero(self, value: Value) -> None:
        """Append a step that fills a value's bytes with zeroes."""
        self._steps.append(Step(None, {Argument.DST: self.buffer_of(value)}, 1, self.title))

    # The end ----------------------------------------------------------------------------------------------------------

    def finish(self, outputs: Sequence[str]) -> Plan:
        """The plan: outputs are written where they are wanted, or moved there."""
        taken: set[Buffer] = set()
        shapes: list[tuple[int, ...]] = []
        self.title = "the region's outputs"
        for index, name in enumerate(outputs):
            value = self.value(name)
            shapes.append(value.shape)
            found = self.plain(value)
            buffer = self.buffer_of(found)
            desc = Desc.plain(found.dims)
            if buffer.place is Place.ARENA and buffer not in taken and buffer.nbytes == desc.nbytes:
                taken.add(buffer)
                buffer.place, buffer.index = Place.OUTPUT, index
                continue
            target = Value(desc, Buffer(Place.OUTPUT, desc.nbytes, index), value.shape)
            primitive = self.make(lambda: primitives.reorder(desc, desc), desc)  # noqa: B023
            self.emit(primitive, {Argument.SRC: Value(desc, buffer, value.shape), Argument.DST: target})
        return Plan(tuple(self._steps), lay_out(self._steps), tuple(shapes))
