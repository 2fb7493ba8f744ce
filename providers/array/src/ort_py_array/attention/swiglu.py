"""SwiGLU-28: a linear input gated by the Swish of another, in blocks that stay in the cache.

The two-input counterpart of `pointwise`: narrow floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.devices import HOST
from ort_py_array.checks import shape_error
from ort_py_array.precision import widened

__all__ = ["swiglu"]

_BLOCK = 32768
"""Elements a step works on at once, as in `pointwise`."""


@kernel("SwiGLU", since=28)
def swiglu(ctx: KernelContext, gate: Array, linear: Array, *, alpha: float = 1.0) -> Array:
    """SwiGLU-28: ``gate · sigmoid(alpha · gate) · linear``; both inputs have one shape, which the result has too.

    Raises:
        InvalidArgument: The shapes differ; the operator does not broadcast.
    """
    if gate.shape != linear.shape:
        raise shape_error(
            "Gate and linear input must have the same shape.", ctx.node.location, [gate.shape, linear.shape]
        )
    xp = ctx.xp
    y = xp.empty(gate.shape, gate.dtype)
    flat_gate, flat_linear, flat_y = gate.reshape((-1,)), linear.reshape((-1,)), y.reshape((-1,))

    def block(at: slice) -> None:
        x = widened(xp, flat_gate[at])
        # exp(-alpha x) overflows to infinity where the sigmoid is 0, as it should.
        share = xp.multiply(x, -alpha)
        xp.exp(share, share)
        share += 1
        xp.divide(x, share, share)
        share *= widened(xp, flat_linear[at])
        flat_y[at] = share

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            block(slice(first, min(first + _BLOCK, stop)))

    if gate.size <= _BLOCK or ctx.device != HOST:
        block(slice(None))
    else:
        ctx.parallel_for(gate.size, _BLOCK, part)
    return y
