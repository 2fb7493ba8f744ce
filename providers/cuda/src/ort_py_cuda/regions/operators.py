"""The operators of regions with their versions and element types, and the reasons why a node is refused.

A new operator is an entry of `RULES`: what it adds to a program (`emitters`), and what it asks for (`refusals`). It is
independent of shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ort_py.contracts.graph_view import NodeSpec
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.code.elements import C_TYPES
from ort_py_cuda.regions import emitters
from ort_py_cuda.regions.emitters import FLOATS, Constant, Emitter, numbers, plain
from ort_py_cuda.regions.program import Builder
from ort_py_cuda.regions.refusals import no_axis, one_slope, scalar_bounds, two_roundings

__all__ = ["RULES", "Rule", "emit", "unsupported"]

_SIGNED = frozenset({"int8", "int16", "int32", "int64"})
_UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
_INTEGERS = _SIGNED | _UNSIGNED
_NUMBERS = FLOATS | _INTEGERS
_BOOL = frozenset({"bool"})
_ALL = frozenset(C_TYPES)


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which an operator enters a program.

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


def _unary(code: str, since: int, until: int, types: frozenset[str] = FLOATS, dtype: str = "") -> Rule:
    return Rule(since, until, types, plain(code, dtype))


def _pair(code: str, since: int, until: int, types: frozenset[str] = _NUMBERS, dtype: str = "") -> Rule:
    return Rule(since, until, types, plain(code, dtype))


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
    "Mean": (1, 18, FLOATS),
    "Max": (1, 20, _NUMBERS),
    "Min": (1, 20, _NUMBERS),
    "Prod": (1, 18, _NUMBERS),
    "L1": (1, 18, _NUMBERS),
    "L2": (1, 18, FLOATS),
    "SumSquare": (1, 18, _NUMBERS),
    "LogSum": (1, 18, FLOATS),
    "LogSumExp": (1, 18, FLOATS),
}

_MS = "com.microsoft"

RULES: dict[tuple[str, str], Rule] = {
    ("", "Add"): _pair("add({0}, {1})", 7, 14),
    ("", "Sub"): _pair("subtract({0}, {1})", 7, 14),
    ("", "Mul"): _pair("multiply({0}, {1})", 7, 14),
    ("", "Div"): Rule(7, 14, _NUMBERS, emitters.divide),
    ("", "Mod"): Rule(10, 28, _NUMBERS, emitters.mod),
    ("", "Pow"): Rule(7, 15, _NUMBERS, emitters.power),
    ("", "BitShift"): Rule(11, 28, _UNSIGNED, emitters.shift),
    ("", "Neg"): _unary("negative({0})", 6, 13, FLOATS | _SIGNED),
    ("", "Abs"): _unary("absolute({0})", 6, 13, _NUMBERS),
    ("", "Sign"): _unary("sign({0})", 9, 13, _NUMBERS),
    ("", "Reciprocal"): _unary("decltype({0})(1) / {0}", 6, 13),
    ("", "Min"): Rule(8, 13, _NUMBERS, partial(emitters.chain, "minimum")),
    ("", "Max"): Rule(8, 13, _NUMBERS, partial(emitters.chain, "maximum")),
    ("", "Sum"): Rule(8, 13, FLOATS, partial(emitters.chain, "add")),
    ("", "Mean"): Rule(8, 13, FLOATS, partial(emitters.chain, "add")),
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
    ("", "IsNaN"): _unary("({0} != {0})", 9, 20, FLOATS, "bool"),
    ("", "IsInf"): Rule(10, 20, FLOATS, emitters.is_inf),
    ("", "Where"): Rule(9, 16, _ALL, emitters.where),
    ("", "Cast"): Rule(6, 28, _ALL, emitters.cast, two_roundings),
    ("", "CastLike"): Rule(15, 25, _ALL, emitters.cast, two_roundings),
    ("", "Clip"): Rule(6, 13, _NUMBERS, emitters.clip, scalar_bounds),
    ("", "Identity"): _unary("{0}", 1, 28, _ALL),
    ("", "Relu"): Rule(6, 14, _NUMBERS - _UNSIGNED, numbers("maximum({0}, <zero>)", zero=0)),
    ("", "LeakyRelu"): Rule(6, 16, FLOATS, numbers("({0} < 0 ? <alpha> * {0} : {0})", alpha=0.01)),
    ("", "ThresholdedRelu"): Rule(10, 22, FLOATS, numbers("({0} > <alpha> ? {0} : <zero>)", alpha=1.0, zero=0)),
    ("", "PRelu"): Rule(7, 16, FLOATS, plain("({0} < 0 ? {1} * {0} : {0})"), one_slope),
    ("", "Swish"): Rule(24, 24, FLOATS, numbers("{0} * sigmoid(<alpha> * {0})", alpha=1.0)),
    ("", "HardSigmoid"): Rule(6, 22, FLOATS, numbers("hard_sigmoid({0}, <alpha>, <beta>)", alpha=0.2, beta=0.5)),
    ("", "HardSwish"): Rule(14, 22, FLOATS, numbers("{0} * hard_sigmoid({0}, <sixth>, <half>)", sixth=1 / 6, half=0.5)),
    ("", "Elu"): Rule(6, 22, FLOATS, numbers("elu({0}, <alpha>)", alpha=1.0)),
    ("", "Selu"): Rule(
        6,
        22,
        FLOATS,
        numbers("<gamma> * elu({0}, <alpha>)", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    ),
    ("", "Celu"): Rule(12, 28, FLOATS, numbers("celu({0}, <alpha>)", alpha=1.0)),
    ("", "Softsign"): _unary("{0} / (decltype({0})(1) + absolute({0}))", 1, 22),
    ("", "Shrink"): Rule(9, 9, FLOATS, numbers("shrink({0}, <bias>, <lambd>)", bias=0.0, lambd=0.5)),
    ("", "Gelu"): Rule(20, 20, FLOATS, emitters.gelu),
    (_MS, "Gelu"): Rule(1, 1, FLOATS, emitters.gelu),
    (_MS, "BiasGelu"): Rule(1, 1, FLOATS, emitters.gelu),
    (_MS, "FastGelu"): Rule(1, 1, FLOATS, emitters.gelu),
    (_MS, "QuickGelu"): Rule(1, 1, FLOATS, numbers("{0} * sigmoid(<alpha> * {0})", alpha=1.7020000219345093)),
    **{("", name): _unary(f"{function}({{0}})", since, until) for name, (function, since, until) in _FUNCTIONS.items()},
    **{
        ("", f"Reduce{name}"): Rule(since, until, types, partial(emitters.reduce, name), no_axis, reduces=True)
        for name, (since, until, types) in _REDUCTIONS.items()
    },
    ("", "Softmax"): Rule(13, 13, FLOATS, emitters.softmax, no_axis, reduces=True),
    ("", "LogSoftmax"): Rule(13, 13, FLOATS, emitters.softmax, no_axis, reduces=True),
}
"""(domain, operator) to how it gets into a program."""


def unsupported(node: NodeSpec, constant: Constant) -> str | None:
    """Explain why generated code cannot compute a node, or return None."""
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
