"""8-bit products of com.microsoft: DynamicQuantizeMatMul, MatMulIntegerToFloat, QGemm and QLinearConv.

Integer products are exact, by `exact_products`; what surrounds them is scaled in float32. Right operands that are known
when the node is bound are shifted by their zero point once. QLinearConv is ONNX's (`quantized_convolution`) with
another layout.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array import quantized_convolution
from ort_py_array.checks import shape_error
from ort_py_array.contrib.quantized_parameters import single
from ort_py_array.exact_products import exact_depth, exact_matmul, known_depth, shifted
from ort_py_array.matmul import matmul_shape
from ort_py_array.precision import rounded
from ort_py_array.products import product
from ort_py_array.saturation import centred, quantized

__all__ = ["KERNELS", "dynamic_quantize_matmul", "matmul_integer_to_float", "qgemm", "qlinear_conv"]


class _Right:
    """The right operand of a product, shifted by its zero point: once, where both are known when the node is bound."""

    def __init__(self, ctx: KernelContext, data: int, zero: int, *, transposed: bool = False) -> None:
        self._ctx = ctx
        self._transposed = transposed
        form = "8-bit columns less zero point, transposed" if transposed else "8-bit columns less zero point"
        self._ready = ctx.packed((data,), form, self._known, (zero,))

    def _known(self, b: Array, zero: Array | None) -> tuple[Array, int]:
        values, _ = self._made(b, zero)
        return values, known_depth(self._ctx.xp, values)

    def _made(self, b: Array, zero: Array | None) -> tuple[Array, int]:
        matrix = b.T if self._transposed else b
        return shifted(self._ctx, matrix, None if zero is None else columns(self._ctx, "zero point", matrix, zero))

    def __call__(self, b: Array, zero: Array | None) -> tuple[Array, int]:
        """(values less their zero point as float32, how deep products of 8-bit integers with them are exact)."""
        if self._ready is not None:
            return self._ready
        values, most = self._made(b, zero)
        return values, exact_depth(255, most)


def columns(ctx: KernelContext, what: str, b: Array, parameter: Array) -> Array:
    """A scale or zero point of the right operand: one, one per column, or ``(…, 1, columns)``; broadcasts to products.

    Raises:
        InvalidArgument: It is none of these.
    """
    if parameter.size == 1:
        return parameter.reshape(())
    wanted = b.shape[-1] if b.ndim > 1 else 1
    if parameter.shape[-1] != wanted or (parameter.ndim > 1 and parameter.shape[-2] != 1):
        raise InvalidArgument(
            f"B's {what} has shape {list(parameter.shape)}; B has shape {list(b.shape)}.",
            where=ctx.node.location,
            fix=f"Give it one entry, or one for each of the {wanted} columns.",
        )
    return parameter


def _biased(ctx: KernelContext, y: Array, bias: Array | None) -> Array:
    """`y` plus one entry per column."""
    if bias is None:
        return y
    if y.ndim == 0 or tuple(bias.shape) != (y.shape[-1],):
        raise shape_error("The bias needs one entry for each column of B.", ctx.node.location, [y.shape, bias.shape])
    return ctx.xp.add(y, bias, out=y)


def dynamic_quantize_matmul(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.DynamicQuantizeMatMul 1: ``A @ B``, A quantised to uint8 at run time with the scale that just fits.

    Inputs A (float), B (int8 or uint8), b_scale, b_zero_point, bias. Scale and zero point of B have one entry, or one a
    column. Raises InvalidArgument where shapes do not fit.
    """
    xp = ctx.xp
    right = _Right(ctx, 1, 3)

    def run(a: Array, b: Array, b_scale: Array, b_zero: Array | None = None, bias: Array | None = None) -> Array:
        ctx.check_allocation(matmul_shape(ctx, a, b), xp.float32)
        values, depth = right(b, b_zero)
        steps, scale = centred(xp, a)
        return _product(ctx, steps, values, depth, columns(ctx, "scale", b, b_scale) * scale, bias)

    return run


def _product(ctx: KernelContext, left: Array, right: Array, depth: int, scale: Array, bias: Array | None) -> Array:
    """``left @ right · scale + bias`` in float32, the product exact."""
    xp = ctx.xp
    if left.shape[-1] <= depth:
        y = xp.asarray(product(ctx, left, right))
    else:
        y = xp.asarray(exact_matmul(ctx, left, right, depth, partial(product, ctx)).astype(xp.float32))
    return _biased(ctx, xp.multiply(y, scale, out=y), bias)


