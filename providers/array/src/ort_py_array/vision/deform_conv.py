"""DeformConv: a convolution whose taps are moved by learned offsets, before they are read between the pixels.

`interpolation` gathers what each tap of each output position sees into columns, one GEMM a group multiplies them with
the weights. Channels are cut into pieces that share offsets and a group, so that offset groups and groups may differ.
Output positions are taken in blocks of bounded size, on the context's pool. Any number of spatial axes.
"""

from __future__ import annotations

from math import lcm, prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import shape_error
from ort_py_array.precision import rounded, widened
from ort_py_array.vision.interpolation import Pixels, blocks, interpolated, linear_taps, zeroed
from ort_py_array.windows import Placement, Placements, Window

__all__ = ["KERNELS", "deform_conv"]

_ELEMENTS = 1 << 19
"""Elements of the columns of a block on the host: the GEMM wants more at a time than the gathers do."""
_DEVICE_ELEMENTS = 1 << 25


@dataclass(frozen=True, slots=True)
class _Groups:
    """The division of channels into groups."""

    group: int
    offset_group: int

    @property
    def pieces(self) -> int:
        """Pieces of equal size that are gathered as one: they share offsets, and a group or whole groups."""
        return self.offset_group if self.group % self.offset_group == 0 else lcm(self.group, self.offset_group)

    @property
    def inside(self) -> int:
        """Groups that a piece holds."""
        return max(1, self.group // self.pieces)

    def columns(self, xp: Any, gathered: Array) -> Array:
        """(images, points, pieces, taps, channels of a piece) as (images, groups, depth, points) for the GEMM."""
        count, points, pieces, taps, size = gathered.shape
        if self.inside == 1:  # a group is some pieces
            return xp.moveaxis(gathered.reshape((count, points, self.group, -1)), 1, 3)
        parts = gathered.reshape((count, points, pieces, taps, self.inside, size // self.inside))
        parts = xp.transpose(parts, (0, 2, 4, 3, 5, 1))
        return parts.reshape((count, self.group, -1, points))

    def weights(self, xp: Any, w: Array, taps: int) -> Array:
        """Weights in the same order: (groups, filters of a group, depth)."""
        some = max(1, self.pieces // self.group)
        ordered = w.reshape((self.group, w.shape[0] // self.group, some, w.shape[1] // some, taps))
        return xp.moveaxis(ordered, 4, 3).reshape((self.group, w.shape[0] // self.group, -1))


def deform_conv(ctx: KernelContext) -> KernelCallable:
    """DeformConv-19..22: X ``(n, c, *size)``, W ``(m, c / group, *kernel)``, offsets, [bias, mask] → ``(n, m, *out)``.

    Offsets are ``(n, offset_group · taps · axes, *out)`` in pixels, outermost axis first; the mask, one factor a tap,
    is ``(n, offset_group · taps, *out)``. Positions between pixels are interpolated linearly, those outside are 0.
    Narrow floats are computed in float32 and rounded once.

    Raises:
        InvalidArgument: Attributes or shapes that do not fit.
        LimitError: Through the context.
    """
    xp, attributes, where = ctx.xp, ctx.node.attributes, ctx.node.location
    groups = _Groups(attributes.get("group", 1), attributes.get("offset_group", 1))
    if min(groups.group, groups.offset_group) < 1:
        raise InvalidArgument(
            f"group is {groups.group} and offset_group is {groups.offset_group}.",
            where=where,
            fix="Both must be at least 1.",
        )
    window = Placements(
        Window(
            where,
            tuple(attributes.get("kernel_shape", ())),
            tuple(attributes.get("strides", ())),
            tuple(attributes.get("dilations", ())),
            tuple(attributes.get("pads", ())),
        )
    )

    def run(x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None) -> Array:
        if x.ndim < 3 or w.ndim != x.ndim:
            raise shape_error(
                "DeformConv needs X (n, c, d1, …) and weights of the same rank.", where, [x.shape, w.shape]
            )
        place = window.placed(tuple(x.shape[2:]), tuple(w.shape[2:]))
        _check(ctx, groups, place, x, w, offset, bias, mask)
        shape = (x.shape[0], w.shape[0], *place.out)
        ctx.check_allocation(shape, x.dtype)
        if 0 in shape or x.shape[1] == 0:
            out = xp.zeros(shape, x.dtype)
            if bias is not None:
                out += bias.reshape((-1,) + (1,) * len(place.out))
            return out
        parts = [None if part is None else widened(xp, part) for part in (w, offset, bias, mask)]
        return rounded(_convolved(ctx, groups, place, widened(xp, x), *parts), x.dtype)

    return run


def _check(
    ctx: KernelContext,
    groups: _Groups,
    place: Placement,
    x: Array,
    w: Array,
    offset: Array,
    bias: Array | None,
    mask: Array | None,
) -> None:
    where, channels, filters = ctx.node.location, x.shape[1], w.shape[0]
    if channels % groups.group or filters % groups.group or w.shape[1] * groups.group != channels:
        raise shape_error(f"The weights do not fit the input in {groups.group} groups.", where, [x.shape, w.shape])
    if channels % groups.offset_group:
        raise shape_error(
            f"{channels} channels cannot be cut into {groups.offset_group} offset groups.", where, [x.shape]
        )
    taps = groups.offset_group * place.taps
    for name, value, wanted in (
        ("offsets", offset, (x.shape[0], taps * len(place.out), *place.out)),
        ("mask", mask, (x.shape[0], taps, *place.out)),
        ("bias", bias, (filters,)),
    ):
        if value is not None and tuple(value.shape) != wanted:
            raise InvalidArgument(
                f"The {name} of shape {list(value.shape)} must have the shape {list(wanted)}.",
                where=where,
                why=f"X is {list(x.shape)}, W is {list(w.shape)}, and the output's sizes are {list(place.out)}",
                fix="Check kernel_shape, pads, strides, dilations and offset_group against what computes them.",
            )


def _convolved(
    ctx: KernelContext,
    groups: _Groups,
    place: Placement,
    x: Array,
    w: Array,
    offset: Array,
    bias: Array | None,
    mask: Array | None,
) -> Array:
    """The convolution in the type of `x`."""
    xp, (n, c), points, taps, rank = ctx.xp, x.shape[:2], prod(place.out), place.taps, len(place.out)
    # A pixel's channels are cut into pieces, each of which is gathered at positions of its own.
    pieces = groups.pieces
    pixels = _in_pieces(xp, x, pieces)
    weights = groups.weights(xp, w, taps)
    offsets = offset.reshape((n, groups.offset_group, taps, rank, points))
    factors = None if mask is None else mask.reshape((n, groups.offset_group, taps, points))
    base = _tap_positions(xp, place, x.dtype)
    out = xp.empty((n, groups.group, w.shape[0] // groups.group, points), x.dtype)
    parts = blocks(n, points, max(1, (_ELEMENTS if ctx.device == HOST else _DEVICE_ELEMENTS) // (c * taps)))

    def part(start: int, stop: int) -> None:
        for images, some in parts[start:stop]:
            axes = []
            for axis, length in enumerate(place.size):
                position = base[axis][:, some] + offsets[images, :, :, axis, some]  # (images, groups, taps, points)
                position = xp.clip(_point_first(xp, position), -2, length + 1)
                axes.append(linear_taps(xp, position, zeroed(xp, length), x.dtype))
            if factors is not None:
                factor = _point_first(xp, factors[images, :, :, some])
                axes[0] = [(index, factor if weight is None else weight * factor) for index, weight in axes[0]]
            gathered = _gathered(xp, pixels, axes, images, pieces, groups.offset_group)
            out[images, :, :, some] = xp.matmul(weights, groups.columns(xp, gathered))

    ctx.parallel_for(len(parts), 1, part)
    out = out.reshape((n, -1, *place.out))
    if bias is not None:
        out += bias.reshape((-1,) + (1,) * rank)
    return out


def _in_pieces(xp: Any, x: Array, pieces: int) -> Pixels:
    """`x` as pixels whose index counts the pieces of channels innermost; one piece a run, with a ring of zeros."""
    n, c, *size = x.shape
    extended = [length + 1 for length in size]
    values = xp.zeros((n, *extended, pieces, c // pieces), x.dtype)
    inner = tuple(slice(0, length) for length in size)
    values[(slice(None), *inner)] = xp.moveaxis(x, 1, -1).reshape((n, *size, pieces, -1))
    strides = tuple(prod(extended[start:]) * pieces for start in range(len(size) + 1))
    return Pixels(values.reshape((-1, c // pieces)), 0, strides)


def _tap_positions(xp: Any, place: Placement, dtype: Any) -> list[Array]:
    """Positions of the taps without offsets, in pixels: ``(taps, points)`` an axis."""
    rank = len(place.out)
    found = []
    for axis in range(rank):
        along = [1] * (2 * rank)
        along[axis] = place.kernel[axis]
        tap = (xp.arange(place.kernel[axis]) * place.dilations[axis] - place.begin[axis]).reshape(along)
        along[axis], along[rank + axis] = 1, place.out[axis]
        start = (xp.arange(place.out[axis]) * place.strides[axis]).reshape(along)
        whole = xp.broadcast_to((tap + start).astype(dtype), (*place.kernel, *place.out))
        found.append(whole.reshape((place.taps, -1)))
    return found


def _point_first(xp: Any, values: Array) -> Array:
    """(images, offset groups, taps, points) with the points after the images, contiguous."""
    return xp.ascontiguousarray(xp.moveaxis(values, 3, 1))


def _gathered(xp: Any, pixels: Pixels, axes: list[Any], images: slice, pieces: int, offset_groups: int) -> Array:
    """Pixels that the taps see: (images, points, pieces, taps, channels of a piece)."""
    shape = axes[0][0][0].shape
    count, points, _, taps = shape
    own = pieces // offset_groups
    expanded = (count, points, offset_groups, own, taps)

    def spread(values: Array) -> Array:
        whole = (
            values if own == 1 else xp.broadcast_to(values.reshape((count, points, offset_groups, 1, taps)), expanded)
        )
        return whole.reshape(-1)

    first = (xp.arange(images.start, images.stop) * pixels.strides[0]).reshape((-1, 1, 1, 1))
    first = first + xp.arange(pieces).reshape((pieces, 1))
    first = xp.broadcast_to(first, (count, points, pieces, taps)).reshape(-1)
    spread_axes = [[(spread(index), spread(weight)) for index, weight in axis] for axis in axes]
    return interpolated(xp, pixels, first, spread_axes).reshape((count, points, pieces, taps, -1))


KERNELS = [KernelDef("DeformConv", deform_conv, since=19, until=22, implementation=f"{__name__}:deform_conv")]
