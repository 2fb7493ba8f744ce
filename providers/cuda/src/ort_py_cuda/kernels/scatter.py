"""ScatterElements, Scatter and ScatterND without a wait, reductions by atomic operations.

An index out of range is noted, its update left out, and the run raises in the end (`faults`). Several updates of one
element come in no certain order: sums and products of floats may differ in their last digits from run to run, where the
session does not forbid it, and without a reduction any of them may stay, as ONNX allows. Narrow floats are summed and
multiplied in float32 and rounded once.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.contracts.kernel import kernel_defs as declared
from ort_py_array import scatter as library
from ort_py_array.checks import normalized_axis
from ort_py_cuda import settings
from ort_py_cuda.code.elements import THREADS, blocks_for, c_type
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

__all__ = ["KERNELS", "scatter_elements", "scatter_nd"]

_BLOCK = (THREADS, 1, 1)
_COMBINE = {"none": "Replace", "add": "Add", "mul": "Multiply", "min": "Smallest", "max": "Largest"}
_ROUNDED = ("add", "mul")
"""Reductions whose floating-point result depends on the order of updates."""

_NARROW = ("half_t", "bfloat16_t")


def _types_of(x: Array, updates: Array, reduction: str) -> tuple[str, str, bool] | None:
    """Types of the target and the updates in generated code, and whether the target is a wider copy; None: no code."""
    if reduction == "none":
        unit, _ = unit_of(1, x.itemsize, x.data.ptr, updates.data.ptr)
        return unit, unit, False
    kind = c_type(x.dtype)
    if kind is None or kind == "bool" or updates.dtype != x.dtype:
        return None
    wide = kind in _NARROW and reduction in ("add", "mul")
    return ("float" if wide else kind), kind, wide


def scatter_elements(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """ScatterElements-11..18 and Scatter-9..11: one update for each index."""
    where, attributes = ctx.node.location, ctx.node.attributes
    axis_given, reduction = attributes.get("axis", 0), attributes.get("reduction", "none")
    if reduction not in _COMBINE or (reduction in _ROUNDED and settings.current().deterministic):
        return general
    site = Site.of_index(where)

    def run(x: Array, indices: Array, updates: Array) -> Array:
        index = index_type(indices)
        if index is None or x.ndim == 0 or not contiguous(x, indices, updates) or updates.dtype != x.dtype:
            return general(x, indices, updates)
        axis = normalized_axis(axis_given, x.ndim, where)
        types = _types_of(x, updates, reduction)
        if types is None or tuple(updates.shape) != tuple(indices.shape):
            return general(x, indices, updates)
        if not elements_fit(x.shape, indices.shape, axis):
            return general(x, indices, updates)
        target, update, wide = types
        axes, step = element_axes(x.shape, indices.shape, axis)
        number = integer_for(updates.size, x.size)
        template = f"scatter_elements<{target}, {update}, {index}, {number}, {x.ndim}, {_COMBINE[reduction]}>"
        kernel = built(
            ("reduce", "gather", "scatter"),
            "scatter_single_elements",
            f"const {index} *indices, const {update} *updates, {target} *y, int64 total, int64 size, int64 step, "
            "Axes axes, Fault *fault, int64 site",
            f"PPPqqq{AXES}Pq",
            f"{template}(indices, updates, y, total, size, step, axes, fault, site);",
        )
        numbers = (updates.size, x.shape[axis], step, *axes)
        return _launched(ctx, kernel, x, indices, updates, wide, updates.size, numbers, site)

    return run


def scatter_nd(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """ScatterND-11..18: slices put where tuples of indices say."""
    reduction = ctx.node.attributes.get("reduction", "none")
    if reduction not in _COMBINE or (reduction in _ROUNDED and settings.current().deterministic):
        return general
    site = Site.of_index(ctx.node.location)

    def run(x: Array, indices: Array, updates: Array) -> Array:
        index = index_type(indices)
        if (
            index is None
            or updates.dtype != x.dtype
            or not contiguous(x, indices, updates)
            or not rows_fit(x.shape, indices.shape, 0)
        ):
            return general(x, indices, updates)
        depth = indices.shape[-1]
        types = _types_of(x, updates, reduction)
        if types is None or tuple(updates.shape) != (*indices.shape[:-1], *x.shape[depth:]):
            return general(x, indices, updates)
        target, update, wide = types
        number = integer_for(updates.size, x.size)
        template = f"scatter_nd<{target}, {update}, {index}, {number}, {depth}, {_COMBINE[reduction]}>"
        kernel = built(
            ("reduce", "gather", "scatter"),
            "scatter_by_tuples",
            f"const {index} *indices, const {update} *updates, {target} *y, int64 total, int64 inner, Axes axes, "
            "Fault *fault, int64 site",
            f"PPPqq{AXES}Pq",
            f"{template}(indices, updates, y, total, inner, axes, fault, site);",
        )
        numbers = (updates.size, prod(x.shape[depth:]), *row_axes(x.shape, 0, depth))
        return _launched(ctx, kernel, x, indices, updates, wide, updates.size, numbers, site)

    return run


def _launched(
    ctx: KernelContext,
    kernel: Any,
    x: Array,
    indices: Array,
    updates: Array,
    wide: bool,
    count: int,
    numbers: tuple[int, ...],
    site: Site,
) -> Array:
    """A copy of `x` that a kernel has changed."""
    xp = ctx.xp
    out = x.astype(xp.float32) if wide else xp.array(x)
    if count:
        stream = current_stream()
        kernel(
            blocks_for(count),
            _BLOCK,
            stream,
            indices.data.ptr,
            updates.data.ptr,
            out.data.ptr,
            *numbers,
            record_of(stream),
            site.number,
        )
    return out.astype(x.dtype) if wide else out


KERNELS: list[KernelDef] = [
    *covering(declared(library), ("ScatterElements", "Scatter"), scatter_elements),
    *covering(declared(library), ("ScatterND",), scatter_nd),
]
