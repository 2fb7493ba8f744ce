"""Pictures in both layouts: their description for cuDNN, and nodes with the channels last in their standard form.

cuDNN names axes (N, C, space…) whatever the order in memory, and knows two or three spatial axes: one is taken for two.
Used by convolutions, pools and norms; knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.contracts.kernel import KernelCallable, KernelContext
from ort_py.dtypes import DataType
from ort_py_array.library import LibraryKernels
from ort_py_cuda import libraries
from ort_py_cuda.cudnn.graphs import Sizes, Tensor, channels_first, channels_last
from ort_py_cuda.kernels.standing import note_fallback, unprepared

__all__ = [
    "CHANNELS_LAST",
    "InStandardForm",
    "addresses",
    "aligned",
    "described",
    "first_sizes",
    "holds_last",
    "prefers_channels_last",
    "vector",
    "weights_first",
    "weights_last",
    "widened_to_two",
]

CHANNELS_LAST = "ort_py.channels_last"
"""Domain of nodes whose data has the channels as its last axis, everything else being as in the standard form."""

_OPERATORS = frozenset(
    {
        ("", "Conv"),
        ("", "ConvTranspose"),
        ("", "MaxPool"),
        ("", "AveragePool"),
        ("", "GlobalAveragePool"),
        ("", "GlobalMaxPool"),
        ("", "BatchNormalization"),
        ("com.microsoft", "FusedConv"),
    }
)

_HALVES = (DataType.FLOAT16, DataType.BFLOAT16)


def prefers_channels_last(node: NodeSpec) -> bool:
    """Return whether cuDNN computes a node faster with the channels last: pictures of halves, of two or three axes.

    Its tensor cores read halves in this order, and would have float32 reordered for no gain.
    """
    x = node.inputs[0] if node.inputs else None
    if (node.domain, node.op_type) not in _OPERATORS or x is None or x.data_type not in _HALVES:
        return False
    return x.shape is not None and len(x.shape) in (4, 5) and libraries.find("cudnn") is not None


def holds_last(node: NodeSpec) -> bool:
    """Return whether a node's data has the channels as its last axis."""
    return node.domain == CHANNELS_LAST


def first_sizes(shape: Sizes, last: bool) -> Sizes:
    """Sizes (N, C, space…) of data of this shape."""
    return (shape[0], shape[-1], *shape[1:-1]) if last else tuple(shape)


def widened_to_two(sizes: Sizes, fill: int = 1) -> Sizes:
    """Entries of two spatial axes where there is one: the first of them is `fill`."""
    return (fill, *sizes) if len(sizes) == 1 else tuple(sizes)


def described(name: str, dims: Sizes, dtype: str, last: bool) -> Tensor:
    """A dense picture, or weights, of sizes (N, C, space…), one spatial axis standing for two."""
    whole = (*dims[:2], *widened_to_two(dims[2:]))
    return Tensor(name, whole, (channels_last if last else channels_first)(whole), dtype)


def vector(name: str, size: int, like: Tensor, dtype: str | None = None) -> Tensor:
    """One number per channel, that broadcasts to `like`."""
    dims = (1, size, *(1 for _ in like.dims[2:]))
    return Tensor(name, dims, (size, 1, *(size for _ in like.dims[2:])), like.dtype if dtype is None else dtype)


def addresses(*arrays: Array | None) -> list[int]:
    """Addresses of arrays of the device, absent ones left out."""
    return [array.data.ptr for array in arrays if array is not None]


_ALIGNMENT = 16
"""Bytes: plans read as many at once, and are given the promise that every tensor's address is a multiple."""


def aligned(xp: Any, *arrays: Array | None) -> tuple[Any, ...]:
    """Arrays that begin where cuDNN may read them: a view into another array, or memory of a caller, may not.

    The caller keeps what it gets until the call is enqueued.
    """
    return tuple(one if one is None or one.data.ptr % _ALIGNMENT == 0 else xp.array(one, order="C") for one in arrays)


class InStandardForm:
    """The array library's kernel for a node in either layout: bound when it is first needed, with the reason logged.

    Args:
        ctx: Context of the node.
        data: Positions of the inputs that are pictures.
    """

    __slots__ = ("_call", "_ctx", "_data")

    def __init__(self, ctx: KernelContext, data: tuple[int, ...] = (0,)) -> None:
        self._ctx = ctx
        self._data = data
        self._call: KernelCallable | None = None

    def __call__(self, reason: object, *inputs: Array | None, out: Array | None = None) -> Array:
        """The first output; `inputs` must hold values, also those that were packed."""
        if self._call is None:
            note_fallback(self._ctx, reason)
            self._call = self._bound()
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        result = self._call(*given)
        if out is None:
            return result
        out[...] = result
        return out

    def _bound(self) -> KernelCallable:
        ctx, node = self._ctx, self._ctx.node
        if not holds_last(node):
            return _first_of(unprepared(ctx))
        xp, data = ctx.xp, self._data
        domain = "com.microsoft" if node.op_type == "FusedConv" else ""
        newest = max((one.last for one in LibraryKernels().kernels_of(domain, node.op_type)), default=1)
        call = _first_of(unprepared(ctx, replace(node, domain=domain, since_version=newest)))

        def turned(*inputs: Array | None) -> Array:
            given = [
                xp.ascontiguousarray(xp.moveaxis(one, -1, 1)) if one is not None and place in data else one
                for place, one in enumerate(inputs)
            ]
            return xp.ascontiguousarray(xp.moveaxis(call(*given), 1, -1))

        return turned


def _first_of(call: KernelCallable) -> Callable[..., Any]:
    def first(*inputs: Array | None) -> Any:
        result = call(*inputs)
        return result[0] if isinstance(result, tuple) else result

    return first


def weights_last(xp: Any, w: Array) -> Array:
    """Weights (M, C / group, kernel…) with the channels as the last axis in memory."""
    return xp.ascontiguousarray(xp.moveaxis(w, 1, -1))


def weights_first(xp: Any, w: Array) -> Array:
    """The inverse of `weights_last`."""
    return xp.ascontiguousarray(xp.moveaxis(w, -1, 1))
