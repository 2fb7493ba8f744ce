"""8-bit operators that are a table of 256 results: QLinearSigmoid, QLinearLeakyRelu, QLinearWhere, QLinearConcat.

The table is made once where the scales are known when the node is bound. QLinearSoftmax, whose exponentials are a
table of differences, is in `quantized_softmax`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.broadcasting import broadcast_shape
from ort_py_array.checks import LARGE, normalized_axis, shape_error
from ort_py_array.contrib.quantized_parameters import constants, single, zero_or
from ort_py_array.saturation import quantized

__all__ = ["KERNELS", "qlinear_concat", "qlinear_leaky_relu", "qlinear_sigmoid", "qlinear_where"]

_BLOCK = 32768
"""Elements looked up at once: NumPy widens the indices to 64 bits, and those should stay in the cache."""


def _table(xp: Any, function: Callable[[Array], Array], parameters: Sequence[Array]) -> Array:
    """``quantize(f(dequantize(x)))`` for the 256 values of `x`, in the order of their bits.

    Args:
        xp: Array module.
        function: float32 to float32.
        parameters: Scale and zero point of the input, then of the output, each of shape ``()``.
    """
    x_scale, x_zero, y_scale, y_zero = parameters
    codes = xp.arange(256, dtype=xp.uint8).view(x_zero.dtype)
    real = (codes.astype(xp.float32) - x_zero.astype(xp.float32)) * x_scale
    return quantized(xp, function(real) / y_scale, y_zero, y_zero.dtype)


def _looked_up(ctx: KernelContext, table: Array, x: Array, out: Array) -> None:
    """Write ``table[x]`` to `out`, C-contiguous arrays of one shape."""
    xp = ctx.xp
    codes, results = x.reshape(-1).view(xp.uint8), out.reshape(-1)
    if codes.size <= _BLOCK or ctx.device != HOST:
        results[...] = xp.take(table, codes)
        return

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            chosen = slice(first, min(first + _BLOCK, stop))
            results[chosen] = xp.take(table, codes[chosen])

    ctx.parallel_for(codes.size, _BLOCK, part)


def _parameters(ctx: KernelContext, indices: Sequence[int], given: Sequence[Array | None], dtype: Any) -> list[Array]:
    """Scale and zero point of the input and of the output, from inputs ``indices`` of the node."""
    found = []
    for place, (index, value) in enumerate(zip(indices, given, strict=True)):
        if place % 2:
            found.append(zero_or(ctx, index, value, dtype))
        else:
            assert value is not None  # the engine checks that required inputs are there
            found.append(single(ctx, index, value))
    zeros = [zero.dtype for zero in found[1::2]]
    if any(zero != dtype for zero in zeros):
        raise InvalidArgument(
            f"Zero points of types {', '.join(zero.name for zero in zeros)} meet values of type {dtype.name}.",
            where=ctx.node.location,
            fix="Quantise all inputs and the output to the same 8-bit type.",
        )
    return found


def _unary(function: Callable[[Any, Array], Array], ctx: KernelContext) -> KernelCallable:
    """Inputs X, X_scale, X_zero_point, Y_scale, Y_zero_point."""
    xp = ctx.xp
    of_node = partial(function, xp, **ctx.node.attributes)
    indices = (1, 2, 3, 4)
    known = constants(ctx, indices)
    tables: dict[Any, Array] = {}
    if known is not None:
        for dtype in (xp.dtype(xp.uint8), xp.dtype(xp.int8)):  # absent zero points do not say which
            if all(zero is None or zero.dtype == dtype for zero in known[1::2]):
                tables[dtype] = _table(xp, of_node, _parameters(ctx, indices, known, dtype))

    def run(x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None) -> Array:
        table = tables.get(x.dtype)
        if table is None:
            table = _table(xp, of_node, _parameters(ctx, indices, (x_scale, x_zero, y_scale, y_zero), x.dtype))
        out = xp.empty(x.shape, x.dtype)
        _looked_up(ctx, table, x, out)
        return out

    return run


def _sigmoid(xp: Any, x: Array) -> Array:
    # In float64, so that the 256 results are rounded once; exp of at most 709 does not overflow there.
    return (1 / (1 + xp.exp(xp.minimum(-x.astype(xp.float64), 709)))).astype(xp.float32)


def _leaky_relu(xp: Any, x: Array, *, alpha: float = 0.01) -> Array:
    return xp.where(x < 0, x * xp.float32(alpha), x)


qlinear_sigmoid = partial(_unary, _sigmoid)
"""com.microsoft.QLinearSigmoid 1, int8 and uint8: ``quantize(1 / (1 + exp(-dequantize(X))))``.

