"""Add, Sub, Mul, Div, Mod, Pow, Neg, Abs, BitShift, and the variadic Sum, Mean, Min, Max.

Bare ufuncs wherever ONNX means what NumPy does. Where not: integer division truncates toward zero, Pow keeps the type
of its base, and sums of more than two narrow floats are rounded once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import (
    ALL_FLOATS,
    ALL_INTEGERS,
    KernelCallable,
    KernelContext,
    KernelDef,
    KernelFactory,
    tensors,
)
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.broadcasting import aligned, broadcast_shape
from ort_py_array.checks import constant_input, shape_error
from ort_py_array.precision import is_narrow
from ort_py_array.ufuncs import extremum, legacy_ufunc, ufunc

_FLOATS = {"T": ALL_FLOATS}
_INTEGERS = {"T": ALL_INTEGERS}
_WIDE = tensors(DataType.FLOAT, DataType.DOUBLE)
_BINARY: dict[str, Any] = {"strided": True, "out": True, "output_shape": broadcast_shape}
_INPLACE = ((0, 0), (1, 0))


def _refuse_zero(ctx: KernelContext, divisor: Array) -> None:
    # One deliberate wait on a device: integer arithmetic has no infinity to carry the mistake on.
    if ctx.xp.any(divisor == 0).item():
        raise InvalidArgument(
            "Integer division by zero.",
            where=ctx.node.location,
            why=f"the divisor, of shape {tuple(divisor.shape)}, has an element that is 0",
            fix="Check what was fed, or divide floating-point numbers, which have an infinity.",
        )


def _divisor_is_safe(ctx: KernelContext) -> bool:
    known = constant_input(ctx, 1)
    return known is not None and bool((known != 0).all())


def div_integer(ctx: KernelContext) -> KernelCallable:
    """Div-7..14 of integers: the quotient rounded toward zero, as in C; a zero divisor raises InvalidArgument."""
    xp = ctx.xp
    safe = _divisor_is_safe(ctx)

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        if not safe:
            _refuse_zero(ctx, b)
        # fmod has the dividend's sign, so what is left divides exactly and floor is truncation.
        return xp.floor_divide(xp.subtract(a, xp.fmod(a, b)), b, out)

    return run


def mod(ctx: KernelContext) -> KernelCallable:
    """Mod-10..28: with `fmod` 0 the sign of the divisor (floor), with 1 that of the dividend (truncation).

    Opset 28 gave floats to ``fmod=0`` and described integers under ``fmod=1``; both were computed this way before.
    """
    function = ctx.xp.fmod if ctx.node.attributes.get("fmod", 0) else ctx.xp.remainder
    bound = ctx.node.type_bindings.get("T", "")
    if bound in ALL_FLOATS or (bound in ALL_INTEGERS and _divisor_is_safe(ctx)):
        return function  # type: ignore[no-any-return]  # an attribute of the array module

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        if b.dtype.kind in "iu":
            _refuse_zero(ctx, b)
        return function(a, b, out)

    return run


# Not 0.5: sqrt(-inf) is NaN where pow(-inf, 0.5) is inf.
_KNOWN_POWERS = {2.0: "square", -1.0: "reciprocal", 1.0: "positive"}


def power(ctx: KernelContext) -> KernelCallable:
    """Pow-7..15: the result has the base's type; a float exponent of an integer base is computed in float64.

    A constant scalar exponent of a float base that has a ufunc of its own (2, -1, 1) becomes that ufunc.
    """
    xp = ctx.xp
    exponent = constant_input(ctx, 1)
    if exponent is not None and exponent.ndim == 0 and ctx.node.type_bindings.get("T") in ALL_FLOATS:
        name = _KNOWN_POWERS.get(float(exponent))
        if name is not None:
            special = getattr(xp, name)

            def run_special(x: Array, _y: Array, out: Array | None = None) -> Array:
                return special(x, out)

            return run_special

    def run(x: Array, y: Array, out: Array | None = None) -> Array:
        if x.dtype == y.dtype and x.dtype.kind not in "iu":
            return xp.power(x, y, out)
        result = _mixed_power(xp, x, y)
        if out is None:
            return result
        out[...] = result
        return out

    return run


def _mixed_power(xp: Any, x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return xp.power(x, y.astype(x.dtype))
    if y.dtype.kind not in "iu":
        return xp.power(x.astype(xp.float64), y.astype(xp.float64)).astype(x.dtype)
    wide = xp.power(x, xp.where(y > 0, y, 0).astype(x.dtype))
    if y.dtype.kind == "u":
        return wide
    # x to a negative power is 1/x**|y| cut to an integer: 1 for 1, alternating for -1, 0 for all others.
    alternating = xp.where(xp.bitwise_and(y, 1) == 0, 1, -1)
    inverse = xp.where(x == 1, 1, xp.where(x == -1, alternating, 0)).astype(x.dtype)
    return xp.where(y < 0, inverse, wide)


def bit_shift(ctx: KernelContext) -> KernelCallable:
    """BitShift-11..28: `direction` is LEFT or RIGHT; right shifts of signed types keep the sign (opset 28)."""
    direction = ctx.node.attributes.get("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise InvalidArgument(
            f"Attribute direction is {direction!r}.", where=ctx.node.location, fix="It must be 'LEFT' or 'RIGHT'."
        )
    function: KernelCallable = ctx.xp.left_shift if direction == "LEFT" else ctx.xp.right_shift
    return function


def _copy(ctx: KernelContext) -> KernelCallable:
    def run(x: Array, out: Array | None = None) -> Array:
        if out is None:
            return ctx.xp.array(x)
        out[...] = x
        return out

    return run


def _variadic(name: str, ctx: KernelContext) -> KernelCallable:
    count = len(ctx.node.inputs)
    if count == 1:
        return _copy(ctx)
    function = getattr(ctx.xp, name)
    if name in ("minimum", "maximum"):
        function = extremum(function)
    if count == 2:
        return function  # type: ignore[no-any-return]  # an attribute of the array module

    def run(*arrays: Array) -> Array:
        out = arrays[count] if len(arrays) > count else None
        result = function(arrays[0], arrays[1], out)
        for array in arrays[2:count]:
            result = function(result, array, out)
        return result

    return run


def min_max(name: str, ctx: KernelContext) -> KernelCallable:
    """Min-6..13 and Max-6..13 of any number of inputs; a NaN in one of them is the result."""
    function = _variadic(name, ctx)
    if len(ctx.node.inputs) != 2 or ctx.node.type_bindings.get("T") not in _WIDE:
        return function
    for place in (0, 1):
        known = constant_input(ctx, place)
        if known is not None and known.size == 1 and not np.isnan(known).any():
            return _bounded(ctx, name, function, known, 1 - place)
    return function


_LARGE = 2048
"""Elements from which on `clip` is faster than `maximum` and `minimum` of an array and a number: see `activation`."""


def _bounded(ctx: KernelContext, name: str, function: KernelCallable, known: Array, place: int) -> KernelCallable:
    """Min or Max of input `place` and one number."""
    xp, axes = ctx.xp, known.ndim
    number = xp.asarray(known.reshape(()))
    infinite = xp.full((), xp.inf if name == "maximum" else -xp.inf, known.dtype)
    low, high = (number, infinite) if name == "maximum" else (infinite, number)

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        x = b if place else a
        if x.size < _LARGE or x.ndim < axes:
            return function(a, b, out)
        return xp.clip(x, low, high, out=out)

    return run


def sum_variadic(ctx: KernelContext) -> KernelCallable:
    """Sum-6..13 of any number of inputs; more than two narrow floats are added in float32."""
    if len(ctx.node.inputs) <= 2 or ctx.node.type_bindings.get("T") in _WIDE:
        return _variadic("add", ctx)
    return _accumulated(ctx, mean=False)


def mean_variadic(ctx: KernelContext) -> KernelCallable:
    """Mean-6..13: the sum divided by the number of inputs; narrow floats are averaged in float32."""
    return _accumulated(ctx, mean=True)


def _accumulated(ctx: KernelContext, *, mean: bool) -> KernelCallable:
    xp, count = ctx.xp, len(ctx.node.inputs)

    def run(*arrays: Array) -> Array:
        out = arrays[count] if len(arrays) > count else None
        dtype = arrays[0].dtype
        narrow = is_narrow(dtype)
        inputs = [array.astype(xp.float32) if narrow else array for array in arrays[:count]]
        target = None if narrow else out
        total = xp.add(inputs[0], inputs[1], target) if count > 1 else inputs[0]
        for array in inputs[2:]:
            total = xp.add(total, array, target)
        if mean:
            total = xp.divide(total, count, target)
        if not narrow:
            return total
        if out is None:
            return total.astype(dtype)
        out[...] = total
        return out

    return run


def _of_one_shape(factory: KernelFactory, ctx: KernelContext) -> KernelCallable:
    """A kernel of Min, Max, Sum or Mean before opset 8, where nothing broadcasts.

    Raises:
        InvalidArgument: Two inputs have different shapes.
    """
    kernel, count, where = factory(ctx), len(ctx.node.inputs), ctx.node.location

    def run(*arrays: Array) -> Any:
        shapes = [array.shape for array in arrays[:count]]
        if any(shape != shapes[0] for shape in shapes):
            raise shape_error(f"{ctx.node.op_type} before opset 8 takes inputs of one shape.", where, shapes)
        return kernel(*arrays)

    return run


def _legacy_div_integer(ctx: KernelContext) -> KernelCallable:
    attributes, where, divide = ctx.node.attributes, ctx.node.location, div_integer(ctx)

    def run(a: Array, b: Array) -> Array:
        return divide(a, aligned(a, b, attributes.get("axis"), attributes.get("broadcast", 0), where))

    return run


def _variadic_defs() -> list[KernelDef]:
    shared: dict[str, Any] = {"out": True, "strided": True, "inplace": _INPLACE, "output_shape": broadcast_shape}
    factories: list[tuple[str, KernelFactory, str]] = [
        ("Min", partial(min_max, "minimum"), "ufunc:minimum"),
        ("Max", partial(min_max, "maximum"), "ufunc:maximum"),
        ("Sum", sum_variadic, f"{__name__}:sum_variadic"),
        ("Mean", mean_variadic, f"{__name__}:mean_variadic"),
    ]
    return [
        KernelDef(name, made, since=since, until=until, implementation=implementation, **shared)
        for name, factory, implementation in factories
        for since, until, made in ((1, 6, partial(_of_one_shape, factory)), (8, 13, factory))
    ]


KERNELS: list[KernelDef] = [
    ufunc("Add", "add", since=7, until=14, inputs=2),
    ufunc("Sub", "subtract", since=7, until=14, inputs=2),
    ufunc("Mul", "multiply", since=7, until=14, inputs=2),
    ufunc("Div", "divide", since=7, until=14, inputs=2, types=_FLOATS),
    KernelDef(
        "Div",
        div_integer,
        since=7,
        until=14,
        types=_INTEGERS,
        inplace=((0, 0),),  # the divisor is read after the result has been begun
        implementation=f"{__name__}:div_integer",
        **_BINARY,
    ),
    legacy_ufunc("Add", "add", until=6),
    legacy_ufunc("Sub", "subtract", until=6),
    legacy_ufunc("Mul", "multiply", until=6),
    legacy_ufunc("Div", "divide", until=6, types=_FLOATS),
    KernelDef(
        "Div",
        _legacy_div_integer,
        since=1,
        until=6,
        types=_INTEGERS,
        strided=True,
        implementation=f"{__name__}:div_integer",
    ),
    KernelDef("Mod", mod, since=10, until=28, inplace=_INPLACE, implementation=f"{__name__}:mod", **_BINARY),
    KernelDef("Pow", power, since=7, until=15, inplace=((0, 0),), implementation=f"{__name__}:power", **_BINARY),
    legacy_ufunc("Pow", "power", until=1),
    KernelDef(
        "BitShift", bit_shift, since=11, until=28, inplace=_INPLACE, implementation=f"{__name__}:bit_shift", **_BINARY
    ),
    ufunc("Neg", "negative", since=1, until=13, inputs=1),
    ufunc("Abs", "absolute", since=1, until=13, inputs=1),
    *_variadic_defs(),
]
