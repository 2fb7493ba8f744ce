"""Steps of a plan, and places in memory for what they read and write: the part of a planner that knows no operation.

Primitives are made for as many threads as their work pays for. Comes before `layouts`, which keeps values by name and
in layouts, and `planner`, which fuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from ort_py.errors import EPFail
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.openmp import threads as openmp_threads
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.primitive import Primitive, Unimplemented
from ort_py_onednn.execution.plan import Buffer, Place, Step
from ort_py_onednn.execution.repeat import repeated
from ort_py_onednn.lowering.values import Value

__all__ = ["StepPlanner"]

Made = TypeVar("Made")

_TINY = 1 << 15
"""Elements below which one thread does what takes a few instructions an element: 2 µs of work.

A second thread that waits in OpenMP's loop costs as much. One that sleeps costs 30 µs, but none does between primitives
that all take it, and a region to which that happens all the same goes on with one thread (`execution.crowding`)."""

_TINY_PRODUCTS = 1 << 17
"""Multiply-adds below which one thread does a product: 1 µs of a large one, 4 µs of one row."""


class StepPlanner:
    """Makes steps.

    Args:
        library: For the number of threads.
        threads: Threads of a run.
        keep: Called with each primitive of a step as soon as it is known, so that its code can be generated meanwhile.

    Attributes:
        title: Name of the operation that is lowered, for errors.
        count: Threads of the primitive made last.
        threads: Threads of a run.
    """

    def __init__(self, library: Library, threads: int, keep: Callable[[Primitive], None]) -> None:
        self.library = library
        self._keep = keep
        self._steps: list[Step] = []
        self.count = 1
        self.threads = threads
        self.title = ""

    # Places -----------------------------------------------------------------------------------------------------------

    def new(self, desc: Desc, shape: Sequence[int] | None = None) -> Value:
        """A value in a new place of the arena."""
        size = max(desc.nbytes, desc.reach[1])  # a layout may begin behind its address
        return Value(desc, Buffer(Place.ARENA, size), tuple(desc.dims if shape is None else shape))

    def carried(self, desc: Desc) -> Value:
        """A value in a new place of the arena that steps which are repeated read and write again each time."""
        found = self.new(desc)
        self.buffer_of(found).carried = True
        return found

    def view(self, value: Value, desc: Desc, shape: Sequence[int] | None = None) -> Value:
        """The same bytes seen otherwise."""
        return Value(desc, self.buffer_of(value), tuple(desc.dims if shape is None else shape))

    def piece(self, value: Value, start: int, desc: Desc) -> Value:
        """Elements of a new, plain value, from one on, as a value with a layout of its own: for primitives that lack
        code for parts of tensors."""
        whole = value.buffer
        assert whole is not None
        assert whole.whole is None
        return Value(desc, Buffer(whole.place, desc.nbytes, whole=whole, start=start * desc.dtype.nbytes), desc.dims)

    def moving(self, moves: dict[Buffer, int], value: Value, start: int, desc: Desc, stride: int) -> Value:
        """A `piece` that begins so many elements further on each time that steps are repeated.

        Args:
            moves: What `repeating` yields.
            value: A new, plain value.
            start: Where the piece begins the first time.
            desc: Its layout.
            stride: Elements from one time to the next; negative for a way back.
        """
        found = self.piece(value, start, desc)
        moves[self.buffer_of(found)] = stride * desc.dtype.nbytes
        return found

    def buffer_of(self, value: Value) -> Buffer:
        """Buffer of a value; a constant is put in memory as it is now."""
        if value.buffer is None:
            assert value.weight is not None
            packed = value.weight.in_layout(value.desc, value.desc)
            value.buffer = Buffer(Place.CONSTANT, packed.data.nbytes, data=packed.data)
        return value.buffer

    # Steps ------------------------------------------------------------------------------------------------------------

    def make(self, build: Callable[[], Made], size: Desc) -> Made:
        """Create a primitive, or what stands in its place, for one thread where the work is tiny, else for all; where
        its layout tells the number, for that many."""
        self.count = size.threads or (1 if math.prod(size.dims) < _TINY else self.threads)
        with openmp_threads(self.library, self.count):
            return build()

    def make_heavy(self, build: Callable[[], Made], work: float) -> Made:
        """Create a primitive for products; `work` is the number of multiply-adds."""
        self.count = 1 if work < _TINY_PRODUCTS else self.threads
        with openmp_threads(self.library, self.count):
            return build()

    def emit(
        self,
        primitive: Primitive | OwnCode,
        values: Mapping[int, Value],
        *,
        in_place: int | None = None,
        accumulates: bool = False,
    ) -> None:
        """Append a step; the number of threads is that of the primitive made last.

        Args:
            primitive: The primitive.
            values: Values by argument code. Values that are written are new and have not been read.
            in_place: The argument whose place the destination may take once it is no longer needed.
            accumulates: Whether the primitive adds to what the destination holds.

        Raises:
            EPFail: An argument is missing or has another layout than the primitive wants.
            Unimplemented: It reads an empty tensor to make one that is not.
        """
        target = values.get(Argument.DST)
        if target is not None and 0 in target.dims:
            return  # nothing is computed
        if any(0 in value.dims for value in values.values()):
            raise Unimplemented("something is to be computed of an empty tensor")
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
        if isinstance(primitive, Primitive):
            self._keep(primitive)
        self._steps.append(Step(primitive, buffers, self.count, self.title, in_place=in_place, accumulates=accumulates))

    def zero(self, value: Value) -> None:
        """Append a step that fills a value's bytes with zeroes."""
        self._steps.append(Step(None, {Argument.DST: self.buffer_of(value)}, 1, self.title))

    def copy(self, source: Value, target: Value, *, elidable: bool = False) -> None:
        """Append a step that copies bytes from one place of the arena to another. For a few bytes it takes a tenth of a
        primitive's time.

        Args:
            source: The value to copy.
            target: A new value.
            elidable: Whether the target may take the source's place instead, once the source is no longer needed.
        """
        if 0 in target.dims:
            return
        buffers = {Argument.SRC: self.buffer_of(source), Argument.DST: self.buffer_of(target)}
        self._steps.append(Step(None, buffers, 1, self.title, elidable=elidable))

    @contextmanager
    def repeating(self, count: int) -> Iterator[dict[Buffer, int]]:
        """Make one step of those that are appended inside: it runs them again and again.

        Args:
            count: How often.

        Yields:
            What moves: by how many bytes a piece of a value begins further on each time.
        """
        first = len(self._steps)
        strides: dict[Buffer, int] = {}
        yield strides
        self._steps[first:] = [repeated(self._steps[first:], count, strides, self.title)]
