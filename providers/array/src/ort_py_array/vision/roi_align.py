"""RoiAlign: regions of a feature map sampled at regular positions, averaged or maximised bin by bin.

Regions are few numbers and decide how many samples there are: they are read on the host, where positions and weights
are computed. The feature map is laid out pixel by pixel, so that a gather copies all channels of a pixel at once.
Regions with the same number of samples go together, in blocks of bounded size.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import shape_error
from ort_py_array.parts import LARGE_PART, by_parts
from ort_py_array.precision import is_narrow, rounded, widened

__all__ = ["KERNELS", "check_regions", "roi_align"]

_ELEMENTS = 1 << 17
"""Gathered elements of a block on the host, as in `grid_sample`."""
_DEVICE_ELEMENTS = 1 << 24

_REGIONS = 1 << 16
"""Regions that are looked at together."""

_TRANSFORMATIONS = ("half_pixel", "output_half_pixel")
_MODES = ("avg", "max")
_FARTHEST = 1e18


@dataclass(frozen=True, slots=True)
class _Node:
    """A node's attributes."""

    mode: str
    height: int
    width: int
    samples: int
    scale: float
    half_pixel: bool

    @staticmethod
    def of(ctx: KernelContext) -> _Node:
        """Read and check them."""
        attributes, where = ctx.node.attributes, ctx.node.location
        mode = attributes.get("mode", "avg")
        # Version 10 knew no half pixel.
        default = "output_half_pixel" if ctx.node.since_version < 16 else "half_pixel"
        transformation = attributes.get("coordinate_transformation_mode", default)
        for name, value, known in (
            ("mode", mode, _MODES),
            ("coordinate_transformation_mode", transformation, _TRANSFORMATIONS),
        ):
            if value not in known:
                raise InvalidArgument(f"{name} is '{value}'.", where=where, fix=f"Use one of {', '.join(known)}.")
        sizes = {name: attributes.get(name, 1) for name in ("output_height", "output_width")}
        for name, value in sizes.items():
            if value < 1:
                raise InvalidArgument(f"{name} is {value}.", where=where, fix="Ask for at least one bin.")
        samples = attributes.get("sampling_ratio", 0)
        if samples < 0:
            raise InvalidArgument(
                f"sampling_ratio is {samples}.", where=where, fix="Use a positive number, or 0 to adapt to the region."
            )
        return _Node(
            mode,
            sizes["output_height"],
            sizes["output_width"],
            samples,
            attributes.get("spatial_scale", 1.0),
            transformation == "half_pixel",
        )


@dataclass(frozen=True, slots=True)
class _Axis:
    """Regions along one axis, one entry per region: where they start, how large a bin is, how many samples it has."""

    start: Any
    step: Any
    counts: Any

    @staticmethod
    def of(node: _Node, low: Any, high: Any, bins: int) -> _Axis:
        scale, offset = low.dtype.type(node.scale), low.dtype.type(0.5 if node.half_pixel else 0)
        start, end = low * scale - offset, high * scale - offset
        extent = end - start
        if not node.half_pixel:
            extent = np.maximum(extent, 1)  # malformed regions are one pixel large
        step = extent / bins
        counts = np.full(step.shape, node.samples) if node.samples else np.maximum(np.ceil(step), 0)
        return _Axis(start, step, counts)

    def taps(self, regions: Any, bins: int, count: int, size: int) -> tuple[Any, Any]:
        """Two pixels and their weights for each sample.

        Args:
            regions: Indices of the regions.
            bins: Bins along the axis.
            count: Samples a bin.
            size: Pixels of the feature map.

        Returns:
            int64 indices and weights, both ``(regions, bins, count, 2)``.
        """
        kind = self.start.dtype
        step = self.step[regions].reshape(-1, 1, 1)
        offsets = (np.arange(count, dtype=kind) + kind.type(0.5)) * step / kind.type(count)
        x = self.start[regions].reshape(-1, 1, 1) + np.arange(bins, dtype=kind).reshape(-1, 1) * step + offsets
        outside = (x < -1) | (x > size)
        x = np.clip(x, 0, size - 1)  # a sample in the outermost half pixels sees the border pixel alone
        below = np.floor(x)
        after = x - below
        index = below.astype(np.int64)
        weights = np.where(outside[..., None], 0, np.stack((1 - after, after), -1))
        return np.stack((index, np.minimum(index + 1, size - 1)), -1), weights


