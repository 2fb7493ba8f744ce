"""The terms of a program for each operator.

Expressions are made of functions of ``elementwise.cuh`` and numbers: nothing that a model's author wrote as text gets
into them. Comes after `program`; `operators` says which operator is which of these, for which versions and types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.dtypes import numpy_dtype
from ort_py_cuda.code.elements import C_TYPES
from ort_py_cuda.regions.program import Builder, computed_type

__all__ = [
    "FLOATS",
    "Constant",
    "Emitter",
    "cast",
    "chain",
    "clip",
    "divide",
    "gelu",
    "is_inf",
    "mod",
    "numbers",
    "plain",
    "power",
    "reduce",
    "shift",
    "softmax",
    "where",
]

Constant = Callable[[int], Array | None]
"""``f(i)``: input `i` of the node as a host array where it is constant."""

Emitter = Callable[[Builder, NodeSpec, Sequence[int | None], Constant], int]
"""``f(builder, node, terms of the inputs, constant)``: the number of the result's term."""

FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})
"""Types that are computed as floating-point numbers."""


def _given(arguments: Sequence[int | None]) -> list[int]:
    return [one for one in arguments if one is not None]


def _expression(
    code: str, dtype: str, builder: Builder, _node: NodeSpec, arguments: Sequence[int | None], _c: Constant
) -> int:
    return builder.apply(code, *_given(arguments), dtype=dtype)


def plain(code: str, dtype: str = "") -> Emitter:
    """The expression `code` of the inputs, of the first one's type where none is named."""
    return partial(_expression, code, dtype)


def chain(function: str, builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
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


def numbers(code: str, **defaults: float) -> Emitter:
    return partial(_with_numbers, code, defaults)


def divide(builder: Builder, _node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    a, b = _given(arguments)
    code = "{0} / {1}" if builder.dtype(a) in FLOATS else "quotient({0}, {1}, fault, site)"
    return builder.apply(code, a, b)


def mod(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    a, b = _given(arguments)
    cuts = bool(node.attributes.get("fmod", 0))
    if builder.dtype(a) in FLOATS:
        return builder.apply("fmod({0}, {1})" if cuts else "float_modulo({0}, {1})", a, b)
    return builder.apply(f"{'rest' if cuts else 'modulo'}({{0}}, {{1}}, fault, site)", a, b)


_KNOWN_POWERS = {2.0: "{0} * {0}", -1.0: "{kind}(1) / {0}", 1.0: "{0}", 3.0: "{0} * {0} * {0}"}
"""Exponents with a shorter way. Not 0.5: sqrt(-inf) is NaN where pow(-inf, 0.5) is inf."""


def power(builder: Builder, _node: NodeSpec, arguments: Sequence[int | None], constant: Constant) -> int:
    x, y = _given(arguments)
    base, exponent = builder.dtype(x), builder.dtype(y)
    known = constant(1)
    kind = computed_type(base)
    if base in FLOATS:
        if known is not None and known.ndim == 0:
            code = _KNOWN_POWERS.get(float(known))
            if code is not None:
                return builder.apply(code.replace("{kind}", kind), x)
        return builder.apply(f"pow({{0}}, ({kind}){{1}})", x, y)
    if exponent in FLOATS:
        return builder.apply(f"({kind})pow((double){{0}}, (double){{1}})", x, y)
    return builder.apply("integer_power({0}, {1})", x, y)


def clip(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
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


def cast(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
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


def where(builder: Builder, _node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    condition, a, b = _given(arguments)
    return builder.apply("({0} ? {1} : {2})", condition, a, b, dtype=builder.dtype(a))


def is_inf(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    signs = ", ".join(
        "true" if node.attributes.get(name, 1) else "false" for name in ("detect_negative", "detect_positive")
    )
    return builder.apply(f"is_infinite({{0}}, {signs})", _given(arguments)[0], dtype="bool")


def gelu(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    total, *bias = _given(arguments)
    if bias:
        total = builder.apply("add({0}, {1})", total, bias[0])
    by_tanh = node.op_type == "FastGelu" or node.attributes.get("approximate", "none") == "tanh"
    return builder.apply("gelu_tanh({0})" if by_tanh else "gelu({0})", total)


def shift(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    function = "shift_left" if node.attributes.get("direction") == "LEFT" else "shift_right"
    return builder.apply(f"{function}({{0}}, {{1}})", *_given(arguments))


def reduce(name: str, builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
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


def softmax(builder: Builder, node: NodeSpec, arguments: Sequence[int | None], _c: Constant) -> int:
    x = _given(arguments)[0]
    shifted = builder.apply("{0} - {1}", x, builder.reduce("Largest", x))
    powers = builder.apply("exp({0})", shifted)
    total = builder.reduce("Add", powers)
    if node.op_type == "LogSoftmax":
        return builder.apply("{0} - {1}", shifted, builder.apply("log({0})", total))
    return builder.apply("{0} / {1}", powers, total)
