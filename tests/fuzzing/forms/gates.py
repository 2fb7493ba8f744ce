"""A value beside a function of itself: gates, residuals, and parts of Split and Slice that several nodes read."""

from __future__ import annotations

import numpy as np

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.elementwise import unary_node
from tests.fuzzing.forms.registry import form
from tests.fuzzing.forms.views import parts_of, view_of
from tests.fuzzing.schemas import Value

__all__ = ["gated"]


def gated(g: Builder, value: Value) -> Value:
    """`b op f(b)` of every kind."""
    roll = g.rng.random()
    if roll < 0.12:
        exponent = g.const(np.array(g.one(2.0, 3.0, 0.5, 1.0)), value.dtype)
        return g.emit("Pow", [value, exponent])[0]
    inner = value
    for _ in range(g.integer(0, 2)):
        inner = unary_node(g, inner)
    if g.chance(0.15) and value.rank:
        inner = g.emit("Softmax", [inner], axis=g.axis(value.rank))[0]
    if g.chance(0.25):
        inner = g.emit(g.one("Add", "Mul", "Sub"), [inner, g.broadcast(value)])[0]
    op_type = g.one("Add", "Mul", "Sub", "Max", "Min", "Div", "Mul", "Add")
    pair = [value, inner] if g.chance(0.5) else [inner, value]
    if op_type == "Div":
        pair[1] = g.emit("Exp", [g.emit("Tanh", [pair[1]])[0]])[0]
    result = g.emit(op_type, pair)[0]
    if g.chance(0.25):
        result = g.emit(g.one("Add", "Mul"), [result, value])[0]
    return result


@form(5)
def gate(g: Builder) -> None:
    """A value beside a function of itself."""
    gated(g, g.data())


@form(6)
def gate_of_a_view(g: Builder) -> None:
    """The same of a part of another value."""
    source = g.data(least=1)
    parts = parts_of(g, source) if g.chance(0.6) else [view_of(g, source)]
    chosen = g.rng.choice(parts)
    result = gated(g, chosen)
    if len(parts) > 1 and g.chance(0.5):
        other = g.rng.choice(parts)
        if other.shape == result.shape:
            g.emit(g.one("Mul", "Add", "Sub"), [result, other] if g.chance(0.5) else [other, result])


@form(3)
def residual(g: Builder) -> None:
    """A value, some nodes, and the value again."""
    source = g.data(least=1)
    inner = source
    for _ in range(g.integer(1, 3)):
        inner = unary_node(g, inner)
    g.emit("Add", [source, inner] if g.chance(0.5) else [inner, source])


@form(3)
def several_consumers(g: Builder) -> None:
    """Views at several offsets of one value, each read by something else, and put together again."""
    source = g.data(least=1)
    axis = g.integer(0, source.rank - 1)
    parts = parts_of(g, source, axis)
    made = [gated(g, part) if g.chance(0.4) else unary_node(g, part) if g.chance(0.7) else part for part in parts]
    g.rng.shuffle(made)
    fitting = [
        one
        for one in made
        if one.shape[:axis] + one.shape[axis + 1 :] == source.shape[:axis] + source.shape[axis + 1 :]
    ]
    g.emit("Concat", fitting, axis=axis)


@form(2)
def glu(g: Builder) -> None:
    """Gated linear units: the halves of a product."""
    source = g.data(least=2)
    width = 2 * g.one(1, 2, 4, 8)
    made = g.emit("MatMul", [source, g.weights([source.shape[-1], width])])[0]
    if g.chance(0.5):
        made = g.emit("Add", [made, g.weights([width])])[0]
    first, second = parts_of(g, made, made.rank - 1, 2)
    if g.chance(0.5):
        first, second = second, first
    gate_ = unary_node(g, second, g.one("Sigmoid", "Tanh", "Gelu", "Relu", "HardSwish"))
    g.emit("Mul", [first if g.chance(0.7) else second, gate_])
