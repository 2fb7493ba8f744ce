"""Three ways to convolve, chosen by the shapes: few windows at once, plain GEMM, or columns and GEMM.

`plan` decides for shapes, once; what it returns does the work. Comes after `convolution_columns` and
`convolution_windows`; `convolution` and `quantized_convolution` use it. It is independent of nodes, attributes and
rounding: it takes floating-point arrays of one type and returns one array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.convolution_columns import Columns
from ort_py_array.convolution_windows import FewWindows
from ort_py_array.products import product
from ort_py_array.windows import Placement

__all__ = ["Convolution", "convolve", "plan"]

Convolution: TypeAlias = Callable[[Array, Array, "Array | None", Array], None]
"""``f(x, w, bias, out)`` for the shapes it was planned for; stateless."""

_COLUMN_BYTES = 4 << 20
"""Scratch for one block of columns: enough work to hide what starting it costs, small enough for the L3 cache. A GEMM
of many filters reads its columns several times and likes them three eighths as large, close to the L2 cache."""


def plan(
    ctx: KernelContext, x_shape: tuple[int, ...], w_shape: tuple[int, ...], itemsize: int, place: Placement, group: int
) -> Convolution:
    """Decide how to convolve.

    Args:
        ctx: Context of the node.
        x_shape: ``(n, c, *size)``.
        w_shape: ``(m, c / group, *kernel)``.
        itemsize: Bytes of an element of both.
        place: The window over the input.
        group: Number of groups; divides c and m.

    Returns:
        ``f(x, w, bias, out)``: C-contiguous arrays of these shapes, a bias of shape ``(m,)`` or None, and the
        C-contiguous result of shape ``(n, m, *place.out)`` to write to, all of one type.
    """
    if 0 in (x_shape[0], w_shape[0], *place.out):
        return _nothing
    if 0 in w_shape:
        return _bias_only
    pointwise = place.taps == 1 and not any(place.begin) and not any(place.end)
    if pointwise and x_shape[0] <= prod(place.out):  # of many images of a few positions, it would be many products
        return partial(_pointwise, ctx, place.strides, group)
    if FewWindows.suits(x_shape[0], w_shape, place, group):
        return FewWindows(ctx, x_shape[0], w_shape, itemsize, place)
    if pointwise:
        return partial(_pointwise, ctx, place.strides, group)
    limit = _COLUMN_BYTES if group > 1 else _COLUMN_BYTES * 3 // 8
    fewer = _without_flat_axes(place)
    if fewer is place:
        return Columns(ctx, x_shape[0], w_shape, itemsize, place, group, limit)
    columns = Columns(ctx, x_shape[0], (*w_shape[:2], *fewer.kernel), itemsize, fewer, group, limit)
    return partial(_flattened, fewer, columns)


def convolve(
    ctx: KernelContext, x: Array, w: Array, bias: Array | None, place: Placement, group: int, out: Array
) -> Array:
    """Plan for these shapes, convolve once and return `out`; arguments as in `plan`."""
    plan(ctx, tuple(x.shape), tuple(w.shape), x.itemsize, place, group)(x, w, bias, out)
    return out


def _without_flat_axes(place: Placement) -> Placement:
    """Without axes along which nothing happens, so that blocks are cut where there is something to cut.

    Sequences come as pictures of one row. The last axis stays where all are such.
    """
    kept = [
        axis
        for axis, flat in enumerate(zip(place.size, place.kernel, place.begin, place.end, place.out, strict=True))
        if flat != (1, 1, 0, 0, 1)
    ]
    kept = kept or [len(place.out) - 1]
    if len(kept) == len(place.out):
        return place
    parts = (place.size, place.kernel, place.strides, place.dilations, place.begin, place.end, place.out)
    return Placement(*(tuple(part[axis] for axis in kept) for part in parts))


def _flattened(place: Placement, convolution: Convolution, x: Array, w: Array, bias: Array | None, out: Array) -> None:
    """A convolution planned without the axes that `place` lacks."""
    x, w = x.reshape((*x.shape[:2], *place.size)), w.reshape((*w.shape[:2], *place.kernel))
    convolution(x, w, bias, out.reshape((*out.shape[:2], *place.out)))


def _nothing(x: Array, w: Array, bias: Array | None, out: Array) -> None:
    """An empty result."""


def _bias_only(x: Array, w: Array, bias: Array | None, out: Array) -> None:
    """Sums over no channels."""
    out[...] = 0 if bias is None else bias.reshape((-1,) + (1,) * (out.ndim - 2))


def _pointwise(
    ctx: KernelContext, strides: tuple[int, ...], group: int, x: Array, w: Array, bias: Array | None, out: Array
) -> None:
    """A 1×1 kernel: each image is the second operand of a GEMM as it stands."""
    xp = ctx.xp
    if max(strides) > 1:
        x = xp.ascontiguousarray(x[(slice(None), slice(None), *(slice(None, None, s) for s in strides))])
    n, c = x.shape[:2]
    m = w.shape[0]
    if group == 1:
        flat = out.reshape(n, m, -1)
        product(ctx, w.reshape(m, c), x.reshape(n, c, -1), flat)
        if bias is not None:
            xp.add(flat, bias.reshape(m, 1), out=flat)
        return
    product(
        ctx,
        w.reshape(group, m // group, c // group),
        x.reshape(n, group, c // group, -1),
        out.reshape(n, group, m // group, -1),
    )
    if bias is not None:
        xp.add(out, bias.reshape((-1,) + (1,) * (out.ndim - 2)), out=out)
