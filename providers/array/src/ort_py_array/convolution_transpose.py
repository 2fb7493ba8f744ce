"""ConvTranspose: every input position adds one weighted kernel to the output.

One GEMM gives the contributions of all taps; each tap's are then added to the output positions it reaches, a strided
slice. Comes after `windows`; the declaration is in `convolution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, KernelForms
from ort_py.errors import InvalidArgument
from ort_py_array.precision import rounded, widened
from ort_py_array.two_forms import two_forms
from ort_py_array.windows import require_auto_pad, require_kernel

__all__ = ["conv_transpose", "transposed_geometry"]

_SCRATCH_BYTES = 8 << 20

_SINCE_BOUNDED_OUTPUT_PADDING = 11
"""Version of ONNX's operator from which on its specification bounds output_padding."""


def conv_transpose(ctx: KernelContext) -> KernelForms:
    """ConvTranspose 1–22: ``(n, c, *size)`` and ``(c, m / group, *kernel)`` → ``(n, m, *out)``.

    Floats; float16 and bfloat16 are summed in float32 and rounded once. Raises InvalidArgument for shapes that do not
    fit and LimitError through the context. The callable takes pads that are known only now as a fourth argument.
    """
    from ort_py_array.convolution import check_convolution

    attributes = ctx.node.attributes
    where = ctx.node.location
    group = int(attributes.get("group", 1))
    xp = ctx.xp

    known_pads = tuple(attributes.get("pads", ()))

    def run(
        x: Array,
        w: Array,
        bias: Array | None = None,
        pads: tuple[int, ...] = known_pads,
        *,
        out: Array | None = None,
    ) -> Array:
        check_convolution(where, x, w, bias, group, weight_axis=0)
        rank = x.ndim - 2
        strides = _per_axis(ctx, "strides", rank, 1)
        dilations = _per_axis(ctx, "dilations", rank, 1)
        begin, out_size = transposed_geometry(ctx, x.shape[2:], w.shape[2:], strides, dilations, pads)
        m = w.shape[1] * group
        ctx.check_allocation((x.shape[0], m, *out_size), x.dtype)
        wide, weights = widened(xp, x), widened(xp, w)
        reach = tuple(
            max((i - 1) * s + (k - 1) * d + 1, b + o)
            for i, s, k, d, b, o in zip(x.shape[2:], strides, w.shape[2:], dilations, begin, out_size, strict=True)
        )
        ctx.check_allocation((x.shape[0], m, *reach), wide.dtype)
        column = None if bias is None else widened(xp, bias).reshape((-1,) + (1,) * rank)
        # Where kernels lie side by side, every output position belongs to one tap and is written once.
        tiled = tuple(w.shape[2:]) == strides and max(dilations) == 1 and wide.size > 0 and weights.size > 0
        tiled = tiled and reach == tuple(i * s for i, s in zip(x.shape[2:], strides, strict=True))
        uncut = reach == tuple(out_size)
        if out is not None and uncut and wide.dtype == x.dtype:
            full = out
        else:
            full = xp.empty((x.shape[0], m, *reach), wide.dtype)
        if not tiled:
            full[...] = 0 if column is None else column
        if wide.size and weights.size:
            _scatter(ctx, wide, weights, group, strides, dilations, full, tiled, column)
        if uncut:
            return rounded(full, x.dtype, out)
        inside = full[(slice(None), slice(None), *(slice(b, b + o) for b, o in zip(begin, out_size, strict=True)))]
        return rounded(xp.ascontiguousarray(inside) if out is None else inside, x.dtype, out)

    return two_forms(ctx, run)


def _per_axis(ctx: KernelContext, name: str, rank: int, default: int) -> tuple[int, ...]:
    values = tuple(ctx.node.attributes.get(name, ())) or (default,) * rank
    if len(values) != rank or min(values) < default:
        raise InvalidArgument(
            f"{name} is {list(values)}; the input has {rank} spatial axes and no entry may be below {default}.",
            where=ctx.node.location,
            fix=f"Give {name} {rank} entries of at least {default}.",
        )
    return values


