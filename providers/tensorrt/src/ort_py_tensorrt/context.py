"""A context of an engine: one run at a time, on one stream, with memory of the session.

Inputs and outputs are addresses of the session's arrays. An output whose shape only the run decides comes from an
allocator that the library calls. Not yet run on a device: a stand-in for the library checks the order and the arguments
of the calls. Comes after `toolkit`, before `execution`, which lends contexts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_tensorrt.toolkit import Toolkit

__all__ = ["Allocate", "Context", "Tensor", "address_of", "said"]

Allocate: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Any]
"""Makes an array of the device, for work of the stream that is current."""

_ALIGNMENT = 256
"""Bytes to which the library wants addresses aligned: arrays that are cut from the session's memory need not be."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of an engine.

    Attributes:
        name: Its name.
        dtype: Its type.
        shape: Its shape, with -1 for sizes that a run decides.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Context:
    """A context of an engine.

    Args:
        toolkit: The library.
        native: The library's context.
        outputs: The engine's outputs by name.
        allocate: Makes an array of the device: shape and type.
        scratch: Memory that its runs write to; None where they need none.

    Attributes:
        decided: Outputs whose shapes the last run decided.
    """

    def __init__(
        self, toolkit: Toolkit, native: Any, outputs: Mapping[str, Tensor], allocate: Allocate, scratch: Any | None
    ) -> None:
        self._toolkit = toolkit
        self._native: Any = native
        self._types = outputs
        self._allocate = allocate
        self._scratch = scratch
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._allocators: dict[str, Any] = {}
        self.decided: list[str] = []

    @property
    def scratch_bytes(self) -> int:
        """Bytes of its scratch memory."""
        return 0 if self._scratch is None else int(self._scratch.nbytes)

    def run(
        self,
        inputs: Sequence[tuple[str, Any]],
        outputs: Sequence[tuple[str, Any | None]],
        stream: int,
    ) -> list[Any]:
        """Enqueue one run.

        Args:
            inputs: Names and arrays of the device; the caller keeps them until the stream has passed.
            outputs: Names, and arrays to write to; None where one is made.
            stream: The ``cudaStream_t``.

        Returns:
            The arrays of the outputs. Their content is there when the stream has passed.

        Raises:
            EPFail: The library refuses a shape, an address or the run.
        """
        held: list[Any] = []  # until the run is enqueued: its memory would be given to an output
        with self._toolkit.errors() as errors:
            for name, array in inputs:
                shape = tuple(array.shape)
                if self._shapes.get(name) != shape:
                    self._expect(self._native.set_input_shape(name, shape), f"the shape {shape} of '{name}'", errors)
                    self._shapes[name] = shape
                held.append(array if address_of(array) % _ALIGNMENT == 0 else array.copy())
                self._expect(self._native.set_tensor_address(name, address_of(held[-1])), f"memory of '{name}'", errors)
            missing = self._native.infer_shapes()
            self._expect(not missing, f"a run without {', '.join(map(str, missing))}", errors)
            made = [self._output(name, array, errors) for name, array in outputs]
            self.decided = [name for (name, _), one in zip(outputs, made, strict=True) if isinstance(one, _Allocation)]
            self._expect(self._native.execute_async_v3(stream), "a run", errors)
        results: list[Any] = []
        for (_, given), one in zip(outputs, made, strict=True):
            array = one.array() if isinstance(one, _Allocation) else one
            if given is not None and given is not array and given.shape == array.shape:
                given[...] = array
                array = given
            results.append(array)
        return results

    def close(self) -> None:
        """Release the context, then the memory that it wrote to."""
        self._native = None
        self._allocators.clear()
        self._scratch = None

    def _output(self, name: str, given: Any | None, errors: Sequence[str]) -> Any:
        """Give an output its memory. Returns the array, or what will have it after the run."""
        shape = tuple(self._native.get_tensor_shape(name))
        dtype, allocate = self._types[name].dtype, self._allocate
        if min(shape, default=0) < 0:
            allocation = _Allocation(dtype, allocate)
            self._allocators[name] = self._allocator(allocation)
            self._expect(
                self._native.set_output_allocator(name, self._allocators[name]), f"an allocator of '{name}'", errors
            )
            return allocation
        if name in self._allocators:
            del self._allocators[name]
            self._native.set_output_allocator(name, None)
        fits = given is not None and tuple(given.shape) == shape and address_of(given) % _ALIGNMENT == 0
        array = given if fits else allocate(shape, dtype)
        self._expect(self._native.set_tensor_address(name, address_of(array)), f"memory of '{name}'", errors)
        return array

    def _allocator(self, allocation: _Allocation) -> Any:
        base: Any = self._toolkit.module.IOutputAllocator

        class Allocator(base):  # type: ignore[misc]  # the library has no types
            def __init__(self) -> None:
                base.__init__(self)

            def reallocate_output_async(self, name: str, memory: int, size: int, alignment: int, stream: int) -> int:
                return allocation.reallocate(size)

            def reallocate_output(self, name: str, memory: int, size: int, alignment: int) -> int:
                return allocation.reallocate(size)

            def notify_shape(self, name: str, shape: Sequence[int]) -> None:
                allocation.shape = tuple(shape)

        return Allocator()

    def _expect(self, answer: object, what: str, errors: Sequence[str]) -> None:
        if not answer:
            raise EPFail(
                f"{self._toolkit.variant.title} refuses {what}: {said(errors)}.",
                fix="Leave the region to the next provider.",
            )


class _Allocation:
    """Memory of an output whose shape the run decides."""

    def __init__(self, dtype: np.dtype[Any], allocate: Allocate) -> None:
        self._dtype = dtype
        self._allocate = allocate
        self._bytes: Any = None
        self.shape: tuple[int, ...] | None = None

    def reallocate(self, size: int) -> int:
        """Return the address of new memory; 0, which the library takes for a failure, if there is none."""
        with contextlib.suppress(MemoryError):
            self._bytes = self._allocate((max(size, 1),), np.dtype(np.uint8))
            return address_of(self._bytes)
        return 0

    def array(self) -> Any:
        """Return the output, of the shape that the library reported."""
        if self.shape is None or self._bytes is None:
            raise EPFail(
                "An engine did not say which shape an output has.",
                fix="Leave the region to the next provider, and report this together with the model.",
            )
        count = int(np.prod(self.shape, dtype=np.int64)) * self._dtype.itemsize
        return self._bytes[:count].view(self._dtype).reshape(self.shape)


def said(errors: Sequence[str]) -> str:
    """Return what the library reported, in one line."""
    return "; ".join(errors) or "it gives no reason"


def address_of(array: Any) -> int:
    """Return the address of an array of the device."""
    return int(array.data.ptr)
