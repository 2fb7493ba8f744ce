"""Pooling. Sums over windows go back as transposed convolutions with ones, channels counted as examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.transforms.gradient.registry import Call, Gradients, rule, unsupported
from ort_py.transforms.gradient.rules.convolution import Window, window_of
from ort_py.transforms.gradient.rules.indexing import scatter_flat

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


@rule("GlobalAveragePool")
def global_average_pool(b: GradientBuilder, call: Call) -> Gradients:
    """Mean over all pixels."""
    shape = b.shape(call.input(0))
    count = b("ReduceProd", b.part(shape, 2, call.rank()), keepdims=0)
    return [b.expand_like(b("Div", call.grad, b.cast(count)), call.input(0))]


@rule("GlobalMaxPool")
def global_max_pool(b: GradientBuilder, call: Call) -> Gradients:
    """The largest pixel gets the gradient; equal ones share it."""
    chosen = b.cast(b("Equal", call.x(), call.y))
    count = b.sum(chosen, tuple(range(2, call.rank())), keepdims=True)
    return [b("Mul", chosen, b("Div", call.grad, count))]


@rule("AveragePool")
def average_pool(b: GradientBuilder, call: Call) -> Gradients:
    """Mean over windows; pads count or do not."""
    kernel = tuple(call.attribute("kernel_shape"))
    window = window_of(b, call, b.ints(*kernel), call.input(0), call.output(0))
    ones = b("Expand", 1.0, b.ints(1, 1, *kernel))
    share = b("Div", call.grad, _counts(b, call, window, ones))
    single = b("Reshape", share, b.concat(b.ints(-1, 1), b.part(b.shape(share), 2, window.rank + 2)))
    spread = b("ConvTranspose", single, ones, strides=window.strides, dilations=window.dilations)
    return [b.reshape_like(window.cropped(b, spread), call.input(0))]


def _counts(b: GradientBuilder, call: Call, window: Window, ones: str) -> str:
    """Number of elements that each window averages, in the shape (1, 1, ...)."""
    size, begin = window.size, window.begin
    one = b.ints(1, 1)
    if call.attribute("count_include_pad", 0):
        if call.attribute("auto_pad", "NOTSET") == "NOTSET":
            pads = tuple(call.attribute("pads") or (0,) * 2 * window.rank)
            # With ceil_mode the last window may reach beyond the pads: what is there never counts.
            both = b.ints(*[pads[axis] + pads[axis + window.rank] for axis in range(window.rank)])
            size = b("Add", size, both)
        else:
            size = window.full
        begin = b.ints(*[0] * window.rank)
    counted = Window(window.rank, window.strides, window.dilations, begin, window.full, size)
    there = b("Expand", 1.0, b.concat(one, size))
    return b("Conv", counted.padded(b, there), ones, strides=window.strides, dilations=window.dilations)


@rule("MaxPool", since=8)
def max_pool(b: GradientBuilder, call: Call) -> Gradients:
    """The largest element of each window, at the position that the operator itself returns."""
    if call.attribute("storage_order", 0):
        raise unsupported(call, "its indices are in column-major order")
    kernel = call.attribute("kernel_shape")
    strides = call.attribute("strides") or (1,) * len(kernel)
    if len(call.node.outputs) > 1 and call.node.outputs[1] is not None:
        places = call.output(1).name
    else:
        _, places = b.many("MaxPool", [call.x()], 2, dict(call.node.attributes))
    apart = all(step >= size for size, step in zip(kernel, strides, strict=True))
    return [scatter_flat(b, call.input(0), places, call.grad, unique=apart and not call.attribute("dilations"))]
