"""Functions of one element, and of elements of several tensors that broadcast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ort_py.constraints.scope import Constraint, NodeScope, Outputs, Tensor, Violation
from ort_py.constraints.sizes import UNKNOWN, Amount, any_of, equal

_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish "
    "IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign "
    "Sqrt Swish Tan Tanh ThresholdedRelu"
)
_BROADCAST = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul Or Pow "
    "Sub Where Xor"
)


def first_shape(n: NodeScope) -> Outputs:
    """All outputs have the shape of the first input."""
    n.tensor(0)
    return [Tensor(n.inputs[0].shape if n.inputs[0] is not None else None)] * n.outputs


def broadcasting(n: NodeScope) -> Outputs:
    """NumPy's broadcasting; before version 7 of the binary operators, by the attributes `broadcast` and `axis`."""
    if not n.inputs:
        raise Violation("there is no input")
    if "broadcast" in n.attributes or "axis" in n.attributes or (n.since_version < 7 and len(n.inputs) == 2):
        return _by_attribute(n)
    return [n.broadcast(*(n.shape(place) for place in range(len(n.inputs))))]


def variadic(n: NodeScope) -> Outputs:
    """Like `broadcasting`; before version 8, all operands have one shape."""
    if n.since_version >= 8 or not n.inputs:
        return broadcasting(n)
    first = n.shape(0)
    for place in range(1, len(n.inputs)):
        n.require_same(place, first, f"input {place}")
    return [first]


def _by_attribute(n: NodeScope) -> Outputs:
    first, second = n.shape(0), n.shape(1)
    if not n.integer("broadcast"):
        n.require_same(1, first, "input 1")
        return [first]
    if len(second) > len(first):
        raise Violation(f"input 1 has {len(second)} axes, more than input 0 with {len(first)}")
    start = n.attributes.get("axis")
    begin = len(first) - len(second) if start is None else n.axis(int(start), len(first), inclusive=True)
    if begin + len(second) > len(first):
        raise Violation(f"axis {start} leaves no room for {len(second)} axes")
    for size, wanted in zip(second, first[begin:], strict=False):
        n.require(any_of(equal(size, wanted), equal(size, 1)), "sizes {} and {} do not broadcast", size, wanted)
    return [first]


def _clip(n: NodeScope) -> Outputs:
    for place in (1, 2):
        shape = n.optional_shape(place)
        if shape:
            if len(shape) > 1:
                raise Violation(f"a bound has {len(shape)} axes instead of none")
            n.require(equal(shape[0], 1), "a bound has {} elements instead of one", shape[0])
    return first_shape(n)


def _prelu(n: NodeScope) -> Outputs:
    shape, slope = n.shape(0), n.shape(1)
    if n.since_version < 7:
        count: Amount = slope[0] if len(slope) == 1 else 1 if not slope else UNKNOWN
        channels: Amount = shape[1] if len(shape) > 1 else 1
        n.require(any_of(equal(count, 1), equal(count, channels)), "{} slopes for {} channels", count, channels)
        return [shape]
    n.spreads_to(1, shape, "slope")
    return [shape]


def _dropout(n: NodeScope) -> Outputs:
    for place in (1, 2):
        shape = n.optional_shape(place)
        if shape and len(shape) > 1:
            raise Violation(f"input {place} has {len(shape)} axes instead of none")
    return first_shape(n)


def _table(names: str, constraint: Constraint) -> dict[tuple[str, str], Constraint]:
    return {("", name): constraint for name in names.split()}


def _contributed(names: Sequence[str], constraint: Constraint) -> dict[tuple[str, str], Constraint]:
    return {("com.microsoft", name): constraint for name in names}


def _bias_gelu(n: NodeScope) -> Outputs:
    if n.has(1):
        n.spreads_to(1, n.shape(0), "the bias")
    return first_shape(n)


TABLE: Mapping[tuple[str, str], Constraint] = {
    **_table(_UNARY, first_shape),
    **_table(_BROADCAST, broadcasting),
    **_table("Max Mean Min Sum", variadic),
    ("", "Clip"): _clip,
    ("", "Dropout"): _dropout,
    ("", "PRelu"): _prelu,
    **_contributed(("Gelu", "QuickGelu"), first_shape),
    **_contributed(("BiasGelu", "FastGelu"), _bias_gelu),
}
