"""Cast, CastLike and BitCast between all ONNX element types.

NumPy's conversion does most of it. Written out are ONNX's saturation of the float8 types, the rounding of float8e8m0
(an exponent and nothing else), and strings, which exist on the host alone.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelForms, kernel
from ort_py.devices import HOST
from ort_py.dtypes import DataType, data_type_of, numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.half_floats import to_half, widen
from ort_py_array.precision import rounded

# Greatest finite value of each type that saturates.
_LARGEST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
_NARROW_INTEGERS = frozenset(("int4", "uint4", "int2", "uint2"))
_PLAIN = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
)
"""Types among which the array module's own conversion is ONNX's. Names, because kinds of ml_dtypes' types mislead."""

_LARGE = 4096
"""Elements from which on `to_half` and `widen` are faster than NumPy's conversions."""


def _to_string(x: Array) -> Array:
    if x.dtype.kind == "O":
        return x.copy()
    if x.dtype.kind == "b":
        return x.astype("uint8").astype("U").astype(object)
    if x.dtype.name in _NARROW_INTEGERS:
        return x.astype("int8").astype("U").astype(object)
    text = x.astype("U") if x.dtype.name in _PLAIN else x.astype("float32").astype("U")
    # The special values are spelt as ONNX reads them back.
    for ours, theirs in (("inf", "INF"), ("-inf", "-INF"), ("nan", "NaN")):
        text = text.astype("U32") if text.dtype.itemsize < 16 else text
        text[text == ours] = theirs
    return text.astype(object)


def _from_string(ctx: KernelContext, x: Array, dtype: Any) -> Array:
    try:
        if dtype.kind in "iu":
            try:
                return x.astype(dtype)
            except (ValueError, OverflowError):
                return x.astype("float64").astype(dtype)
        if dtype.kind == "b":
            return x.astype("float64") != 0
        return x.astype(dtype) if dtype.name in _PLAIN else x.astype("float32").astype(dtype)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"Cast cannot read a string as {dtype.name}.",
            where=ctx.node.location,
            why=str(error),
            fix="Plain and scientific numbers, INF, -INF and NaN are read.",
        ) from error


def _to_e8m0(xp: Any, x: Array, dtype: Any, saturate: bool, round_mode: str) -> Array:
    """The power of two that `round_mode` picks, as a biased exponent; 255 is NaN."""
    bits = x.astype(xp.float32).view(xp.uint32)
    exponent = xp.bitwise_and(xp.right_shift(bits, 23), 0xFF).astype(xp.int32)
    fraction = xp.bitwise_and(bits, 0x7FFFFF)
    if round_mode == "up":
        more = fraction > 0
    elif round_mode == "nearest":
        # A tie goes up, except from the smallest exponent, whose float32 values are subnormal.
        tie_up = xp.where(exponent > 0, fraction >= 0x400000, fraction > 0x400000)
        more = tie_up
    else:
        more = fraction > 0xFFFFFF  # never: down cuts the fraction off
    finite = exponent < 0xFF
    raised = xp.where(xp.logical_and(more, finite), exponent + 1, exponent)
    if saturate:
        raised = xp.where(finite, xp.minimum(raised, 0xFE), raised)
    return raised.astype(xp.uint8).view(dtype)


def _converted(ctx: KernelContext, x: Array, dtype: Any, saturate: bool, round_mode: str) -> Array:
    xp = ctx.xp
    if dtype.kind == "O":
        return _to_string(x)
    if x.dtype.kind == "O":
        return _from_string(ctx, x, dtype)
    if x.dtype.name not in _PLAIN and dtype != x.dtype:
        x = x.astype(xp.float32)  # exact for all of ml_dtypes' types, which do not convert among each other directly
        if dtype == xp.float32:
            return x
    if dtype.name == "float8_e8m0fnu":
        return _to_e8m0(xp, x, dtype, saturate, round_mode)
    if dtype.name in _NARROW_INTEGERS and x.dtype.kind == "f":
        return xp.trunc(x).astype(xp.int32).astype(dtype)
    if saturate and dtype.name in _LARGEST:
        limit = _LARGEST[dtype.name]
        wide = x.astype(xp.float32)
        return xp.minimum(xp.maximum(wide, -limit), limit).astype(dtype)
    return x.astype(dtype)


