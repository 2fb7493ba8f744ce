"""QLinearSoftmax of com.microsoft: exponentials of 8-bit values are a table of 256 entries.

What enters a softmax is only how far each value lies below the greatest of its row, an integer from 0 to 255. Comes
beside `quantized_lookup`.
"""

from __future__ import annotations

from math import prod

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py_array.checks import normalized_axis
from ort_py_array.contrib.quantized_parameters import constants, single, zero_or
from ort_py_array.saturation import quantized

__all__ = ["KERNELS", "qlinear_softmax"]

_BLOCK = 32768
"""Elements of one block: its exponentials stay in a core's second-level cache."""


def qlinear_softmax(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.QLinearSoftmax 1, int8 and uint8: ``quantize(softmax(dequantize(X)))``.

    Inputs X, X_scale, x_zero_point, y_scale, y_zero_point. From ``opset`` 13 on along `axis`, before over all axes from
    `axis` on. The input's zero point falls out of the quotient. Raises InvalidArgument where the axis does not exist or
    a scale or zero point does not have exactly one element.
    """
    xp = ctx.xp
    attributes = ctx.node.attributes
    along = attributes["opset"] >= 13

    def table_of(x_scale: Array) -> Array:
        """exp of 0, -1, …, -255 times the scale."""
        distance = xp.arange(256, dtype=xp.float32)
        return xp.exp(-(distance * single(ctx, 1, x_scale)))

    known = constants(ctx, (1,))
    ready = None if known is None or known[0] is None else table_of(known[0])

    def run(x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None) -> Array:
        axis = normalized_axis(attributes.get("axis", -1), x.ndim, ctx.node.location)
        steps = single(ctx, 3, y_scale)
        zero = zero_or(ctx, 4, y_zero, x.dtype)
        out = xp.empty(x.shape, x.dtype)
        if not x.size:
            return out
        table = table_of(x_scale) if ready is None else ready
        lead, length = prod(x.shape[:axis]), x.shape[axis] if along else prod(x.shape[axis:])
        codes, results = x.reshape(lead, length, -1), out.reshape(lead, length, -1)

        def part(start: int, stop: int) -> None:
            for first in range(start, stop, some):
                chosen = slice(first, min(first + some, stop))
                block = codes[chosen]
                below = xp.max(block, axis=1, keepdims=True).view(xp.uint8) - block.view(xp.uint8)
                powers = xp.take(table, below)
                powers *= 1 / (xp.sum(powers, axis=1, keepdims=True) * steps)
                results[chosen] = quantized(xp, powers, zero, x.dtype)

        some = max(1, _BLOCK // (x.size // lead)) if ctx.device == HOST else lead
        ctx.parallel_for(lead, some, part)
        return out

    return run


KERNELS = [
    KernelDef(
        "QLinearSoftmax",
        qlinear_softmax,
        domain="com.microsoft",
        since=1,
        implementation="ort_py_array.contrib.quantized_softmax:qlinear_softmax",
    )
]
