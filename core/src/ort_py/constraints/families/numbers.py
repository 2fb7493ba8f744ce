"""The types that shapes are computed with: Shape, Size and the arithmetic of short lists of numbers.

The content of such tensors is followed, so that a Reshape to a computed shape can be checked. Numbers of single
precision, as models use them to scale sizes, are rounded as a run rounds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ort_py.constraints.families.elementwise import broadcasting, first_shape, variadic
from ort_py.constraints.program import CONTENT_LIMIT, Code
from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Tensor, Unchecked, content_of
from ort_py.constraints.sizes import (
    UNKNOWN,
    Amount,
    Condition,
    Size,
    Unknown,
    all_of,
    at_least,
    choose,
    divide,
    equal,
    function,
    largest,
    less,
    negated,
    product,
    remainder,
    smallest,
)
from ort_py.dtypes import DataType

_LIMIT, _LIMIT_32 = 2**62, 2**31
_FRACTIONS = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})
_WHOLE = frozenset({DataType.INT64, DataType.INT32, DataType.BOOL})


def _shape(n: NodeScope) -> Outputs:
    shape = n.tensor(0).shape
    if shape is None:
        return [None]
    chosen = shape[slice(n.integer("start"), n.attributes.get("end"))]
    return [Tensor((len(chosen),), DataType.INT64, content=chosen)]


def _size(n: NodeScope) -> Outputs:
    shape = n.tensor(0).shape
    return [Tensor((), DataType.INT64, content=None if shape is None else (product(shape),))]


def _is_float(n: NodeScope) -> bool:
    return any(one is not None and one.data_type is DataType.FLOAT for one in n.inputs)


def _entrywise(n: NodeScope, combine: Callable[..., Amount], shaped: Constraint = broadcasting) -> Outputs:
    """A function of the elements of tensors that broadcast, where all of them are followed."""
    found = shaped(n)
    shape = found[0] if isinstance(found[0], tuple) else None
    sides = [None if one is None or _is_data(one) else content_of(one) for one in n.inputs]
    if shape is None or len(shape) > 1 or any(side is None for side in sides):
        return found
    count = max((len(side) for side in sides if side is not None), default=0)
    if any(side is not None and len(side) not in {1, count} for side in sides):
        return found
    entries: list[Amount] = []
    for place in range(count):
        numbers = [side[place if len(side) > 1 else 0] for side in sides if side]
        entries.append(_checked(n, combine(*numbers)) if len(numbers) == len(sides) else UNKNOWN)
    return [Tensor(shape, content=tuple(entries))]


def _is_data(tensor: Tensor) -> bool:
    """Return whether a tensor cannot contribute to shapes. Numbers of single precision can if they come from sizes."""
    return tensor.border is not None and tensor.data_type is DataType.FLOAT


def _checked(n: NodeScope, value: Amount) -> Amount:
    """A result as the run holds it: rounded where it is a float, and refused where its bits would wrap around."""
    if isinstance(value, Unknown):
        return value
    if _is_float(n):
        return function(Code.SINGLE, value, _single)
    limit = _LIMIT_32 if any(one is not None and one.data_type is DataType.INT32 for one in n.inputs) else _LIMIT
    if isinstance(value, Size):
        if not value.natural:
            n.require(less(-limit, value), "a number of {} is used to compute a shape", value)
        n.require(less(value, limit), "a number of {} is used to compute a shape", value)
    elif abs(value) >= limit:
        return UNKNOWN
    return value


def _single(value: float) -> float:
    import numpy as np

    return float(np.float32(value))


def _arithmetic(combine: Callable[[Amount, Amount], Amount]) -> Constraint:
    def constraint(n: NodeScope) -> Outputs:
        return _entrywise(n, combine) if len(n.inputs) == 2 else broadcasting(n)

    return constraint


def _folded(combine: Callable[[Amount, Amount], Amount]) -> Constraint:
    def several(*numbers: Amount) -> Amount:
        found = numbers[0]
        for one in numbers[1:]:
            found = combine(found, one)
        return found

    def constraint(n: NodeScope) -> Outputs:
        return _entrywise(n, several, variadic)

    return constraint


def _divide(n: NodeScope) -> Outputs:
    if _is_float(n):
        return _entrywise(n, _quotient)
    _check_divisor(n)
    return _entrywise(n, _towards_zero)


def _check_divisor(n: NodeScope) -> None:
    """State that integers are not divided by 0, where the divisor is known; elsewhere nothing can be said."""
    if not n.has(1) or n.tensor(1).data_type in _FRACTIONS:
        return
    divisor = n.tensor(1)
    content = content_of(divisor)
    if content is not None:
        for one in content:
            n.require(negated(equal(one, 0)), "an integer is divided by {}", one)
        return
    array = None if divisor.constant is None else divisor.constant()
    if array is None:
        raise Unchecked("an integer is divided by a value that is computed during the run")
    least, most = int(array.min(initial=1)), int(array.max(initial=1))
    if least <= 0 <= most:
        raise Unchecked("a list of divisors may hold a 0")


def _quotient(a: Amount, b: Amount) -> Amount:
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return UNKNOWN
    if isinstance(a, Size):
        return a.recorder.emit(Code.TRUE_DIVIDE, (a, b))
    if isinstance(b, Size):
        return b.recorder.emit(Code.TRUE_DIVIDE, (a, b))
    return a / b if b else UNKNOWN


def _remainder(n: NodeScope) -> Outputs:
    if n.integer("fmod"):
        return _entrywise(n, _modulo_of_dividend)
    _check_divisor(n)
    return _entrywise(n, _modulo)


def _root(n: NodeScope) -> Outputs:
    content = content_of(n.tensor(0))
    if content is None:
        return first_shape(n)
    roots = (function(Code.SQRT, one, lambda value: math.sqrt(value) if value >= 0 else math.nan) for one in content)
    return [Tensor(n.tensor(0).shape, content=tuple(function(Code.SINGLE, one, _single) for one in roots))]


def _magnitude(n: NodeScope) -> Outputs:
    content = content_of(n.tensor(0))
    if content is None:
        return first_shape(n)
    return [Tensor(n.tensor(0).shape, content=tuple(_checked(n, largest(one, -one)) for one in content))]


def _modulo_of_dividend(a: Amount, b: Amount) -> Amount:
    """The remainder with the sign of the dividend."""
    natural = a.natural if isinstance(a, Size) else isinstance(a, int) and a >= 0
    return _modulo(a, b) if natural else UNKNOWN


def _modulo(a: Amount, b: Amount) -> Amount:
    return remainder(a, b) if isinstance(b, int) and b > 0 else UNKNOWN


def _towards_zero(a: Amount, b: Amount) -> Amount:
    if isinstance(b, int) and b > 0:
        if isinstance(a, Size) and a.natural:
            return divide(a, b)
        return choose(less(a, 0), -divide(-a, b), divide(a, b))
    if isinstance(b, Size) and b.natural and isinstance(a, Size) and a.natural:
        return divide(a, b)
    return UNKNOWN


def _compared(test: Callable[[Amount, Amount], Condition]) -> Constraint:
    def combine(a: Amount, b: Amount) -> Amount:
        found = test(a, b)
        return int(found) if isinstance(found, bool) else found

    def constraint(n: NodeScope) -> Outputs:
        if len(n.inputs) != 2:
            return broadcasting(n)
        return _entrywise(n, combine)

    return constraint


def _where(n: NodeScope) -> Outputs:
    def combine(condition: Amount, then: Amount, otherwise: Amount) -> Amount:
        if isinstance(condition, int):
            return then if condition else otherwise
        return choose(condition, then, otherwise) if isinstance(condition, Size) else UNKNOWN

    return _entrywise(n, combine)


def _negated(n: NodeScope) -> Outputs:
    content = content_of(n.tensor(0))
    if content is None:
        return first_shape(n)
    return [Tensor(n.tensor(0).shape, content=tuple(_checked(n, -one) for one in content))]


def _rounding(code: Code, now: Callable[[float], float]) -> Constraint:
    def constraint(n: NodeScope) -> Outputs:
        content = content_of(n.tensor(0))
        if content is None:
            return first_shape(n)
        return [Tensor(n.tensor(0).shape, content=tuple(function(code, one, now) for one in content))]

    return constraint


def _cast(n: NodeScope) -> Outputs:
    source = n.tensor(0)
    content = content_of(source)
    target = n.attributes.get("to")
    if content is None or source.data_type is None:
        return first_shape(n)
    if target == DataType.INT64 or (target == DataType.INT32 and source.data_type in _WHOLE):
        if source.data_type not in _WHOLE:
            content = tuple(function(Code.TRUNCATE, one, _truncated) for one in content)
        if target == DataType.INT32:
            for one in content:
                if isinstance(one, Size):
                    n.require(all_of(less(-(2**31) - 1, one), less(one, 2**31)), "{} does not fit 32 bits", one)
        bits = 31 if target == DataType.INT32 else 63
        return [Tensor(source.shape, content=tuple([_fitting(one, bits) for one in content]))]
    if target == DataType.FLOAT:
        return [Tensor(source.shape, content=tuple(function(Code.SINGLE, one, _single) for one in content))]
    if target == DataType.BOOL:
        conditions = [negated(equal(one, 0)) for one in content]
        return [Tensor(source.shape, content=tuple(int(one) if isinstance(one, bool) else one for one in conditions))]
    return first_shape(n)


def _fitting(value: Amount, bits: int) -> Amount:
    """A whole number as a type with so many bits and a sign holds it; those that would wrap around are not followed."""
    return UNKNOWN if isinstance(value, int) and not -(2**bits) <= value < 2**bits else value


def _truncated(value: float) -> int:
    return int(value) if math.isfinite(value) else 0


def _identity(n: NodeScope) -> Outputs:
    source = n.tensor(0)
    return [source]


def _constant_of_shape(n: NodeScope) -> Outputs:
    wanted = n.content(0)
    for size in wanted:
        n.require(at_least(size, 0), "the shape has a size of {}", size)
    value = n.attributes.get("value")
    content: Dims | None = None
    if value is not None and getattr(value, "size", 0) == 1 and len(wanted) <= 1:
        count = wanted[0] if wanted else 1
        if value.dtype.kind in "iub" and isinstance(count, int) and 0 <= count <= CONTENT_LIMIT:
            content = (int(value.reshape(-1)[0]),) * count
    return [Tensor(tuple(wanted), content=content)]


def _range(n: NodeScope) -> Outputs:
    bounds = [n.optional_content(place) for place in range(3)]
    if any(one is None or len(one) != 1 for one in bounds):
        return [(UNKNOWN,)]
    start, end, step = (one[0] for one in bounds if one is not None)
    if not isinstance(step, int) or step == 0:
        return [(UNKNOWN,)]
    count = largest(divide(end - start + (step - 1 if step > 0 else step + 1), step), 0)
    if isinstance(start, int) and isinstance(count, int) and count <= CONTENT_LIMIT:
        return [Tensor((count,), content=tuple(range(start, start + count * step, step)))]
    last = start + (count - 1) * step
    bounded = (start, last) if step > 0 else (last, start)
    return [Tensor((count,), bounds=bounded)]


def _product(n: NodeScope) -> Outputs | None:
    content = content_of(n.tensor(0))
    shape = n.tensor(0).shape
    axes = n.ints("axes") if "axes" in n.attributes else n.optional_content(1)
    if not axes and n.integer("noop_with_empty_axes"):
        return None
    if content is None or shape is None or len(shape) != 1 or (axes and tuple(axes) not in {(0,), (-1,)}):
        return None
    return [Tensor((1,) if n.integer("keepdims", 1) == 1 else (), content=(_checked(n, product(content)),))]


def _reduce_product(n: NodeScope) -> Outputs:
    from ort_py.constraints.families.reductions import reduction

    found = _product(n)
    return reduction(n) if found is None else found


TABLE: Mapping[tuple[str, str], Constraint] = {
    ("", "Abs"): _magnitude,
    ("", "Add"): _arithmetic(lambda a, b: a + b),
    ("", "Cast"): _cast,
    ("", "CastLike"): first_shape,
    ("", "Ceil"): _rounding(Code.CEIL, lambda value: float(math.ceil(value))),
    ("", "ConstantOfShape"): _constant_of_shape,
    ("", "Div"): _divide,
    ("", "Equal"): _compared(equal),
    ("", "Floor"): _rounding(Code.FLOOR, lambda value: float(math.floor(value))),
    ("", "Greater"): _compared(lambda a, b: less(b, a)),
    ("", "GreaterOrEqual"): _compared(at_least),
    ("", "Identity"): _identity,
    ("", "Less"): _compared(less),
    ("", "LessOrEqual"): _compared(lambda a, b: at_least(b, a)),
    ("", "Max"): _folded(largest),
    ("", "Min"): _folded(smallest),
    ("", "Mod"): _remainder,
    ("", "Mul"): _arithmetic(lambda a, b: a * b),
    ("", "Neg"): _negated,
    ("", "Range"): _range,
    ("", "ReduceProd"): _reduce_product,
    ("", "Round"): _rounding(Code.ROUND, lambda value: float(round(value))),
    ("", "Shape"): _shape,
    ("", "Size"): _size,
    ("", "Sqrt"): _root,
    ("", "Sub"): _arithmetic(lambda a, b: a - b),
    ("", "Where"): _where,
}
