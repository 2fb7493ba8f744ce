"""In which element type sums are formed: narrow floats are widened to float32 and rounded once at the end.

Used by every family that multiplies and adds (matmul, convolution, pooling, normalisation, recurrence, resize). It
refers to dtypes by name, because bfloat16 is not a type of NumPy itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.dtypes import DataType
from ort_py_array.half_floats import from_half, to_half, widen

__all__ = ["is_narrow", "mean_along", "rounded", "wide_constant", "widened"]

_NARROW = frozenset(("float16", "bfloat16"))

_LARGE = 16384
"""Elements from which on the host converts float16 faster in integer arithmetic than by NumPy's conversions."""


def is_narrow(dtype: Any) -> bool:
    """Return whether sums of this dtype are formed in float32 instead."""
    return dtype.itemsize == 2 and dtype.name in _NARROW


def mean_along(xp: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """Mean of float32 or float64 along axes, which stay with size 1; NaN where there is nothing, without a warning."""
    return xp.mean(x, axis=axes, keepdims=True) if x.size else xp.sum(x, axis=axes, keepdims=True) * xp.nan


def widened(xp: Any, x: Array) -> Array:
    """`x` itself, or as float32 where its type is too narrow to add up in."""
    # The size first: a dtype makes its name again each time it is asked, which takes longer than small kernels do.
    if x.itemsize != 2 or x.dtype.name not in _NARROW:
        return x
    if x.size >= _LARGE and x.dtype == xp.float16 and getattr(x, "device", None) == "cpu":
        return widen(xp, x) if x.flags.c_contiguous else from_half(xp, x)
    return x.astype(xp.float32)


def wide_constant(ctx: KernelContext, index: int) -> Array | None:
    """Input `index` as `widened` gives it, made once, where it is constant and of a narrow type; else None.

    Weights are the larger part of what a product of few rows reads: widening them on each call would take longer than
    the product. Ask in a factory; where it returns an array, the input itself is not to be read.
    """
    inputs = ctx.node.inputs
    value = inputs[index] if index < len(inputs) else None
    if value is None or value.data_type not in (DataType.FLOAT16, DataType.BFLOAT16):
        return None
    return ctx.packed((index,), "widened", partial(widened, ctx.xp))


def rounded(y: Array, dtype: Any, out: Array | None = None) -> Array:
    """`y` itself, or rounded to the operator's output type.

    Args:
        y: Result in the type it was computed in.
        dtype: The operator's output type.
        out: Array of that type and of the shape of `y` to write to and return; it may be `y`, which then stays.
    """
    if out is None:
        return y if y.dtype == dtype else _narrowed(y, dtype)
    if y is not out:
        if y.dtype == dtype:
            out[...] = y
        else:
            _narrowed(y, dtype, out)
    return out


def _narrowed(y: Array, dtype: Any, out: Array | None = None) -> Array:
    if y.size >= _LARGE and dtype.name == "float16" and y.dtype.name == "float32" and y.flags.c_contiguous:
        contiguous = out is None or (out.flags.c_contiguous and out.shape == y.shape)
        if contiguous and getattr(y, "device", None) == "cpu":
            return to_half(y.__array_namespace__(), y, out)
    if out is None:
        narrow: Array = y.astype(dtype)
        return narrow
    out[...] = y
    return out
