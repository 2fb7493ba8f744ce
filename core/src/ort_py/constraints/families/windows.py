"""Operators that look through windows: convolutions and pools, and their quantised forms."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Violation
from ort_py.constraints.sizes import (
    Amount,
    at_least,
    choose,
    divide,
    equal,
    largest,
    less,
    product,
    remainder,
    smallest,
)

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def _entries(n: NodeScope, name: str, rank: int, least: int, default: int) -> tuple[int, ...]:
    """A list attribute with one entry for each spatial axis."""
    values = n.ints(name) or (default,) * rank
    if len(values) != rank:
        raise Violation(f"{name} has {len(values)} entries for {rank} spatial axes")
    if any(value < least for value in values):
        raise Violation(f"{name} is {list(values)}; no entry may be below {least}")
    return values


def _auto_pad(n: NodeScope) -> str:
    found = n.text("auto_pad", "NOTSET")
    if found not in _AUTO_PADS:
        raise Violation(f"auto_pad is '{found}'; it must be one of {', '.join(_AUTO_PADS)}")
    return found


def _pads(n: NodeScope, rank: int) -> tuple[int, ...]:
    pads = n.ints("pads") or (0,) * (2 * rank)
    if len(pads) != 2 * rank:
        raise Violation(f"pads has {len(pads)} entries for {rank} spatial axes; two for each are needed")
    if any(pad < 0 for pad in pads):
        raise Violation(f"pads is {list(pads)}; no entry may be negative")
    return pads


def _placed(n: NodeScope, sizes: Dims, kernel: Dims, *, pool: bool) -> list[Amount]:
    """Output sizes of a window over spatial axes."""
    rank = len(sizes)
    strides, dilations = _entries(n, "strides", rank, 1, 1), _entries(n, "dilations", rank, 1, 1)
    auto_pad, pads = _auto_pad(n), _pads(n, rank)
    found: list[Amount] = []
    for axis, (size, taps, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        if auto_pad.startswith("SAME"):
            found.append(divide(size + (stride - 1), stride))
            continue
        before, after = (pads[axis], pads[axis + rank]) if auto_pad == "NOTSET" else (0, 0)
        extent = (taps - 1) * dilation + 1
        room = size + (before + after) - extent
        if n.integer("ceil_mode"):
            count = divide(room + (stride - 1), stride) + 1
            # A window that would begin in the padding behind the picture is dropped.
            count = choose(at_least((count - 1) * stride, size + before), count - 1, count)
        else:
            count = divide(room, stride) + 1
            if pool:  # A window larger than the picture by less than a stride counts; by less than two there is none.
                n.note_late(less(room, 0))
                count = choose(less(room, 0), 1 - divide(-room, stride), count)
        if pool:
            n.require(at_least(count, 0), "a window of {} is larger than the {} padded positions", extent, size)
        else:
            n.require(
                at_least(count, 1), "a kernel of {} is larger than the {} positions of an axis, pads counted", extent,
                size + (before + after),
            )  # fmt: skip
        found.append(count)
    return found


def _kernel(n: NodeScope, given: Dims) -> Dims:
    """The kernel's sizes, which the attribute may repeat."""
    named = n.ints("kernel_shape")
    if named:
        if len(named) != len(given):
            raise Violation(f"kernel_shape has {len(named)} entries for {len(given)} spatial axes")
        for size, wanted in zip(given, named, strict=True):
            n.require(equal(size, wanted), "kernel_shape says {1}, but the weights have {0}", size, wanted)
    for size in given:
        n.require(at_least(size, 1), "the kernel has a size of {}", size)
    return given


def convolution(n: NodeScope, source: int = 0, weight: int = 1, bias: int = 2) -> Outputs:
    """Conv of any number of spatial axes: ``(n, c, *size)`` and ``(m, c / group, *kernel)``."""
    x, w = n.require_rank(source, 3), n.shape(weight)
    if len(w) != len(x):
        raise Violation(f"the weights have {len(w)} axes and the input {len(x)}; they must have the same number")
    group = n.integer("group", 1)
    if group < 1:
        raise Violation(f"group is {group}; it must be 1 or more")
    n.require(equal(w[1] * group, x[1]), "weights for {} channels in {} groups, but an input of {}", w[1], group, x[1])
    n.require(equal(remainder(w[0], group), 0), "{} output channels cannot be divided into {} groups", w[0], group)
    if n.has(bias):
        n.require_same(bias, (w[0],), "the bias")
    out = _placed(n, x[2:], _kernel(n, w[2:]), pool=False)
    n.spend(product((x[0], *w, *out)))
    return [(x[0], w[0], *out)]


_SINCE_BOUNDED_OUTPUT_PADDING = 11
"""Version of ConvTranspose from which on its specification bounds output_padding."""


