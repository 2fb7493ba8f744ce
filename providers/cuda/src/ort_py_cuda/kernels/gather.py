"""Gather, GatherElements and GatherND without a wait: indices are checked where they are, on the device.

The array library has to look at the least and the greatest index before CuPy's `take`, which would wrap around; that
is a wait at each node. Here an index out of range is noted, its element is 0, and the run raises in the end (`faults`).
A single constant index stays the library's view.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.contracts.kernel import kernel_defs as declared
from ort_py_array import gather as library
from ort_py_array.checks import LARGE, constant_input, normalized_axis
from ort_py_cuda.code import Kernel
from ort_py_cuda.code.elements import THREADS, blocks_for
from ort_py_cuda.code.faults import Site, record_of
from ort_py_cuda.kernels.covering import built, contiguous, covering, current_stream
from ort_py_cuda.kernels.indices import (
    AXES,
    element_axes,
    elements_fit,
    index_type,
    integer_for,
    row_axes,
    rows_fit,
    unit_of,
)

__all__ = ["KERNELS", "gather", "gather_elements", "gather_nd"]

_BLOCK = (THREADS, 1, 1)


def gather(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """Gather-1..13: slices along an axis."""
    xp, where = ctx.xp, ctx.node.location
    axis_given = ctx.node.attributes.get("axis", 0)
    known = constant_input(ctx, 1)
    if known is not None and known.size == 1 and known.ndim < 2:
        return general
    site = Site.of_index(where)

    def run(x: Array, indices: Array) -> Array:
        kind = index_type(indices)
        if kind is None or not contiguous(x, indices):
            return general(x, indices)
        axis = normalized_axis(axis_given, x.ndim, where)
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        if indices.size * x.size > LARGE:
            ctx.check_allocation(shape, x.dtype)
        out = xp.empty(shape, x.dtype)
        if not out.size:
            return out
        inner = prod(x.shape[axis + 1 :])
        unit, width = unit_of(inner, x.itemsize, x.data.ptr, out.data.ptr)
        inner = inner * x.itemsize // width
        total = out.size * x.itemsize // width
        number = integer_for(total, x.size * x.itemsize // width)
        kernel = built(
            ("gather",),
            "gather_slices",
            f"const {unit} *x, const {kind} *indices, {unit} *y, int64 total, int64 count, int64 size, int64 inner, "
            "Fault *fault, int64 site",
            "PPPqqqqPq",
            f"gather<{unit}, {kind}, {number}>(x, indices, y, total, count, size, inner, fault, site);",
        )
        _launch(kernel, site, (x, indices, out), total, indices.size, x.shape[axis], inner)
        return out

    return run


def gather_elements(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """GatherElements-11..13: one element for each index."""
    xp, where = ctx.xp, ctx.node.location
    axis_given = ctx.node.attributes.get("axis", 0)
    site = Site.of_index(where)

    def run(x: Array, indices: Array) -> Array:
        kind = index_type(indices)
        if kind is None or x.ndim == 0 or not contiguous(x, indices):
            return general(x, indices)
        axis = normalized_axis(axis_given, x.ndim, where)
        if not elements_fit(x.shape, indices.shape, axis):
            return general(x, indices)
        out = xp.empty(indices.shape, x.dtype)
        if not out.size:
            return out
        unit, _ = unit_of(1, x.itemsize, x.data.ptr, out.data.ptr)
        axes, step = element_axes(x.shape, indices.shape, axis)
        number = integer_for(out.size, x.size)
        kernel = built(
            ("gather",),
            "gather_single_elements",
            f"const {unit} *x, const {kind} *indices, {unit} *y, int64 total, int64 size, int64 step, Axes axes, "
            "Fault *fault, int64 site",
            f"PPPqqq{AXES}Pq",
            f"gather_elements<{unit}, {kind}, {number}, {x.ndim}>"
            "(x, indices, y, total, size, step, axes, fault, site);",
        )
        _launch(kernel, site, (x, indices, out), out.size, x.shape[axis], step, *axes)
        return out

    return run


def gather_nd(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """GatherND-11..13: slices that tuples of indices name."""
    xp = ctx.xp
    batch_dims = ctx.node.attributes.get("batch_dims", 0)
    site = Site.of_index(ctx.node.location)

    def run(x: Array, indices: Array) -> Array:
        kind = index_type(indices)
        if kind is None or not contiguous(x, indices) or not rows_fit(x.shape, indices.shape, batch_dims):
            return general(x, indices)
        depth = indices.shape[-1]
        inner_shape = x.shape[batch_dims + depth :]
        shape = (*indices.shape[:-1], *inner_shape)
        ctx.check_allocation(shape, x.dtype)
        out = xp.empty(shape, x.dtype)
        if not out.size:
            return out
        inner = prod(inner_shape)
        unit, width = unit_of(inner, x.itemsize, x.data.ptr, out.data.ptr)
        inner = inner * x.itemsize // width
        total = out.size * x.itemsize // width
        tuples = prod(indices.shape[batch_dims:-1])
        batch_rows = prod(x.shape[batch_dims : batch_dims + depth])
        number = integer_for(total, x.size * x.itemsize // width)
        kernel = built(
            ("gather",),
            "gather_by_tuples",
            f"const {unit} *x, const {kind} *indices, {unit} *y, int64 total, int64 inner, int64 tuples, "
            "int64 batch_rows, Axes axes, Fault *fault, int64 site",
            f"PPPqqqq{AXES}Pq",
            f"gather_nd<{unit}, {kind}, {number}, {depth}>"
            "(x, indices, y, total, inner, tuples, batch_rows, axes, fault, site);",
        )
        axes = row_axes(x.shape, batch_dims, depth)
        _launch(kernel, site, (x, indices, out), total, inner, tuples, batch_rows, *axes)
        return out

    return run


def _launch(kernel: Kernel, site: Site, arrays: tuple[Array, ...], total: int, *numbers: Any) -> None:
    """Enqueue `total` elements on the current stream; bad indices are noted under the node's site."""
    stream = current_stream()
    addresses = [array.data.ptr for array in arrays]
    kernel(blocks_for(total), _BLOCK, stream, *addresses, total, *numbers, record_of(stream), site.number)


KERNELS: list[KernelDef] = [
    *covering(declared(library), ("Gather",), gather),
    *covering(declared(library), ("GatherElements",), gather_elements),
    *covering(declared(library), ("GatherND",), gather_nd),
]
