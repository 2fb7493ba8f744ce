"""Running a program in C: the region, shared by all threads, and an instance for each frame.

An instance owns the memory that `native.c` reads: the struct, pointers to this run's arrays, and scratch. Comes
after `program`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ort_py.contracts import Array, CompiledRegion, FrameResources, RegionInstance
from ort_py_native_region._native import ffi, lib
from ort_py_native_region.program import Program

__all__ = ["NativeInstance", "NativeRegion"]


class NativeRegion(CompiledRegion):
    """A program that many frames may run at once.

    Args:
        program: What to run.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """The memory of one frame."""
        return NativeInstance(self._program)


class NativeInstance(RegionInstance):
    """One frame's memory for a program.

    Args:
        program: What to run.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        outside = {*program.inputs, *program.outputs, *(place for place, _ in program.arrays)}
        inside = [place for place in range(program.values) if place not in outside]
        self._scratch = np.empty((max(len(inside), 1), lib.native_block), np.float32)
        for place, number in program.numbers:
            self._scratch[inside.index(place)] = number
        places = [inside.index(place) if place in inside else 0 for place in range(program.values)]
        self._steps = ffi.new("native_step[]", program.steps)
        self._places = ffi.new("int32_t[]", places)
        self._values = ffi.new("float *[]", program.values)
        for place, array in program.arrays:
            self._values[place] = _pointer(array)
        self._context = ffi.new("native_program *")
        self._context.steps = self._steps
        self._context.step_count = len(program.steps)
        self._context.values = self._values
        self._context.scratch = ffi.cast("float *", self._scratch.ctypes.data)
        self._context.scratch_places = self._places
        self._inputs: tuple[Array, ...] = ()
        self._outputs: list[Array] = []

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        """Point at a run's arrays.

        Raises:
            ValueError: They are not of one shape, as the model said they would be.
        """
        shapes = {array.shape for array in (*inputs, *(array for _, array in self._program.arrays))}
        if len(shapes) != 1:
            raise ValueError(f"arrays of one shape were promised, and {sorted(shapes)} came")
        (shape,) = shapes
        self._inputs = tuple(inputs)
        self._outputs = [
            np.empty(shape, np.float32) if given is None or given.shape != shape else given for given in outputs
        ]
        arrays = zip((*self._program.inputs, *self._program.outputs), (*inputs, *self._outputs), strict=True)
        for place, array in arrays:
            self._values[place] = _pointer(array)
        self._context.elements = self._outputs[0].size

    def __call__(self) -> Sequence[Array]:
        """Run; cffi lets go of the interpreter's lock meanwhile."""
        lib.native_run(self._context)
        self._inputs, outputs = (), self._outputs
        self._outputs = []
        return outputs

    def reserved_bytes(self) -> int:
        """Scratch memory, kept between runs."""
        return self._scratch.nbytes


def _pointer(array: Array) -> object:
    return ffi.cast("float *", ffi.from_buffer(array))  # refuses arrays that are not contiguous