def _caster(ctx: KernelContext, dtype: Any) -> KernelCallable:
    """Both forms, of the one input of Cast."""
    saturate = bool(ctx.node.attributes.get("saturate", 1))
    round_mode = ctx.node.attributes.get("round_mode", "up")
    source = ctx.node.inputs[0].data_type if ctx.node.inputs and ctx.node.inputs[0] is not None else None
    if dtype.name == "float16" and source is DataType.FLOAT and ctx.device == HOST:
        xp = ctx.xp

        def halve(x: Array, out: Array | None = None) -> Array:
            if x.size >= _LARGE and x.flags.c_contiguous:
                return to_half(xp, x, out)
            return rounded(x, dtype, out)

        return halve
    if dtype.name == "float32" and source is DataType.FLOAT16 and ctx.device == HOST:
        xp = ctx.xp

        def wide(x: Array, out: Array | None = None) -> Array:
            if x.size >= _LARGE and x.flags.c_contiguous and (out is None or out.flags.c_contiguous):
                return widen(xp, x, out)
            return rounded(x, dtype, out)

        return wide
    if dtype.name in _PLAIN and source is not None and numpy_dtype(source).name in _PLAIN:

        def into(x: Array, out: Array) -> Array:
            out[...] = x
            return out

        return KernelForms(1, lambda x: x.astype(dtype), into)

    def run(x: Array, out: Array | None = None) -> Array:
        return rounded(_converted(ctx, x, dtype, saturate, round_mode), dtype, out)

    return run


def cast(ctx: KernelContext) -> KernelCallable:
    """Cast-6..28 to the element type `to`; `saturate` (from 19) and `round_mode` (from 24) are for float8 types.

    Raises:
        InvalidArgument: A string is not a number.
    """
    to = ctx.node.attributes["to"]
    if isinstance(to, str):  # version 1 names the type
        to = DataType[to.upper()]
    return _caster(ctx, numpy_dtype(to))


def cast_like(ctx: KernelContext) -> KernelCallable:
    """CastLike-15..25: to the element type of the second input, whose values do not matter."""
    like = ctx.node.inputs[1]
    if like is not None and like.data_type is not None:
        known = _caster(ctx, numpy_dtype(like.data_type))
        return lambda x, _target: known(x)
    saturate = bool(ctx.node.attributes.get("saturate", 1))
    round_mode = ctx.node.attributes.get("round_mode", "up")
    return lambda x, target: _converted(ctx, x, target.dtype, saturate, round_mode)


@kernel("BitCast", since=26)
def bit_cast(ctx: KernelContext, x: Array, *, to: int) -> Array:
    """BitCast-26: the same bits as another element type of the same width.

    Raises:
        InvalidArgument: The widths differ, or a type is string.
    """
    dtype = numpy_dtype(to)
    # Types of less than a byte take a byte each here, so itemsize does not tell the widths.
    if "O" in (dtype.kind, x.dtype.kind) or DataType(to).bits != data_type_of(x.dtype).bits:
        raise InvalidArgument(
            f"BitCast from {x.dtype.name} to {dtype.name}.",
            where=ctx.node.location,
            why="the element types have different widths, or one is string",
            fix="Choose for 'to' a type of as many bits as the input's; Cast converts values between others.",
        )
    return ctx.xp.array(x).view(dtype)


KERNELS: list[KernelDef] = [
    KernelDef("Cast", cast, since=1, until=28, out=True, strided=True, implementation=f"{__name__}:cast"),
    KernelDef("CastLike", cast_like, since=15, until=25, strided=True, implementation=f"{__name__}:cast_like"),
]