def transposed_geometry(
    ctx: KernelContext,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    given_pads: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The amount cut off the front of the whole result, and the remaining size, along each axis.

    Args:
        ctx: Context of the node, for its attributes.
        size, kernel, strides, dilations: One entry a spatial axis.
        given_pads: As in the attribute, which a kernel may also be given as an input; empty for none.

    Raises:
        InvalidArgument: An attribute has the wrong length or contradicts the weights, or nothing is left.
    """
    attributes = ctx.node.attributes
    require_kernel(ctx.node.location, tuple(attributes.get("kernel_shape", ())), tuple(kernel))
    rank = len(size)
    extra = _per_axis(ctx, "output_padding", rank, 0)
    if ctx.node.domain or ctx.node.since_version >= _SINCE_BOUNDED_OUTPUT_PADDING:
        _require_less(ctx, extra, strides, dilations)
    auto_pad = attributes.get("auto_pad", "NOTSET")
    require_auto_pad(ctx.node.location, auto_pad)
    wanted = tuple(attributes.get("output_shape", ()))[-rank:]
    if not wanted and auto_pad.startswith("SAME"):
        wanted = tuple(i * s for i, s in zip(size, strides, strict=True))
    pads = given_pads if auto_pad == "NOTSET" else ()
    pads = pads or (0,) * (2 * rank)
    if len(pads) != 2 * rank or len(wanted) not in (0, rank):
        raise InvalidArgument(
            f"pads is {list(pads)} and output_shape {list(wanted)}; the input has {rank} spatial axes.",
            where=ctx.node.location,
            fix=f"Give pads {2 * rank} and output_shape {rank} entries, or leave them out.",
        )
    begin, out = [], []
    for axis in range(rank):
        natural = strides[axis] * (size[axis] - 1) + extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        if wanted:
            total = max(0, natural - wanted[axis])
            begin.append(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2)
            out.append(wanted[axis])
        else:
            begin.append(pads[axis])
            out.append(natural - pads[axis] - pads[axis + rank])
        if out[-1] < 0 or size[axis] < 1:
            raise InvalidArgument(
                f"The output would have {out[-1]} positions along spatial axis {axis}: the input has {size[axis]}, "
                f"the kernel spans {(kernel[axis] - 1) * dilations[axis] + 1}, pads are {list(pads)}.",
                where=ctx.node.location,
                fix="Feed a larger input, or pad less: pads are cut off the output of ConvTranspose.",
            )
    return tuple(begin), tuple(out)


def _require_less(ctx: KernelContext, extra: tuple[int, ...], strides: Sequence[int], dilations: Sequence[int]) -> None:
    for axis, (added, stride, dilation) in enumerate(zip(extra, strides, dilations, strict=True)):
        if added >= max(stride, dilation):
            raise InvalidArgument(
                f"output_padding is {list(extra)}: along spatial axis {axis}, {added} is less than neither the stride "
                f"{stride} nor the dilation {dilation}.",
                where=ctx.node.location,
                why="output_padding chooses among the sizes that a convolution reduces to the same size",
                fix="Make it less than the stride or the dilation, or ask for a larger result with output_shape or "
                "smaller pads.",
            )


def _scatter(
    ctx: KernelContext,
    x: Array,
    w: Array,
    group: int,
    strides: Sequence[int],
    dilations: Sequence[int],
    full: Array,
    tiled: bool,
    column: Array | None,
) -> None:
    """Add the contributions of blocks of input rows to the uncut output; where it is tiled, write them and the bias."""
    xp = ctx.xp
    n, c, rows = x.shape[:3]
    kernel = w.shape[2:]
    m = full.shape[1]
    inner = prod(x.shape[3:])
    # (group, c / group, m / group · taps), seen transposed: BLAS reads it as it stands.
    weights = xp.swapaxes(w.reshape(group, c // group, -1), 1, 2)
    some = max(1, min(rows, _SCRATCH_BYTES // max(1, n * m * prod(kernel) * inner * x.itemsize)))
    for start in range(0, rows, some):
        stop = min(start + some, rows)
        part = x[:, :, start:stop].reshape(n, group, c // group, -1)
        terms = xp.matmul(weights, part).reshape(n, m, *kernel, stop - start, *x.shape[3:])
        for tap in product(*(range(k) for k in kernel)):
            ctx.check_time()
            first = [t * d for t, d in zip(tap, dilations, strict=True)]
            first[0] += start * strides[0]
            sizes = (stop - start, *x.shape[3:])
            reached = tuple(slice(f, f + (i - 1) * s + 1, s) for f, i, s in zip(first, sizes, strides, strict=True))
            target, term = full[(slice(None), slice(None), *reached)], terms[(slice(None), slice(None), *tap)]
            if not tiled:
                xp.add(target, term, out=target)
            elif column is None:
                target[...] = term
            else:
                xp.add(term, column, out=target)
