"""MaxRoiPool: the greatest value in each bin of regions whose corners are rounded to whole pixels.

The greatest value of any rectangle is that of four overlapping rectangles whose sides are powers of two. Maxima over
all such rectangles of one size are computed from those of half the size, so that no loop over the pixels of a bin is
needed. The regions are few numbers and are read on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import shape_error
from ort_py_array.precision import rounded, widened
from ort_py_array.vision.roi_align import check_regions

__all__ = ["KERNELS", "max_roi_pool"]

_ELEMENTS = 1 << 18  # gathered at a time
_FARTHEST = 2.0**30  # coordinates are cut off here, far outside any picture, so that integers do not overflow


def max_roi_pool(ctx: KernelContext) -> KernelCallable:
    """MaxRoiPool-1..22: X ``(n, c, h, w)``, rois ``(r, 5)`` of batch index and corners → ``(r, c, *pooled_shape)``.

    Like the implementations that the operator was defined for: corners are scaled and rounded half away from zero, both
    belong to the region, and a bin without a pixel gives 0.

    Raises:
        InvalidArgument: Shapes that do not fit, a batch index out of range, a region that is not finite.
        LimitError: Through the context.
    """
    xp, where = ctx.xp, ctx.node.location
    pooled = tuple(ctx.node.attributes["pooled_shape"])
    if len(pooled) != 2 or min(pooled) < 1:
        raise InvalidArgument(
            f"pooled_shape is {list(pooled)}.", where=where, fix="Give a height and a width of at least 1."
        )
    scale = ctx.node.attributes.get("spatial_scale", 1.0)

    def run(x: Array, rois: Any) -> Array:
        _check(ctx, x, rois)
        shape = (rois.shape[0], x.shape[1], *pooled)
        ctx.check_allocation(shape, x.dtype)
        out = xp.zeros(shape, x.dtype)
        if 0 in shape or x.size == 0:
            return out
        regions = widened(np, rois)
        scaled = np.clip(regions[:, 1:] * regions.dtype.type(scale), -_FARTHEST, _FARTHEST)
        corners = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
        kind = regions.dtype.type
        rows = _bins(corners[:, 1], corners[:, 3], pooled[0], x.shape[2], kind)
        columns = _bins(corners[:, 0], corners[:, 2], pooled[1], x.shape[3], kind)
        pixels = xp.ascontiguousarray(xp.moveaxis(widened(xp, x), 1, -1))
        _fill(ctx, pixels, regions[:, 0].astype(np.int64), rows, columns, out)
        return out

    return run


def _bins(low: Any, high: Any, count: int, size: int, kind: Any) -> tuple[Any, Any]:
    """First position of each bin and the one after its last, both ``(regions, count)``, inside an axis of `size`."""
    extent = np.maximum(high - low + 1, 1).astype(kind) / kind(count)
    numbers = np.arange(count, dtype=kind)
    starts = np.floor(numbers * extent[:, None]).astype(np.int64) + low[:, None]
    stops = np.ceil((numbers + 1) * extent[:, None]).astype(np.int64) + low[:, None]
    return np.clip(starts, 0, size), np.clip(stops, 0, size)


def _levels(bins: tuple[Any, Any]) -> Any:
    """The greatest power of two that fits into each bin, as an exponent; -1 where the bin is empty."""
    return np.frexp((bins[1] - bins[0]).clip(0).astype(np.float64))[1] - 1


def _fill(
    ctx: KernelContext, pixels: Array, images: Any, rows: tuple[Any, Any], columns: tuple[Any, Any], out: Array
) -> None:
    """Write the maxima of all bins; `pixels` is ``(n, h, w, c)``."""
    xp = ctx.xp
    shape = (rows[0].shape[0], rows[0].shape[1], columns[0].shape[1])
    down = np.broadcast_to(_levels(rows)[:, :, None], shape)
    across = np.broadcast_to(_levels(columns)[:, None, :], shape)
    step = max(1, _ELEMENTS // pixels.shape[-1])
    tall, height = pixels, 0
    for level in np.unique(down[(down >= 0) & (across >= 0)]).tolist():
        while height < level:
            ctx.check_time()
            tall = xp.maximum(tall[:, : -(1 << height)], tall[:, 1 << height :])
            height += 1
        wide, width = tall, 0
        for other in np.unique(across[(down == level) & (across >= 0)]).tolist():
            while width < other:
                ctx.check_time()
                wide = xp.maximum(wide[:, :, : -(1 << width)], wide[:, :, 1 << width :])
                width += 1
            ctx.check_time()
            flat = xp.ascontiguousarray(wide).reshape((-1, pixels.shape[-1]))
            found = np.nonzero((down == level) & (across == other))
            for start in range(0, len(found[0]), step):
                ctx.check_time()
                region, row, column = (index[start : start + step] for index in found)
                tops = rows[0][region, row], rows[1][region, row] - (1 << level)
                lefts = columns[0][region, column], columns[1][region, column] - (1 << other)
                best = None
                for top in tops:
                    for left in lefts:
                        index = (images[region] * wide.shape[1] + top) * wide.shape[2] + left
                        seen = xp.take(flat, xp.asarray(index), axis=0)
                        best = seen if best is None else xp.maximum(best, seen)
                out[xp.asarray(region), :, xp.asarray(row), xp.asarray(column)] = rounded(best, out.dtype)


def _check(ctx: KernelContext, x: Array, rois: Any) -> None:
    where = ctx.node.location
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5:
        raise shape_error(
            "MaxRoiPool needs X of shape (n, c, h, w) and rois of shape (r, 5).", where, [x.shape, rois.shape]
        )
    check_regions(rois, where)
    batch = rois[:, 0]
    if batch.size and not 0 <= batch.min() <= batch.max() < x.shape[0]:
        wrong = batch[(batch < 0) | (batch >= x.shape[0])][0]
        raise InvalidArgument(
            f"A region names image {float(wrong):g} of a batch of {x.shape[0]}.",
            where=where,
            why="the first column of rois is the index of the image",
            fix=f"Indices must be in [0, {x.shape[0] - 1}]." if x.shape[0] else "The batch is empty.",
        )


KERNELS = [
    KernelDef(
        "MaxRoiPool",
        max_roi_pool,
        since=1,
        until=22,
        host_inputs=frozenset({1}),
        implementation=f"{__name__}:max_roi_pool",
    )
]