def matmul_integer_to_float(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.MatMulIntegerToFloat 1: ``(A - a_zero) · a_scale @ (B - b_zero) · b_scale + bias``.

    Inputs A, B (int8 or uint8), a_scale, b_scale, a_zero_point, b_zero_point, bias; the scales' type (float or float16)
    is the result's, which is rounded once. Parameters of A have one entry, or one per column of A; those of B one, or
    one a column of B. Raises InvalidArgument where shapes do not fit.
    """
    xp = ctx.xp
    right = _Right(ctx, 1, 5)

    def run(
        a: Array,
        b: Array,
        a_scale: Array,
        b_scale: Array,
        a_zero: Array | None = None,
        b_zero: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        ctx.check_allocation(matmul_shape(ctx, a, b), xp.float32)
        for name, parameter in (("scale", a_scale), ("zero point", a_zero)):
            if parameter is not None and parameter.size != 1 and tuple(parameter.shape) != a.shape[-1:]:
                raise InvalidArgument(
                    f"A's {name} has shape {list(parameter.shape)}; A has shape {list(a.shape)}.",
                    where=ctx.node.location,
                    fix=f"Give it one entry, or one for each of the {a.shape[-1]} columns.",
                )
        values, depth = right(b, b_zero)
        left, _ = shifted(ctx, a, a_zero if a_zero is None or a_zero.size > 1 else a_zero.reshape(()))
        scale = columns(ctx, "scale", b, b_scale).astype(xp.float32)
        wide = None if bias is None else bias.astype(xp.float32)
        if a_scale.size > 1:  # no longer a product of integers
            y = xp.asarray(product(ctx, left * a_scale.astype(xp.float32), values))
            return rounded(_biased(ctx, xp.multiply(y, scale, out=y), wide), a_scale.dtype)
        scale = scale * a_scale.reshape(()).astype(xp.float32)
        return rounded(_product(ctx, left, values, depth, scale, wide), a_scale.dtype)

    return run


def qgemm(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.QGemm 1: ``alpha · (A - a_zero) · a_scale @ (B - b_zero) · b_scale``, C counted in the same steps.

    Inputs A, a_scale, a_zero_point, B, b_scale, b_zero_point, C (int32, broadcasts to the result), y_scale,
    y_zero_point. 8 bits where the last is given, else float32; without it a y_scale only divides, as in onnxruntime.
    Raises InvalidArgument where shapes do not fit or y_zero_point stands alone.
    """
    xp = ctx.xp
    attributes = ctx.node.attributes
    transposed = bool(attributes.get("transA", 0)), bool(attributes.get("transB", 0))
    alpha = xp.float32(attributes.get("alpha", 1.0))
    right = _Right(ctx, 3, 5, transposed=transposed[1])
    where = ctx.node.location

    def run(
        a: Array,
        a_scale: Array,
        a_zero: Array,
        b: Array,
        b_scale: Array,
        b_zero: Array,
        c: Array | None = None,
        y_scale: Array | None = None,
        y_zero: Array | None = None,
    ) -> Array:
        if a.ndim != 2 or b.ndim != 2:
            raise shape_error("QGemm multiplies matrices.", where, [a.shape, b.shape])
        if y_zero is not None and y_scale is None:
            raise InvalidArgument(
                "y_zero_point is given, but y_scale is not.", where=where, fix="Give both, or neither for float32."
            )
        a, matrix = (x.T if turned else x for x, turned in zip((a, b), transposed, strict=True))
        shape = matmul_shape(ctx, a, matrix)
        ctx.check_allocation(shape, xp.float32)
        values, depth = right(b, b_zero)
        left, _ = shifted(ctx, a, single(ctx, 2, a_zero))
        total = exact_matmul(ctx, left, values, depth, partial(product, ctx))
        if c is not None:
            if not _broadcasts(c.shape, shape):
                raise shape_error(f"C does not broadcast to the result's {list(shape)}.", where, [c.shape])
            total += c
        scale = columns(ctx, "scale", matrix, b_scale) * (alpha * single(ctx, 1, a_scale))
        if y_scale is not None:
            scale = scale / single(ctx, 7, y_scale)
        y = total.astype(xp.float32)
        xp.multiply(y, scale, out=y)
        return y if y_zero is None else quantized(xp, y, single(ctx, 8, y_zero), y_zero.dtype)

    return run


def _broadcasts(own: Any, to: tuple[int, ...]) -> bool:
    """Return whether a shape can be stretched to another (ONNX unidirectional broadcasting)."""
    rank = len(own)
    return rank <= len(to) and all(size in (1, dim) for size, dim in zip(own, to[len(to) - rank :], strict=True))


def qlinear_conv(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.QLinearConv 1: as ONNX's QLinearConv 10, also with channels last.

    With ``channels_last`` input and output are ``(n, *size, c)``; the weights stay ``(m, c / group, *kernel)``. The
    result has the type of y_zero_point.
    """
    convolve = quantized_convolution.qlinear_conv(ctx)
    if not ctx.node.attributes.get("channels_last", 0):
        return convolve

    def run(x: Array, *others: Array | None) -> Array:
        return last(ctx, convolve(first(ctx, x), *others))

    return run


def first(ctx: KernelContext, x: Array) -> Array:
    """``(n, *size, c)`` → ``(n, c, *size)``, C-contiguous. One transposition of matrices, which is all that it is.

    Raises:
        InvalidArgument: Less than three axes.
    """
    if x.ndim < 3:
        raise InvalidArgument(
            f"The input has shape {list(x.shape)}; it needs batch, spatial and channel axes.",
            where=ctx.node.location,
            fix="With channels_last feed a tensor of rank 3 or more, channels in the last axis.",
        )
    xp = ctx.xp
    y = xp.swapaxes(x.reshape(x.shape[0], prod(x.shape[1:-1]), x.shape[-1]), 1, 2)
    return xp.ascontiguousarray(y).reshape(x.shape[0], x.shape[-1], *x.shape[1:-1])


def last(ctx: KernelContext, x: Array) -> Array:
    """``(n, c, *size)`` → ``(n, *size, c)``, C-contiguous."""
    xp = ctx.xp
    y = xp.swapaxes(x.reshape(*x.shape[:2], prod(x.shape[2:])), 1, 2)
    return xp.ascontiguousarray(y).reshape(x.shape[0], *x.shape[2:], x.shape[1])


KERNELS = [
    KernelDef(
        name,
        factory,
        domain="com.microsoft",
        since=1,
        implementation=f"ort_py_array.contrib.quantized_products:{factory.__name__}",
    )
    for name, factory in (
        ("DynamicQuantizeMatMul", dynamic_quantize_matmul),
        ("MatMulIntegerToFloat", matmul_integer_to_float),
        ("QGemm", qgemm),
        ("QLinearConv", qlinear_conv),
    )
]
