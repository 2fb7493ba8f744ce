"""Equal, Less, Greater and their or-equal forms, And, Or, Xor, Not, the bitwise operators, IsNaN and IsInf.

All bare ufuncs but IsInf, whose attributes choose the signs it looks for. Equal works on strings (object arrays).
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.ufuncs import legacy_ufunc, ufunc


def is_inf(ctx: KernelContext) -> KernelCallable:
    """IsInf-10..20: infinities of the signs that `detect_negative` and `detect_positive` ask for, as bool."""
    xp = ctx.xp
    negative = bool(ctx.node.attributes.get("detect_negative", 1))
    positive = bool(ctx.node.attributes.get("detect_positive", 1))
    if negative and positive:
        function: KernelCallable = xp.isinf
        return function
    if not negative and not positive:

        def nowhere(x: Array, out: Array | None = None) -> Array:
            if out is None:
                return xp.zeros(x.shape, bool)
            out[...] = False
            return out

        return nowhere
    signed = xp.less if negative else xp.greater

    def one_sign(x: Array, out: Array | None = None) -> Array:
        return xp.logical_and(xp.isinf(x), signed(x, xp.zeros((), x.dtype)), out)

    return one_sign


KERNELS: list[KernelDef] = [
    ufunc("Equal", "equal", since=7, until=19, inputs=2, inplace=False),
    ufunc("Less", "less", since=7, until=13, inputs=2, inplace=False),
    ufunc("Greater", "greater", since=7, until=13, inputs=2, inplace=False),
    ufunc("LessOrEqual", "less_equal", since=12, until=16, inputs=2, inplace=False),
    ufunc("GreaterOrEqual", "greater_equal", since=12, until=16, inputs=2, inplace=False),
    ufunc("And", "logical_and", since=7, inputs=2),
    ufunc("Or", "logical_or", since=7, inputs=2),
    ufunc("Xor", "logical_xor", since=7, inputs=2),
    ufunc("Not", "logical_not", since=1, inputs=1),
    ufunc("BitwiseAnd", "bitwise_and", since=18, inputs=2),
    ufunc("BitwiseOr", "bitwise_or", since=18, inputs=2),
    ufunc("BitwiseXor", "bitwise_xor", since=18, inputs=2),
    ufunc("BitwiseNot", "invert", since=18, inputs=1),
    legacy_ufunc("Equal", "equal", until=1),
    legacy_ufunc("Less", "less", until=1),
    legacy_ufunc("Greater", "greater", until=1),
    legacy_ufunc("And", "logical_and", until=1),
    legacy_ufunc("Or", "logical_or", until=1),
    legacy_ufunc("Xor", "logical_xor", until=1),
    ufunc("IsNaN", "isnan", since=9, until=20, inputs=1, inplace=False),
    KernelDef("IsInf", is_inf, since=10, until=20, out=True, strided=True, implementation=f"{__name__}:is_inf"),
]
