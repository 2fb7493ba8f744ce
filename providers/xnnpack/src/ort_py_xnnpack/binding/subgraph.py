"""A subgraph while it is described, and the runtime that is made of it.

Values are numbers that XNNPACK gives. What a call refuses becomes an exception with the name of the function. It does
not know ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.constants import (
    BFLOAT16,
    BLOCKS_OF_INT4,
    CHANNELS_OF_INT8,
    CHANNELS_OF_INT32,
    FLOAT,
    HALF,
    INT8,
    NO_VALUE,
    ROWS_OF_INT8,
    UINT8,
    Flag,
    check,
)
from ort_py_xnnpack.binding.library import Library
from ort_py_xnnpack.binding.memory import Array, address
from ort_py_xnnpack.binding.packing import PackedWeights
from ort_py_xnnpack.binding.workspace import Workspace

__all__ = ["Runtime", "Subgraph"]

_cast, _POINTER = ffi.cast, ffi.typeof("void *")


class Subgraph:
    """A description.

    Args:
        library: The library.
        externals: Number of values that the caller will provide the memory of; they are numbered from 0.
    """

    def __init__(self, library: Library, externals: int) -> None:
        self._library = library
        self._externals = externals
        self._kept: list[Array] = []
        handle = ffi.new("graph_t *")
        check(library.c.xnn_create_subgraph(externals, 0, handle), "xnn_create_subgraph")
        self._handle = ffi.gc(handle[0], library.c.xnn_delete_subgraph)
        self._number = ffi.new("uint32_t *")

    def value(
        self,
        shape: Sequence[int],
        external: int = NO_VALUE,
        flag: int = 0,
        data: Any = ffi.NULL,
        grid: tuple[float, int] | None = None,
        *,
        unsigned: bool = False,
        half: bool = False,
    ) -> int:
        """A new value, or the external one of a number.

        Args:
            shape: Its sizes.
            external: Its number, where it is external.
            flag: Whether it is read or written, where it is external.
            data: Where it is, if it is known.
            grid: Scale and zero point of integers of 8 bits; floating-point numbers without.
            unsigned: Whether these integers have no sign.
            half: Whether floating-point numbers are of float16.
        """
        sizes = list(shape)
        if grid is None:
            status = self._library.c.xnn_define_tensor_value(
                self._handle, HALF if half else FLOAT, len(sizes), sizes, data, external, flag, self._number
            )
        else:
            kind, (scale, zero) = UINT8 if unsigned else INT8, grid
            status = self._library.c.xnn_define_quantized_tensor_value(
                self._handle, kind, zero, scale, len(sizes), sizes, data, external, flag, self._number
            )
        check(status, "xnn_define_tensor_value", f"a value of shape {sizes}")
        return int(self._number[0])

    def input(self, number: int, shape: Sequence[int], grid: tuple[float, int] | None = None, **kind: bool) -> int:
        """The external value of a number, which is read; see `value`."""
        return self.value(shape, number, Flag.INPUT, grid=grid, **kind)

    def output(self, number: int, shape: Sequence[int], grid: tuple[float, int] | None = None, **kind: bool) -> int:
        """The external value of a number, which is written; see `value`."""
        return self.value(shape, number, Flag.OUTPUT, grid=grid, **kind)

    def constant(self, array: Array, grid: tuple[float, int] | None = None) -> int:
        """A value that is known. The array stays where it is until the runtime is made, or as long as it is needed."""
        self._kept.append(array)
        return self.value(array.shape, data=address(array), grid=grid, half=array.dtype == np.float16)

    def channels(self, array: Array, scales: Array, axis: int = 0) -> int:
        """Integers of 8 or 32 bits that are known, with a scale for each entry of an axis."""
        self._kept += (array, scales)
        kind, sizes = CHANNELS_OF_INT8 if array.itemsize == 1 else CHANNELS_OF_INT32, list(array.shape)
        status = self._library.c.xnn_define_channelwise_quantized_tensor_value(
            self._handle, kind, ffi.cast("float *", scales.ctypes.data), len(sizes), axis, sizes, address(array),
            NO_VALUE, 0, self._number,
        )  # fmt: skip
        check(status, "xnn_define_channelwise_quantized_tensor_value", f"weights of shape {sizes}")
        return int(self._number[0])

    def blocks(self, numbers: Array, scales: Array, shape: tuple[int, int], size: int, middle: int) -> int:
        """Weights of 4 bits that are known, with a scale a block.

        Args:
            numbers: Two in a byte.
            scales: Upper halves of float32 numbers.
            shape: Columns of the product, and numbers of each.
            size: Numbers of a block.
            middle: The number that stands for 0.
        """
        self._kept += (numbers, scales)
        sizes = list(shape)
        status = self._library.c.xnn_define_blockwise_quantized_tensor_value_v2(
            self._handle, BLOCKS_OF_INT4, middle, address(scales), 2, 0, size, sizes, address(numbers), NO_VALUE, 0,
            BFLOAT16, self._number,
        )  # fmt: skip
        check(status, "xnn_define_blockwise_quantized_tensor_value", f"weights of shape {list(shape)}")
        return int(self._number[0])

    def rows(self, shape: Sequence[int]) -> int:
        """A new value of integers of 8 bits, with a scale and a zero point a row that are found in each run."""
        status = self._library.c.xnn_define_dynamically_quantized_tensor_value(
            self._handle, ROWS_OF_INT8, len(shape), 1, list(shape), NO_VALUE, 0, self._number
        )
        check(status, "xnn_define_dynamically_quantized_tensor_value", f"rows of shape {list(shape)}")
        return int(self._number[0])

    def define(self, function: str, *arguments: Any) -> None:
        """Add a node.

        Args:
            function: Name of the C function without ``xnn_define_``.
            arguments: Those that come after the subgraph, up to the flags.
        """
        status = getattr(self._library.c, f"xnn_define_{function}")(self._handle, *arguments)
        check(status, f"xnn_define_{function}")

    def runtime(self, weights: PackedWeights, pool: Any, workspace: Workspace) -> Runtime:
        """Make the object that runs the subgraph, which is of no use afterwards."""
        handle = ffi.new("runtime_t *")
        with workspace.changing():
            status = self._library.c.xnn_create_runtime_v4(
                self._handle, weights.cache, workspace.handle, pool, Flag.WORKERS_SLEEP, handle
            )
        check(status, "xnn_create_runtime")
        weights.complete = True
        return Runtime(self._library, handle[0], self._externals, weights, workspace)


class Runtime:
    """A subgraph that can be run, by one thread at a time.

    Args:
        library: The library.
        handle: XNNPACK's.
        externals: Number of external values.
        weights: The packed weights it was made with.
        workspace: The memory of its other values.

    Attributes:
        workspace: This memory.
    """

    def __init__(
        self, library: Library, handle: Any, externals: int, weights: PackedWeights, workspace: Workspace
    ) -> None:
        self._c = library.c
        self._weights = weights
        self.workspace = workspace
        self._lock = workspace.lock
        self._handle = ffi.gc(handle, workspace.discard)
        self._externals = ffi.new("external_t[]", externals)
        for number in range(externals):
            self._externals[number].id = number

    def reshape(self, shapes: Sequence[Sequence[int]]) -> None:
        """Set the shapes of the first external values, and let those of all others follow."""
        for number, shape in enumerate(shapes):
            status = self._c.xnn_reshape_external_value(self._handle, number, len(shape), list(shape))
            check(status, "xnn_reshape_external_value", f"a shape of {list(shape)}")
        with self.workspace.changing():  # it may grow, which changes all runtimes that it has
            status = self._c.xnn_reshape_runtime(self._handle)
        check(status, "xnn_reshape_runtime", f"inputs of {list(shapes)}")

    def shape(self, number: int, rank: int) -> tuple[int, ...]:
        """The shape of an external value, after those of others were set."""
        sizes, count = ffi.new("size_t[]", rank), ffi.new("size_t *", rank)
        status = self._c.xnn_get_external_value_shape(self._handle, number, count, sizes)
        check(status, "xnn_get_external_value_shape")
        return tuple(sizes)

    def set_up(self, addresses: Sequence[int]) -> None:
        """Say where the external values are, in their order."""
        externals = self._externals
        for number, place in enumerate(addresses):
            externals[number].data = _cast(_POINTER, place)
        with self._lock:
            status = self._c.xnn_setup_runtime_v2(self._handle, len(addresses), externals)
        check(status, "xnn_setup_runtime_v2")

    def run(self) -> None:
        """Compute."""
        with self._lock:
            status = self._c.xnn_invoke_runtime(self._handle)
        check(status, "xnn_invoke_runtime")

    def close(self) -> None:
        """Release it."""
        ffi.release(self._handle)