Inputs X, X_scale, X_zero_point, Y_scale, Y_zero_point, the last four of one element. Raises InvalidArgument where they
are not, or where a zero point has another type than X."""

qlinear_leaky_relu = partial(_unary, _leaky_relu)
"""com.microsoft.QLinearLeakyRelu 1, as `qlinear_sigmoid`, with attribute alpha."""


def _same(x: Array) -> Array:
    return x


class _Rescaling:
    """Tables from the quantisation of some inputs to that of the output; None where both are the same."""

    def __init__(self, ctx: KernelContext, indices: Sequence[int]) -> None:
        self._ctx = ctx
        self._indices = indices
        self._known = False
        self._table: Array | None = None
        found = constants(ctx, indices)
        if found is not None and found[1] is not None:
            self._table = self._made(found, found[1].dtype)
            codes = ctx.xp.arange(256, dtype=ctx.xp.uint8).view(self._table.dtype)
            if ctx.xp.all(ctx.xp.equal(self._table, codes)).item():
                self._table = None
            self._known = True

    def _made(self, given: Sequence[Array | None], dtype: Any) -> Array:
        return _table(self._ctx.xp, _same, _parameters(self._ctx, self._indices, given, dtype))

    def __call__(self, x: Array, given: Sequence[Array | None]) -> Array:
        """`x` in the output's quantisation: `x` itself, or a new array."""
        table = self._table if self._known else self._made(given, x.dtype)
        if table is None:
            return x
        out = self._ctx.xp.empty(x.shape, x.dtype)
        _looked_up(self._ctx, table, x, out)
        return out


def qlinear_where(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.QLinearWhere 1: X or Y, both brought to the quantisation of Z; int8 and uint8.

    Inputs condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point. Raises InvalidArgument
    where a scale or zero point does not have exactly one element, or zero points differ in type.
    """
    xp = ctx.xp
    from_x, from_y = _Rescaling(ctx, (2, 3, 7, 8)), _Rescaling(ctx, (5, 6, 7, 8))

    def run(
        condition: Array,
        x: Array,
        x_scale: Array,
        x_zero: Array,
        y: Array,
        y_scale: Array,
        y_zero: Array,
        z_scale: Array,
        z_zero: Array,
    ) -> Array:
        left = from_x(x, (x_scale, x_zero, z_scale, z_zero))
        right = from_y(y, (y_scale, y_zero, z_scale, z_zero))
        return xp.where(condition, left, right)

    return run


def _where_shape(condition: Array, x: Array, _x_scale: Array, _x_zero: Array, y: Array, *_others: Array) -> Any:
    return broadcast_shape(condition, x, y)


def qlinear_concat(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.QLinearConcat 1: tensors in a row along `axis`, each brought to the quantisation of Y.

    Inputs Y_scale, Y_zero_point, then for each tensor itself, its scale and its zero point. Raises InvalidArgument
    where inputs do not come in threes, shapes differ elsewhere than along the axis, or types differ.
    """
    xp = ctx.xp
    where = ctx.node.location
    count = len(ctx.node.inputs) - 2
    if count < 3 or count % 3:
        raise InvalidArgument(
            f"QLinearConcat has {count} inputs after the output's scale and zero point.",
            where=where,
            fix="Give each tensor with its scale and its zero point, that is three inputs each.",
        )
    rescalings = [_Rescaling(ctx, (2 + i + 1, 2 + i + 2, 0, 1)) for i in range(0, count, 3)]

    def run(y_scale: Array, y_zero: Array, *inputs: Array) -> Array:
        tensors = inputs[::3]
        first = tensors[0]
        axis = normalized_axis(ctx.node.attributes["axis"], first.ndim, where)
        shape = list(first.shape)
        shape[axis] = 0
        for tensor in tensors:
            rest = list(tensor.shape)
            if len(rest) == len(shape):
                size, rest[axis] = rest[axis], shape[axis]
            if rest != shape:
                raise shape_error(f"Cannot concatenate along axis {axis}.", where, [one.shape for one in tensors])
            shape[axis] += size
        size = first.size if len(tensors) == 1 else sum(tensor.size for tensor in tensors)
        if size > LARGE:
            ctx.check_allocation(shape, first.dtype)
        parts = [
            rescale(tensor, (inputs[3 * i + 1], inputs[3 * i + 2], y_scale, y_zero))
            for i, (rescale, tensor) in enumerate(zip(rescalings, tensors, strict=True))
        ]
        return xp.concatenate(parts, axis)

    return run


KERNELS = [
    KernelDef(
        name,
        factory,
        domain="com.microsoft",
        since=1,
        output_shape=shape,
        implementation=f"ort_py_array.contrib.quantized_lookup:{function}",
    )
    for name, factory, function, shape in (
        ("QLinearSigmoid", qlinear_sigmoid, "qlinear_sigmoid", None),
        ("QLinearLeakyRelu", qlinear_leaky_relu, "qlinear_leaky_relu", None),
        ("QLinearWhere", qlinear_where, "qlinear_where", _where_shape),
        ("QLinearConcat", qlinear_concat, "qlinear_concat", None),
    )
]
