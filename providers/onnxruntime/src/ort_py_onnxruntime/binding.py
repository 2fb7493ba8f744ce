"""The inputs and outputs of one frame, bound to a session of onnxruntime.

Comes before `region`. Binding an array costs some 2 µs, copying a small one a tenth of that: small values go through
memory that is bound once for their shapes, and large ones are read and written where they are. Nothing of a run is kept
alive after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ort_py_onnxruntime.native import native

__all__ = ["SMALL", "Binding", "Shape"]

Shape: TypeAlias = tuple[int, ...]

SMALL = 16 << 10
"""Bytes up to which a value is copied: about where copying costs as much as binding."""


class Binding:
    """Arrays of one frame, for one set of shapes at a time.

    Args:
        session: Of onnxruntime.
        inputs: Names of its inputs, in the order in which arrays are given.
        outputs: Names of its outputs.

    Attributes:
        native: onnxruntime's binding, to be run.
    """

    def __init__(self, session: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        real = native()
        self.native = real.SessionIOBinding(session)
        self._value = real.OrtValue.ortvalue_from_numpy
        self._host = real.OrtDevice(real.OrtDevice.cpu(), real.OrtDevice.default_memory(), 0)
        self._names = (tuple(inputs), tuple(outputs))
        self._copied: list[tuple[int, np.ndarray[Any, Any]]] = []
        self._read: list[tuple[int, str]] = []
        self._written: list[tuple[str, Shape, np.dtype[Any], np.ndarray[Any, Any] | None]] = []
        self._held: list[Any] = []
        self._made: list[Any] = []

    def prepare(
        self, given: Sequence[Any], shapes: Sequence[Shape | None], dtypes: Sequence[np.dtype[Any] | None]
    ) -> bool:
        """Get ready for runs with inputs of these shapes, and return whether they can be bound.

        Args:
            given: The inputs.
            shapes: Shape of each output.
            dtypes: Element type of each output.
        """
        self._copied, self._read, self._written = [], [], []
        if not all(array.size for array in given) or any(shape is None or 0 in shape for shape in shapes):
            return False  # onnxruntime has no place to write to where there are no elements
        for place, (name, array) in enumerate(zip(self._names[0], given, strict=True)):
            if array.nbytes <= SMALL:
                copy = np.empty(array.shape, array.dtype)
                self.native.bind_ortvalue_input(name, self._value(copy, self._host))
                self._copied.append((place, copy))
            else:
                self._read.append((place, name))
        for name, shape, dtype in zip(self._names[1], shapes, dtypes, strict=True):
            assert shape is not None, "otherwise there is nothing to be prepared"
            assert dtype is not None, "its shape is known, and so is its type"
            memory: np.ndarray[Any, Any] | None = None
            if math.prod(shape) * dtype.itemsize <= SMALL:
                memory = np.empty(shape, dtype)
                self.native.bind_ortvalue_output(name, self._value(memory, self._host))
            self._written.append((name, shape, dtype, memory))
        return True

    def load(self, given: Sequence[Any], outputs: Sequence[Any | None]) -> None:
        """Take the arrays of a run.

        Args:
            given: The inputs.
            outputs: Arrays to write to, or None for new ones; one of another shape is left alone.
        """
        for place, copy in self._copied:
            copy[...] = given[place]
        held = self._held = []
        for place, name in self._read:
            array = np.ascontiguousarray(given[place])
            self.native.bind_ortvalue_input(name, self._value(array, self._host))
            held.append(array)
        made = self._made = []
        for place, (name, shape, dtype, memory) in enumerate(self._written):
            wanted: Any = outputs[place]
            if wanted is not None and wanted.shape != shape:
                wanted = None
            if memory is None:
                if wanted is None:
                    wanted = np.empty(shape, dtype)
                self.native.bind_ortvalue_output(name, self._value(wanted, self._host))
            made.append(wanted)

    def results(self) -> list[Any]:
        """The outputs of a run, one array each."""
        made, self._made, self._held = self._made, [], []
        for place, (*_, memory) in enumerate(self._written):
            if memory is not None:
                array = made[place]
                if array is None:
                    made[place] = memory.copy()
                else:
                    array[...] = memory
        return made

    def reserved_bytes(self) -> int:
        """Bytes that it keeps."""
        small = [memory for *_, memory in self._written if memory is not None]
        return sum(memory.nbytes for memory in (*small, *(memory for _, memory in self._copied)))

    def close(self) -> None:
        """Let go of everything."""
        self.native = None
        self._copied, self._read, self._written, self._held, self._made = [], [], [], [], []
