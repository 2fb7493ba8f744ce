"""Roots, exponentials, logarithms, rounding, signs, circular and hyperbolic functions, and Erf.

One ufunc each but Erf, whose formula is in `error_function`. Float16 ufuncs of NumPy compute in float32 themselves.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_FLOATS, ALL_INTEGERS, KernelDef
from ort_py_array.error_function import erf_into
from ort_py_array.pointwise import pointwise
from ort_py_array.ufuncs import ufunc


@pointwise("Erf", since=9, until=13, types={"T": ALL_FLOATS})
def erf(xp: Any, x: Array, out: Array) -> None:
    """Erf-9..13 of floats."""
    erf_into(xp, x, out)


@pointwise("Erf", since=9, types={"T": ALL_INTEGERS})
def erf_of_integers(xp: Any, x: Array, out: Array) -> None:
    """Erf-9 of integers, computed as `onnx.reference` does: in float32, where erf of 4 is 1, and cut off."""
    ones = xp.greater_equal(x, 4).astype(x.dtype)
    if x.dtype.kind == "i":
        ones -= xp.less_equal(x, -4).astype(x.dtype)
    out[...] = ones


_FUNCTIONS = (
    ("Sqrt", "sqrt", 1, 13),
    ("Exp", "exp", 1, 13),
    ("Log", "log", 1, 13),
    ("Reciprocal", "reciprocal", 1, 13),
    ("Floor", "floor", 1, 13),
    ("Ceil", "ceil", 1, 13),
    ("Round", "rint", 11, 22),
    ("Sign", "sign", 9, 13),
    ("Tanh", "tanh", 1, 13),
    ("Sin", "sin", 7, 22),
    ("Cos", "cos", 7, 22),
    ("Tan", "tan", 7, 22),
    ("Asin", "arcsin", 7, 22),
    ("Acos", "arccos", 7, 22),
    ("Atan", "arctan", 7, 22),
    ("Sinh", "sinh", 9, 22),
    ("Cosh", "cosh", 9, 22),
    ("Asinh", "arcsinh", 9, 22),
    ("Acosh", "arccosh", 9, 22),
    ("Atanh", "arctanh", 9, 22),
)

KERNELS: list[KernelDef] = [
    ufunc(op_type, name, since=since, until=until, inputs=1) for op_type, name, since, until in _FUNCTIONS
]