def transposed_convolution(n: NodeScope) -> Outputs:
    """ConvTranspose: ``(n, c, *size)`` and ``(c, m / group, *kernel)``."""
    x, w = n.require_rank(0, 3), n.shape(1)
    if len(w) != len(x):
        raise Violation(f"the weights have {len(w)} axes and the input {len(x)}; they must have the same number")
    group, rank = n.integer("group", 1), len(x) - 2
    if group < 1:
        raise Violation(f"group is {group}; it must be 1 or more")
    n.require(equal(w[0], x[1]), "weights for {} channels, but an input of {}", w[0], x[1])
    n.require(equal(remainder(x[1], group), 0), "{} channels cannot be divided into {} groups", x[1], group)
    if n.has(2):
        n.require_same(2, (w[1] * group,), "the bias")
    kernel = _kernel(n, w[2:])
    strides, dilations = _entries(n, "strides", rank, 1, 1), _entries(n, "dilations", rank, 1, 1)
    extra = _entries(n, "output_padding", rank, 0, 0)
    if n.since_version >= _SINCE_BOUNDED_OUTPUT_PADDING:
        for added, stride, dilation in zip(extra, strides, dilations, strict=True):
            if added >= max(stride, dilation):
                raise Violation(
                    f"output_padding has {added}, which is less than neither {stride} of strides nor "
                    f"{dilation} of dilations"
                )
    auto_pad, wanted = _auto_pad(n), n.ints("output_shape")[-rank:]
    pads = _pads(n, rank)
    if wanted and (len(wanted) != rank or any(size < 1 for size in wanted)):
        raise Violation(f"output_shape is {list(wanted)} for {rank} spatial axes")
    out: list[Amount] = []
    for axis in range(rank):
        stride, size = strides[axis], x[2 + axis]
        n.require(less(0, size), "an axis has {} positions", size)
        full = (size - 1) * stride + (kernel[axis] - 1) * dilations[axis] + 1 + extra[axis]
        if wanted:
            out.append(wanted[axis])
        elif auto_pad.startswith("SAME"):
            out.append(size * stride)
        else:
            begin, end = (pads[axis], pads[axis + rank]) if auto_pad == "NOTSET" else (0, 0)
            out.append(full - (begin + end))
        n.require(at_least(out[-1], 0), "an axis of the result has the size {}", out[-1])
    n.spend(product((*x, *w[1:])))
    return [(x[0], w[1] * group, *out)]


def _pool(n: NodeScope, source: int = 0) -> Outputs:
    x = n.require_rank(source, 3)
    kernel = n.ints("kernel_shape")
    if len(kernel) != len(x) - 2 or any(size < 1 for size in kernel):
        raise Violation(f"kernel_shape is {list(kernel)} for {len(x) - 2} spatial axes")
    if n.integer("p", 2) < 1:
        raise Violation(f"p is {n.integer('p')}")
    out = (*x[:2], *_placed(n, x[2:], kernel, pool=True))
    n.spend(product((*out, *kernel)))
    return [out] * n.outputs


def _global_pool(n: NodeScope, source: int = 0) -> Outputs:
    x = n.require_rank(source, 3)
    for size in x[2:]:
        # Where there are no pictures at all, none of them lacks pixels.
        least = smallest(x[0] * x[1], 1)
        n.require(at_least(size, least), "an axis of {} elements leaves nothing to pool", size)
    return [(*x[:2], *(1,) * (len(x) - 2))]


def _one_or(n: NodeScope, place: int, count: Amount, what: str) -> None:
    """A quantisation parameter: one number, or one for each entry of an axis."""
    shape = n.optional_shape(place)
    if not shape:
        return
    if len(shape) > 1:
        raise Violation(f"{what} has {len(shape)} axes instead of one")
    size = shape[0]
    n.require(
        equal(largest(size, 1), choose(equal(size, 1), 1, count)), what + " has {} entries instead of {}", size, count
    )


def _quantized_convolution(n: NodeScope) -> Outputs:
    out = convolution(n, 0, 3, 8)
    channels = n.shape(3)[0]
    for place, count in ((1, 1), (2, 1), (4, channels), (5, channels), (6, 1), (7, 1)):
        _one_or(n, place, count, f"input {place}")
    return out


def _integer_convolution(n: NodeScope) -> Outputs:
    _one_or(n, 2, 1, "the zero point of the input")
    _one_or(n, 3, n.shape(1)[0], "the zero point of the weights")
    return convolution(n, 0, 1, 99)


def _fused_convolution(n: NodeScope) -> Outputs:
    out = convolution(n)
    if n.has(3) and isinstance(out[0], tuple):
        n.spreads_to(3, out[0], "the sum")
    return out


def _quantized_pool(n: NodeScope) -> Outputs:
    for place in range(1, 5):
        _one_or(n, place, 1, f"input {place}")
    if n.integer("channels_last"):
        return [None]
    return _global_pool(n) if n.op_type == "QLinearGlobalAveragePool" else _pool(n)


TABLE: Mapping[tuple[str, str], Constraint] = {
    ("", "AveragePool"): _pool,
    ("", "Conv"): convolution,
    ("", "ConvInteger"): _integer_convolution,
    ("", "ConvTranspose"): transposed_convolution,
    ("", "GlobalAveragePool"): _global_pool,
    ("", "GlobalLpPool"): _global_pool,
    ("", "GlobalMaxPool"): _global_pool,
    ("", "LpPool"): _pool,
    ("", "MaxPool"): _pool,
    ("", "QLinearConv"): _quantized_convolution,
    ("com.microsoft", "FusedConv"): _fused_convolution,
    ("com.microsoft", "QLinearAveragePool"): _quantized_pool,
    ("com.microsoft", "QLinearGlobalAveragePool"): _quantized_pool,
}