def roi_align(ctx: KernelContext) -> KernelCallable:
    """RoiAlign-10..22: X ``(n, c, h, w)``, rois ``(r, 4)``, batch indices ``(r,)`` → ``(r, c, height, width)``.

    Narrow floats are computed in float32 and rounded once. As in the suite's case and in onnxruntime, mode "max" takes
    the largest *weighted corner* of all samples of a bin, not the largest interpolated value.

    Raises:
        InvalidArgument: Unknown modes, shapes that do not fit, a batch index out of range, a region that is not finite.
        LimitError: Through the context, for a result or for samples that are too many.
    """
    xp, node = ctx.xp, _Node.of(ctx)
    fitting = _ELEMENTS if ctx.device == HOST else _DEVICE_ELEMENTS

    def run(x: Array, rois: Any, batch: Any) -> Array:
        _check(ctx, x, rois, batch)
        count = rois.shape[0]
        shape = (count, x.shape[1], node.height, node.width)
        ctx.check_allocation(shape, x.dtype)
        if 0 in shape or x.size == 0:
            return xp.zeros(shape, x.dtype)
        out = xp.zeros(shape, x.dtype)
        pixels = _pixels(ctx, x)
        if count <= _REGIONS:
            check_regions(rois, ctx.node.location)
            pool(x, pixels, widened(np, rois), batch, out)
            return out
        for start in range(0, count, _REGIONS):
            some = slice(start, start + _REGIONS)
            check_regions(rois[some], ctx.node.location, start)
            pool(x, pixels, widened(np, rois[some]), batch[some], out[some])
        return out

    def pool(x: Array, pixels: Array, regions: Any, batch: Any, out: Array) -> None:
        rows = _Axis.of(node, regions[:, 1], regions[:, 3], node.height)
        columns = _Axis.of(node, regions[:, 0], regions[:, 2], node.width)
        first = batch * (x.shape[2] * x.shape[3])
        for down, across, members in _grouped(rows.counts, columns.counts):
            # What a loop over samples would take in time, and the positions in memory.
            ctx.check_allocation((node.height * node.width, down * across), np.float64)
            ctx.check_allocation((len(members), 2 * (node.height * down + node.width * across)), np.float64)
            y = rows.taps(members, node.height, down, x.shape[2])
            y = y[0] * x.shape[3] + first[members].reshape(-1, 1, 1, 1), y[1]
            group = _Group(node, members, y, columns.taps(members, node.width, across, x.shape[3]))
            parts = group.blocks(fitting // x.shape[1])

            def part(start: int, stop: int, group: _Group = group, parts: list[_Block] = parts) -> None:
                for some, bins, samples in parts[start:stop]:
                    _pool(ctx, group, pixels, out, some, bins, samples)

            ctx.parallel_for(len(parts), 1, part)

    return run


def _pixels(ctx: KernelContext, x: Array) -> Array:
    """The pixels of all pictures, a row of channels for each, in the type to compute in."""
    xp = ctx.xp
    if x.size <= LARGE_PART or ctx.device != HOST:
        return xp.ascontiguousarray(xp.moveaxis(widened(xp, x), 1, -1)).reshape((-1, x.shape[1]))
    last = xp.moveaxis(x, 1, -1)
    pixels = xp.empty(last.shape, xp.float32 if is_narrow(x.dtype) else x.dtype)

    def step(target: Array, some: Array) -> None:
        target[...] = widened(xp, some)

    return by_parts(ctx, step, pixels, last).reshape((-1, x.shape[1]))


def _grouped(down: Any, across: Any) -> list[tuple[int, int, Any]]:
    """Regions by their numbers of samples: (down a bin, across a bin, regions), without those that have none."""
    counts, group = np.unique(np.stack((down, across), -1), axis=0, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    members = np.split(order, np.cumsum(np.bincount(group.reshape(-1)))[:-1])
    return [
        (int(rows), int(columns), some)
        for (rows, columns), some in zip(counts.tolist(), members, strict=True)
        if rows and columns
    ]


_Block: TypeAlias = tuple[slice, slice, int]
"""Regions, rows of bins, and how many rows of samples of a bin at a time."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Regions with the same number of samples: (indices, weights) of the pixels along both axes.

    Those of `rows` are indices of the first pixels of rows, and include the image's.
    """

    node: _Node
    members: Any
    rows: tuple[Any, Any]
    columns: tuple[Any, Any]

    def blocks(self, fitting: int) -> list[_Block]:
        """Parts that gather at most about `fitting` pixels: whole regions, rows of bins, or some samples of those."""
        bins, samples = self.rows[0].shape[1:3]
        line = 4 * self.columns[0].shape[1] * self.columns[0].shape[2]
        some = max(1, fitting // (line * samples * bins))
        height = min(bins, max(1, fitting // (line * samples)))
        depth = min(samples, max(1, fitting // line))
        return [
            (slice(region, min(region + some, len(self.members))), slice(start, min(start + height, bins)), depth)
            for region in range(0, len(self.members), some)
            for start in range(0, bins, height)
        ]


def _pool(ctx: KernelContext, group: _Group, pixels: Array, out: Array, some: slice, bins: slice, depth: int) -> None:
    """Pool one block of bins, `depth` rows of samples at a time."""
    xp = ctx.xp
    node, samples = group.node, group.rows[0].shape[2]
    total = None
    for start in range(0, samples, depth):
        ctx.check_time()
        rows = (some, bins, None, slice(start, start + depth), None, slice(None), None)
        columns = (some, None, slice(None), None, slice(None), None, slice(None))
        index = group.rows[0][rows] + group.columns[0][columns]  # (regions, bins, bins, samples, samples, 2, 2)
        weights = group.rows[1][rows] * group.columns[1][columns]
        shape = (*index.shape[:3], -1)
        values = xp.take(pixels, xp.asarray(index.reshape(-1)), axis=0).reshape((*shape, pixels.shape[1]))
        factors = xp.asarray(weights.reshape(shape).astype(pixels.dtype))
        if node.mode == "avg":
            pooled = xp.matmul(factors[..., None, :], values)[..., 0, :]
            total = pooled if total is None else total + pooled
        else:
            values *= factors[..., None]
            pooled = xp.max(values, axis=-2)
            total = pooled if total is None else xp.maximum(total, pooled)
    if node.mode == "avg":
        total /= samples * group.columns[0].shape[2]
    out[xp.asarray(group.members[some]), :, bins] = rounded(xp.moveaxis(total, -1, 1), out.dtype)


def _check(ctx: KernelContext, x: Array, rois: Any, batch: Any) -> None:
    where = ctx.node.location
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 4 or tuple(batch.shape) != (rois.shape[0],):
        raise shape_error(
            "RoiAlign needs X of shape (n, c, h, w), rois of shape (r, 4) and batch_indices of shape (r,).",
            where,
            [x.shape, rois.shape, batch.shape],
        )
    if batch.size and not 0 <= batch.min() <= batch.max() < x.shape[0]:
        wrong = batch[(batch < 0) | (batch >= x.shape[0])][0]
        raise InvalidArgument(
            f"batch_indices names image {wrong} of a batch of {x.shape[0]}.",
            where=where,
            fix=f"Indices must be in [0, {x.shape[0] - 1}]." if x.shape[0] else "The batch is empty.",
        )


def check_regions(rois: Any, where: Location, first: int = 0) -> None:
    """Refuse coordinates that would overflow; `first` is the number of the first region.

    Raises:
        InvalidArgument: One is NaN, infinite, or far beyond every picture.
    """
    wrong = ~(np.abs(widened(np, rois)) < _FARTHEST)
    if wrong.any():
        number = first + int(np.nonzero(wrong)[0][0])
        raise InvalidArgument(
            f"Region {number} has a number that is not finite, or larger than {_FARTHEST:g}.",
            where=where,
            fix="Check what computes the regions.",
        )


KERNELS = [
    KernelDef(
        "RoiAlign",
        roi_align,
        since=10,
        until=22,
        host_inputs=frozenset({1, 2}),
        implementation=f"{__name__}:roi_align",
    )
]
