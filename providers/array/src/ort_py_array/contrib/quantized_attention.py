"""QAttention of com.microsoft: `attention` whose input and weights are 8-bit integers.

The product is exact, then scaled and biased in float32; what follows is `self_attention`'s.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.checks import LARGE, shape_error
from ort_py_array.contrib.quantized_parameters import single
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.contrib.self_attention import SelfAttention
from ort_py_array.exact_products import exact_depth, exact_matmul, known_depth, shifted
from ort_py_array.products import product

__all__ = ["KERNELS", "q_attention"]


def q_attention(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.QAttention-1: Attention of ``(x - x_zero) · x_scale @ (weight - w_zero) · w_scale + bias``.

    Inputs: x ``(batch, length, size)`` and weight ``(size, columns)``, int8 or uint8; bias, x_scale and w_scale, which
    has one entry or one per column; mask_index; x_zero_point; w_zero_point, as w_scale; past. Results have the type of
    the bias.

    Raises:
        InvalidArgument: Shapes that do not belong together, or attributes out of range.
        LimitError: The projection or the present would pass the session's limits.
    """
    xp = ctx.xp
    attend = SelfAttention(ctx)

    def known(weight: Array, zero: Array | None) -> tuple[Array, int]:
        if weight.ndim != 2:
            return weight, 1  # each run refuses it
        matrix, _ = _shifted(ctx, weight, zero)
        return matrix, known_depth(xp, matrix)

    ready = ctx.packed((1,), "8-bit columns less zero point, by column", known, (7,))

    def run(
        x: Array,
        weight: Array,
        bias: Array,
        x_scale: Array,
        w_scale: Array,
        mask_index: Array | None = None,
        x_zero: Array | None = None,
        w_zero: Array | None = None,
        past: Array | None = None,
    ) -> tuple[Array, Array | None]:
        sizes = attend.sizes(x, weight, bias)
        batch, rows = x.shape[:2]
        if batch * rows * weight.shape[1] > LARGE:
            ctx.check_allocation((batch, rows, weight.shape[1]), xp.float32)
        scale = _by_column(ctx, "scale", weight, w_scale).astype(xp.float32)
        scale = scale * single(ctx, 3, x_scale).astype(xp.float32)
        zero = None if x_zero is None else single(ctx, 6, x_zero)
        left, bound = shifted(ctx, x.reshape((batch * rows, x.shape[2])), zero)
        if ready is None:
            matrix, most = _shifted(ctx, weight, w_zero)
            depth = exact_depth(bound, most)
        else:
            matrix, depth = ready
        if x.shape[2] <= depth:
            projected = product(ctx, left, matrix)
        else:
            projected = exact_matmul(ctx, left, matrix, depth, partial(product, ctx)).astype(xp.float32)
        projected *= scale
        projected += bias.astype(xp.float32)
        projected = projected.reshape((batch, rows, weight.shape[1]))
        return attend(projected, sizes, bias.dtype, mask_index, past)

    return run


def _shifted(ctx: KernelContext, weight: Array, zero: Array | None) -> tuple[Any, int]:
    return shifted(ctx, weight, None if zero is None else _by_column(ctx, "zero point", weight, zero))


def _by_column(ctx: KernelContext, what: str, weight: Array, parameter: Array) -> Array:
    """A parameter of the weights, one or one per column, that broadcasts to them."""
    if parameter.size == 1:
        return parameter.reshape(())
    if tuple(parameter.shape) != tuple(weight.shape[1:]):
        raise shape_error(
            f"The weights' {what} must have one entry, or one per column.",
            ctx.node.location,
            [parameter.shape, weight.shape],
        )
    return parameter


KERNELS = [
    KernelDef("QAttention", q_attention, domain=DOMAIN, since=1, outputs=2, implementation=f"{__name__}:q_attention")
]
