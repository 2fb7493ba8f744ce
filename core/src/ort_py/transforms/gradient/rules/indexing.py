"""Operators that take elements by position: the gradient is added where each element came from.

Since opset 16 scattering can add; before, positions that may repeat are summed by products with one-hot matrices, which
take as many times more room as the axis is long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import ValueSpec
from ort_py.transforms.gradient.registry import Call, Gradients, rule, unsupported

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder

_ADDS = 16
"""Opset since which ScatterElements and ScatterND can add."""


def scattered(b: GradientBuilder, call: Call, *, unique: bool) -> str:
    """Gradient of the first input of an operator that only moves elements: it is run on their positions.

    Args:
        call: The call; all other inputs stay as they are.
        unique: Whether no element is taken twice.
    """
    source = call.input(0)
    others = [value.name if value is not None else None for value in call.node.inputs[1:]]
    count = b.size(source)
    places = b("Range", b.array(np.int64(0)), b.squeeze(count, 0), b.array(np.int64(1)))
    moved = b(call.node.op_type, b.reshape_like(places, source), *others, **dict(call.node.attributes))
    return scatter_flat(b, source, moved, call.grad, unique=unique)


def scatter_flat(b: GradientBuilder, target: ValueSpec, places: str, grad: str, *, unique: bool) -> str:
    """A gradient put at positions among all elements of `target`.

    Raises:
        NotImplemented: Positions may repeat, and nothing at this opset adds there.
    """
    zeros = b.flat(b.zeros_like(target))
    places, grad = b.flat(places), b.flat(grad)
    if unique:
        found = b("ScatterElements", zeros, places, grad, axis=0)
    elif b.opset >= _ADDS:
        found = b("ScatterElements", zeros, places, grad, axis=0, reduction="add")
    else:
        raise b.needs_opset(_ADDS, f"adding to elements of '{target.name}' that are taken more than once")
    return b.reshape_like(found, target)


@rule("Slice", since=10)
def slice_(b: GradientBuilder, call: Call) -> Gradients:
    """A part of the elements, each at most once."""
    return [scattered(b, call, unique=True)]


@rule("Compress", since=9)
def compress(b: GradientBuilder, call: Call) -> Gradients:
    """Elements or slices where a condition holds."""
    return [scattered(b, call, unique=True)]


@rule("Gather")
def gather(b: GradientBuilder, call: Call) -> Gradients:
    """Slices along an axis: seen as (before, axis, behind), the axis is indexed."""
    data, indices = call.input(0), call.input(1)
    shape, axis = b.shape(data), call.axis(0)
    before = b("ReduceProd", b.part(shape, 0, axis), keepdims=1)
    behind = b("ReduceProd", b.part(shape, axis + 1, call.rank()), keepdims=1)
    length = b.part(shape, axis, axis + 1)
    count = b.size(indices)
    grad = b.reshape(call.grad, b.concat(before, count, behind))
    if b.opset >= _ADDS:
        zeros = b("Expand", 0.0, b.concat(before, length, behind))
        places = b.reshape(indices.name, b.concat(b.ints(1), count, b.ints(1)))
        places = b("Expand", places, b.concat(before, count, behind))
        found = b("ScatterElements", zeros, places, grad, axis=1, reduction="add")
    else:
        found = b("MatMul", _one_hot(b, b.flat(indices.name), length, axis=0), grad)
    return [b.reshape(found, shape)]


def _one_hot(b: GradientBuilder, indices: str, length: str, *, axis: int) -> str:
    return b("OneHot", indices, length, b("Concat", b.flat(b.scalar(0.0)), b.flat(b.scalar(1.0)), axis=0), axis=axis)


@rule("GatherElements", since=11)
def gather_elements(b: GradientBuilder, call: Call) -> Gradients:
    data, indices, axis = call.input(0), call.x(1), call.axis(0)
    if b.opset >= _ADDS:
        added = b("ScatterElements", b.zeros_like(data), indices, call.grad, axis=axis, reduction="add")
        return [added]
    length = b.part(b.shape(data), axis, axis + 1)
    hits = _one_hot(b, indices, length, axis=call.rank())
    summed = b.sum(b("Mul", hits, b.unsqueeze(call.grad, call.rank())), (axis,))
    order = [*range(axis), call.rank() - 1, *range(axis, call.rank() - 1)]
    found = b.transpose(summed, *order)
    # Indices may cover only the first part of the other axes.
    ends = b("Sub", b.shape(data), b.shape(found))
    return [b("Pad", found, b.concat(b.ints(*[0] * call.rank()), ends), 0.0)]


@rule("GatherND", since=11)
def gather_nd(b: GradientBuilder, call: Call) -> Gradients:
    """Slices at tuples of indices."""
    if b.opset >= _ADDS and not call.attribute("batch_dims", 0):
        return [b("ScatterND", b.zeros_like(call.input(0)), call.x(1), call.grad, reduction="add")]
    return [scattered(b, call, unique=False)]


@rule("ScatterElements", since=11)
def scatter_elements(b: GradientBuilder, call: Call) -> Gradients:
    g, indices, axis = call.grad, call.x(1), call.attribute("axis", 0)
    _only_adds(call)
    kept = g
    if call.attribute("reduction", "none") == "none" and call.wants(0):
        kept = b("ScatterElements", g, indices, b.zeros_like(call.input(2)), axis=axis)
    return [kept, None, b("GatherElements", g, indices, axis=axis) if call.wants(2) else None]


@rule("ScatterND", since=11)
def scatter_nd(b: GradientBuilder, call: Call) -> Gradients:
    """Slices replaced, or added to."""
    g, indices = call.grad, call.x(1)
    _only_adds(call)
    kept = g
    if call.attribute("reduction", "none") == "none" and call.wants(0):
        kept = b("ScatterND", g, indices, b.zeros_like(call.input(2)))
    return [kept, None, b("GatherND", g, indices) if call.wants(2) else None]


def _only_adds(call: Call) -> None:
    reduction = call.attribute("reduction", "none")
    if reduction not in ("none", "add"):
        raise unsupported(call, f"its reduction is '{reduction}'; 'none' and 'add' are covered")


@rule("TopK", since=10)
def top_k(b: GradientBuilder, call: Call) -> Gradients:
    """The extreme elements of an axis: as GatherElements with the positions that it returns."""
    zeros = b.zeros_like(call.input(0))
    # No position occurs twice, so nothing need be added up.
    return [b("ScatterElements", zeros, call.output(1).name, call.grad, axis=call.attribute("axis", -1))]
