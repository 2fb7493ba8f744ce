"""What each operator adds to a program, for which versions and element types; and why a node cannot be in a region.

A new operator is an entry of `RULES`. Expressions are made of functions of ``elementwise.cuh`` and numbers: nothing
that a model's author wrote as text gets into them. Comes after `program`; knows no shapes but those that decide
whether a reduction is over the last axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.dtypes import DataType, numpy_dtype
from ort_py_cuda.code.elements import C_TYPES
from ort_py_cuda.regions.program import Builder, computed_type

__all__ = ["RULES", "Rule", "emit", "reduced_axes_of", "unsupported"]

Constant = Callable[[int], Array | None]
"""``f(i)``: input `i` of the node as a host array where it is constant."""

Emitter = Callable[[Builder, NodeSpec, Sequence[int | None], Constant], int]
"""``f(builder, node, terms of the inputs, constant)``: the number of the result's term."""

_FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})
_SIGNED = frozenset({"int8", "int16", "int32", "int64"})
_UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
_INTEGERS = _SIGNED | _UNSIGNED
_NUMBERS = _FLOATS | _INTEGERS
_BOOL = frozenset({"bool"})
_ALL = frozenset(C_TYPES)


@dataclass(frozen=True, slots=True)
class Rule:
    """How an operator gets into a program.

    Attributes:
        since, until: Versions of its schema.
        types: Types of its first input (for Where, its second).
        emit: Adds its terms.
        refuse: Why a node of these versions and types cannot be taken, None where it can.
        reduces: Whether it looks along the last axes.
    """

    since: int
    until: int
    types: frozenset[str]
    emit: Emitter
    refuse: Callable[[NodeSpec, Constant], str | None] | None = None
    reduces: bool = False


def _given(arguments: Sequence[int | None]) -> list[int]:
    return [one for one in arguments if one is not None]


def _expression(
    code: str, dtype: str, builder: Builder, _node: NodeSpec, arguments: Sequence[int | None], _c: Constant
) -> int:
    return builder.apply(code, *_given(arguments), dtype=dtype)


def _plain(code: str, dtype: str = "") -> Emitter:
    """The expression `code` of the inputs, of the first one's type where none is named."""
    return partial(_expression, code, dtype)


def _chain(function: str, builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    first, *others = _given(arguments)
    total = first
    for other in others:
        total = builder.apply(f"{function}({{0}}, {{1}})", total, other)
    if node.op_type == "Mean":
        count = builder.number(len(others) + 1, builder.dtype(first))
        total = builder.apply(f"{{0}} / {count}", total)
    return builder.apply("{0}", total) if total == first else total


def _with_numbers(
    code: str,
    defaults: dict[str, float],
    builder: Builder,
    node: NodeSpec,
    arguments: Sequence[int | None],
    _c: Constant,
) -> int:
    """`code` with attributes in angle brackets, e.g. ``elu({0}, <alpha>)``."""
    (x,) = _given(arguments)
    for name, default in defaults.items():
        code = code.replace(f"<{name}>", builder.number(node.attributes.get(name, default), builder.dtype(x)))
    return builder.apply(code, x)


def _numbers(code: str, **defaults: float) -> Emitter:
    return partial(_with_numbers, code, defaults)


def _divide(builder: Builder, _node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    a, b = _given(arguments)
    code = "{0} / {1}" if builder.dtype(a) in _FLOATS else "quotient({0}, {1}, fault, site)"
    return builder.apply(code, a, b)


def _mod(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    a, b = _given(arguments)
    cuts = bool(node.attributes.get("fmod", 0))
    if builder.dtype(a) in _FLOATS:
        return builder.apply("fmod({0}, {1})" if cuts else "float_modulo({0}, {1})", a, b)
    return builder.apply(f"{'rest' if cuts else 'modulo'}({{0}}, {{1}}, fault, site)", a, b)


_KNOWN_POWERS = {2.0: "{0} * {0}", -1.0: "{kind}(1) / {0}", 1.0: "{0}", 3.0: "{0} * {0} * {0}"}
"""Exponents with a shorter way. Not 0.5: sqrt(-inf) is NaN where pow(-inf, 0.5) is inf."""


def _pow(builder: Builder, _node: NodeSpec, arguments: Sequence[int | None], constant: Constant) -> int:
    x, y = _given(arguments)
    base, exponent = builder.dtype(x), builder.dtype(y)
    known = constant(1)
    kind = computed_type(base)
    if base in _FLOATS:
        if known is not None and known.ndim == 0:
            code = _KNOWN_POWERS.get(float(known))
            if code is not None:
                return builder.apply(code.replace("{kind}", kind), x)
        return builder.apply(f"pow({{0}}, ({kind}){{1}})", x, y)
    if exponent in _FLOATS:
        return builder.apply(f"({kind})pow((double){{0}}, (double){{1}})", x, y)
    return builder.apply("integer_power({0}, {1})", x, y)


def _clip(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    x, low, high = (*arguments, None, None)[:3]
    assert x is not None
    found = builder.apply("{0}", x)
    if node.since_version < 11:
        for name, function, default in (
            ("min", "maximum", -3.4028234663852886e38),
            ("max", "minimum", 3.4028234663852886e38),
        ):
            bound = builder.number(node.attributes.get(name, default), builder.dtype(x))
            found = builder.apply(f"{function}({{0}}, {bound})", found)
        return found
    if low is not None:
        found = builder.apply("maximum({0}, {1})", found, low)
    if high is not None:
        found = builder.apply("minimum({0}, {1})", found, high)
    return found


def _cast(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    x = _given(arguments)[0]
    output = node.outputs[0]
    assert output is not None
    assert output.data_type is not None
    target, source = numpy_dtype(output.data_type).name, builder.dtype(x)
    kind = C_TYPES[target]
    if target == source:
        code = "{0}"
    elif target == "bool":
        code = "({0} != 0)"
    elif target == "float16" and source == "float64":
        code = "widen(to_half({0}))"
    elif target in ("float16", "bfloat16"):
        code = f"widen(narrow<{kind}>((float){{0}}))"
    else:
        code = f"({computed_type(target)}){{0}}"
    return builder.apply(code, x, dtype=target)


def _where(builder: Builder, _node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    condition, a, b = _given(arguments)
    return builder.apply("({0} ? {1} : {2})", condition, a, b, dtype=builder.dtype(a))


def _is_inf(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    signs = ", ".join(
        "true" if node.attributes.get(name, 1) else "false" for name in ("detect_negative", "detect_positive")
    )
    return builder.apply(f"is_infinite({{0}}, {signs})", _given(arguments)[0], dtype="bool")


def _gelu(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    total, *bias = _given(arguments)
    if bias:
        total = builder.apply("add({0}, {1})", total, bias[0])
    by_tanh = node.op_type == "FastGelu" or node.attributes.get("approximate", "none") == "tanh"
    return builder.apply("gelu_tanh({0})" if by_tanh else "gelu({0})", total)


def _shift(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    function = "shift_left" if node.attributes.get("direction") == "LEFT" else "shift_right"
    return builder.apply(f"{function}({{0}}, {{1}})", *_given(arguments))


def _reduce(name: str, builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    x = arguments[0]
    assert x is not None
    if name in ("Max", "Min"):
        return builder.reduce("Largest" if name == "Max" else "Smallest", x)
    if name == "Prod":
        return builder.reduce("Multiply", x)
    if name == "LogSumExp":
        top = builder.reduce("Largest", x)
        kind = computed_type(builder.dtype(x))
        # Where the greatest element is infinite there is nothing to take out.
        shift = builder.apply(f"(absolute({{0}}) == infinity({kind}()) ? {kind}(0) : {{0}})", top)
        total = builder.reduce("Add", builder.apply("exp({0} - {1})", x, shift))
        return builder.apply("log({0}) + {1}", total, shift)
    before = {"L1": "absolute({0})", "L2": "multiply({0}, {0})", "SumSquare": "multiply({0}, {0})"}.get(name)
    total = builder.reduce("Add", x if before is None else builder.apply(before, x))
    after = {"Mean": "{0} / (decltype({0}))cols", "L2": "sqrt({0})", "LogSum": "log({0})"}.get(name)
    return total if after is None else builder.apply(after, total)


def _softmax(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    x = _given(arguments)[0]
    shifted = builder.apply("{0} - {1}", x, builder.reduce("Largest", x))
    powers = builder.apply("exp({0})", shifted)
    total = builder.reduce("Add", powers)
    if node.op_type == "LogSoftmax":
        return builder.apply("{0} - {1}", shifted, builder.apply("log({0})", total))
    return builder.apply("{0} / {1}", powers, total)


def reduced_axes_of(node: NodeSpec, constant: Constant) -> int | str:
    """How many of the last axes a node reduces; or why it is not to be in a region."""
    first = node.inputs[0]
    shape = None if first is None else first.shape
    if shape is None or None in shape:
        return "the sizes of its input are not known by name or number"
    rank = len(shape)
    if node.op_type in ("Softmax", "LogSoftmax"):
        axes: Any = (node.attributes.get("axis", -1),) if rank else ()
    else:
        axes = node.attributes.get("axes")
        if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
            known = constant(1)
            if known is None:
                return "its axes are not constant"
            axes = known.reshape(-1).tolist()
        if not axes:
            if node.attributes.get("noop_with_empty_axes", 0):
                return "it reduces nothing"
            axes = range(rank)
    found = sorted({axis % rank for axis in axes}) if rank else []
    if not found or found != list(range(rank - len(found), rank)):
        return "its axes are not the last ones"
    rows, cols = shape[: -len(found)], shape[-len(found) :]
    if all(isinstance(size, int) for size in shape):
        count = _product(rows)
        if count < _FEW_ROWS and _product(cols) > _LONG_ROW:
            return f"{count} rows of {_product(cols)} elements are too few for a block each"
    return len(found)


_FEW_ROWS = 32
_LONG_ROW = 65536


def _product(sizes: Sequence[Any]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _no_axis(node: NodeSpec, constant: Constant) -> str | None:
    found = reduced_axes_of(node, constant)
    return found if isinstance(found, str) else None


def _scalar_bounds(node: NodeSpec, constant: Constant) -> str | None:
    for index, value in enumerate(node.inputs[1:], 1):
        if value is not None and value.shape is None and constant(index) is None:
            return "the shape of a bound is not known"
    return None


def _two_roundings(node: NodeSpec, _c: Constant) -> str | None:
    source, target = node.inputs[0], node.outputs[0]
    types = [None if value is None else value.data_type for value in (source, target)]
    return "double becomes bfloat16 in two roundings there" if types == [DataType.DOUBLE, DataType.BFLOAT16] else None


def _one_slope(node: NodeSpec, _c: Constant) -> str | None:
    x, slope = node.inputs[0], node.inputs[1]
    if x is None or slope is None or x.shape is None or slope.shape is None or len(slope.shape) > len(x.shape):
        return "the shape of its slope is not known, or no part of its input's"
    for own, other in zip(reversed(slope.shape), reversed(x.shape), strict=False):
        if own not in (1, other):
            return "its slope would not broadcast one-sidedly"
    return None


def _unary(code: str, since: int, until: int, types: frozenset[str] = _FLOATS, dtype: str = "") -> Rule:
    return Rule(since, until, types, _plain(code, dtype))


def _pair(code: str, since: int, until: int, types: frozenset[str] = _NUMBERS, dtype: str = "") -> Rule:
    return Rule(since, until, types, _plain(code, dtype))


_FUNCTIONS = {
    "Sqrt": ("sqrt", 6, 13),
    "Exp": ("exp", 6, 13),
    "Log": ("log", 6, 13),
    "Floor": ("floor", 6, 13),
    "Ceil": ("ceil", 6, 13),
    "Round": ("rint", 11, 22),
    "Tanh": ("tanh", 6, 13),
    "Sin": ("sin", 7, 22),
    "Cos": ("cos", 7, 22),
    "Tan": ("tan", 7, 22),
    "Asin": ("asin", 7, 22),
    "Acos": ("acos", 7, 22),
    "Atan": ("atan", 7, 22),
    "Sinh": ("sinh", 9, 22),
    "Cosh": ("cosh", 9, 22),
    "Asinh": ("asinh", 9, 22),
    "Acosh": ("acosh", 9, 22),
    "Atanh": ("atanh", 9, 22),
    "Erf": ("erf", 9, 13),
    "Sigmoid": ("sigmoid", 6, 13),
    "Softplus": ("softplus", 1, 22),
    "Mish": ("mish", 18, 22),
}

_REDUCTIONS = {
    "Sum": (1, 13, _NUMBERS),
    "Mean": (1, 18, _FLOATS),
    "Max": (1, 20, _NUMBERS),
    "Min": (1, 20, _NUMBERS),
    "Prod": (1, 18, _NUMBERS),
    "L1": (1, 18, _NUMBERS),
    "L2": (1, 18, _FLOATS),
    "SumSquare": (1, 18, _NUMBERS),
    "LogSum": (1, 18, _FLOATS),
    "LogSumExp": (1, 18, _FLOATS),
}

_MS = "com.microsoft"

RULES: dict[tuple[str, str], Rule] = {
    ("", "Add"): _pair("add({0}, {1})", 7, 14),
    ("", "Sub"): _pair("subtract({0}, {1})", 7, 14),
    ("", "Mul"): _pair("multiply({0}, {1})", 7, 14),
    ("", "Div"): Rule(7, 14, _NUMBERS, _divide),
    ("", "Mod"): Rule(10, 28, _NUMBERS, _mod),
    ("", "Pow"): Rule(7, 15, _NUMBERS, _pow),
    ("", "BitShift"): Rule(11, 28, _UNSIGNED, _shift),
    ("", "Neg"): _unary("negative({0})", 6, 13, _FLOATS | _SIGNED),
    ("", "Abs"): _unary("absolute({0})", 6, 13, _NUMBERS),
    ("", "Sign"): _unary("sign({0})", 9, 13, _NUMBERS),
    ("", "Reciprocal"): _unary("decltype({0})(1) / {0}", 6, 13),
    ("", "Min"): Rule(8, 13, _NUMBERS, partial(_chain, "minimum")),
    ("", "Max"): Rule(8, 13, _NUMBERS, partial(_chain, "maximum")),
    ("", "Sum"): Rule(8, 13, _FLOATS, partial(_chain, "add")),
    ("", "Mean"): Rule(8, 13, _FLOATS, partial(_chain, "add")),
    ("", "Equal"): _pair("({0} == {1})", 7, 19, _NUMBERS | _BOOL, "bool"),
    ("", "Less"): _pair("({0} < {1})", 7, 13, _NUMBERS, "bool"),
    ("", "Greater"): _pair("({0} > {1})", 7, 13, _NUMBERS, "bool"),
    ("", "LessOrEqual"): _pair("({0} <= {1})", 12, 16, _NUMBERS, "bool"),
    ("", "GreaterOrEqual"): _pair("({0} >= {1})", 12, 16, _NUMBERS, "bool"),
    ("", "And"): _pair("({0} && {1})", 7, 7, _BOOL),
    ("", "Or"): _pair("({0} || {1})", 7, 7, _BOOL),
    ("", "Xor"): _pair("({0} != {1})", 7, 7, _BOOL),
    ("", "Not"): _unary("(!{0})", 1, 1, _BOOL),
    ("", "BitwiseAnd"): _pair("({0} & {1})", 18, 18, _INTEGERS),
    ("", "BitwiseOr"): _pair("({0} | {1})", 18, 18, _INTEGERS),
    ("", "BitwiseXor"): _pair("({0} ^ {1})", 18, 18, _INTEGERS),
    ("", "BitwiseNot"): _unary("(~{0})", 18, 18, _INTEGERS),
    ("", "IsNaN"): _unary("({0} != {0})", 9, 20, _FLOATS, "bool"),
    ("", "IsInf"): Rule(10, 20, _FLOATS, _is_inf),
    ("", "Where"): Rule(9, 16, _ALL, _where),
    ("", "Cast"): Rule(6, 28, _ALL, _cast, _two_roundings),
    ("", "CastLike"): Rule(15, 25, _ALL, _cast, _two_roundings),
    ("", "Clip"): Rule(6, 13, _NUMBERS, _clip, _scalar_bounds),
    ("", "Identity"): _unary("{0}", 1, 28, _ALL),
    ("", "Relu"): Rule(6, 14, _NUMBERS - _UNSIGNED, _numbers("maximum({0}, <zero>)", zero=0)),
    ("", "LeakyRelu"): Rule(6, 16, _FLOATS, _numbers("({0} < 0 ? <alpha> * {0} : {0})", alpha=0.01)),
    ("", "ThresholdedRelu"): Rule(10, 22, _FLOATS, _numbers("({0} > <alpha> ? {0} : <zero>)", alpha=1.0, zero=0)),
    ("", "PRelu"): Rule(7, 16, _FLOATS, _plain("({0} < 0 ? {1} * {0} : {0})"), _one_slope),
    ("", "Swish"): Rule(24, 24, _FLOATS, _numbers("{0} * sigmoid(<alpha> * {0})", alpha=1.0)),
    ("", "HardSigmoid"): Rule(6, 22, _FLOATS, _numbers("hard_sigmoid({0}, <alpha>, <beta>)", alpha=0.2, beta=0.5)),
    ("", "HardSwish"): Rule(
        14, 22, _FLOATS, _numbers("{0} * hard_sigmoid({0}, <sixth>, <half>)", sixth=1 / 6, half=0.5)
    ),
    ("", "Elu"): Rule(6, 22, _FLOATS, _numbers("elu({0}, <alpha>)", alpha=1.0)),
    ("", "Selu"): Rule(
        6,
        22,
        _FLOATS,
        _numbers("<gamma> * elu({0}, <alpha>)", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    ),
    ("", "Celu"): Rule(12, 28, _FLOATS, _numbers("celu({0}, <alpha>)", alpha=1.0)),
    ("", "Softsign"): _unary("{0} / (decltype({0})(1) + absolute({0}))", 1, 22),
    ("", "Shrink"): Rule(9, 9, _FLOATS, _numbers("shrink({0}, <bias>, <lambd>)", bias=0.0, lambd=0.5)),
    ("", "Gelu"): Rule(20, 20, _FLOATS, _gelu),
    (_MS, "Gelu"): Rule(1, 1, _FLOATS, _gelu),
    (_MS, "BiasGelu"): Rule(1, 1, _FLOATS, _gelu),
    (_MS, "FastGelu"): Rule(1, 1, _FLOATS, _gelu),
    (_MS, "QuickGelu"): Rule(1, 1, _FLOATS, _numbers("{0} * sigmoid(<alpha> * {0})", alpha=1.7020000219345093)),
    **{("", name): _unary(f"{function}({{0}})", since, until) for name, (function, since, until) in _FUNCTIONS.items()},
    **{
        ("", f"Reduce{name}"): Rule(since, until, types, partial(_reduce, name), _no_axis, reduces=True)
        for name, (since, until, types) in _REDUCTIONS.items()
    },
    ("", "Softmax"): Rule(13, 13, _FLOATS, _softmax, _no_axis, reduces=True),
    ("", "LogSoftmax"): Rule(13, 13, _FLOATS, _softmax, _no_axis, reduces=True),
}
"""(domain, operator) to how it gets into a program."""


def unsupported(node: NodeSpec, constant: Constant) -> str | None:
    """Why generated code cannot compute a node, None where it can."""
    rule = RULES.get((node.domain, node.op_type))
    if rule is None:
        return f"no generated code for {node.op_type}"
    if not rule.since <= node.since_version <= rule.until:
        return f"no generated code for version {node.since_version} of {node.op_type}"
    for value in (*node.inputs, *node.outputs):
        if value is not None and (value.data_type is None or _name(value.data_type) not in C_TYPES):
            return f"'{value.name}' is {value.type}, which generated code has no type for"
    first = node.inputs[1 if node.op_type == "Where" else 0]
    if first is None or first.data_type is None or _name(first.data_type) not in rule.types:
        return f"no generated code for {node.op_type} of {None if first is None else first.type}"
    if sum(value is not None for value in node.outputs) != 1:
        return "it has several outputs"
    return None if rule.refuse is None else rule.refuse(node, constant)


def _name(data_type: DataType) -> str:
    return str(numpy_dtype(data_type).name) if data_type not in (DataType.STRING, DataType.UNDEFINED) else ""


def emit(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], constant: Constant) -> int:
    """Add a node's terms; returns the number of its result's. The node is one that `unsupported` has no reason for."""
    return RULES[(node.domain, node.op_type)].emit(builder, node, arguments, constant)
