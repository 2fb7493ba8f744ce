"""Products: MatMul of all ranks, Gemm, Einsum, attention."""

from __future__ import annotations

import numpy as np

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.elementwise import unary_node
from tests.fuzzing.forms.registry import form
from tests.fuzzing.schemas import Rejected, Value

__all__ = ["swapped"]


def swapped(g: Builder, value: Value) -> Value:
    """The last two axes exchanged."""
    order = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
    return g.emit("Transpose", [value], perm=order)[0]


@form(6)
def matmul(g: Builder) -> None:
    """A value times weights or another value, batches broadcast, vectors on either side."""
    source = g.data(least=1)
    inner = source.shape[-1]
    width = g.one(1, 2, 3, 4, 8, 16, 17)
    roll = g.rng.random()
    if roll < 0.45:
        other = g.weights([inner, width], scale=0.5)
    elif roll < 0.55:
        other = g.weights([inner], scale=0.5)
    elif roll < 0.75:
        batch = [1 if g.chance(0.4) else size for size in source.shape[:-2]]
        batch = batch[g.integer(0, len(batch)) :]
        other = g.weights([*batch, inner, width], scale=0.5)
    else:
        if source.rank < 2:
            raise Rejected("no matrix")
        twin = g.like(source)
        other = swapped(g, twin)
    if g.chance(0.15) and other.rank >= 2 and source.rank >= 2:
        left, right = swapped(g, other), swapped(g, source)
        made = g.emit("MatMul", [left, right])[0]
    else:
        made = g.emit("MatMul", [source, other])[0]
    if g.chance(0.4) and made.rank:
        bias = g.weights([made.shape[-1]] if g.chance(0.7) else [1] * (made.rank - 1) + [made.shape[-1]])
        made = g.emit("Add", [made, bias] if g.chance(0.6) else [bias, made])[0]
    if g.chance(0.35):
        made = unary_node(g, made)
    if g.chance(0.2):
        g.emit(g.one("Add", "Mul"), [made, g.broadcast(made)])


@form(4)
def gemm(g: Builder) -> None:
    """Gemm with either side turned, alpha and beta, and C in every shape that broadcasts."""
    source = g.data(2)
    turned = g.chance(0.3)
    rows, inner = source.shape[::-1] if turned else source.shape
    width = g.one(1, 2, 5, 8, 16)
    flip = g.chance(0.5)
    weights = g.weights([width, inner] if flip else [inner, width], scale=0.5)
    operands = [source, weights]
    if g.opset < 11 or g.chance(0.75):
        shape = g.one((width,), (1, width), (rows, width), (rows, 1), (1, 1), (1,), ())
        fitting = [one for one in g.values if one.dtype == source.dtype and one.shape == tuple(shape)]
        operands.append(g.rng.choice(fitting) if fitting and g.chance(0.4) else g.weights(shape))
    made = g.emit(
        "Gemm",
        operands,
        transA=1 if turned else g.one(None, 0),
        transB=1 if flip else g.one(None, 0),
        alpha=g.one(None, None, 0.5, 2.0, 1.0, 0.0),
        beta=g.one(None, None, 0.5, 0.0, 1.0, -1.0),
    )[0]
    if g.chance(0.4):
        unary_node(g, made)


@form(1)
def einsum(g: Builder) -> None:
    """Common equations."""
    source = g.data(g.one(2, 3, 4))
    rank = source.rank
    if rank == 2:
        equation, shape = g.one(
            ("ij,jk->ik", [source.shape[1], 4]), ("ij,ij->i", source.shape), ("ij,kj", [3, source.shape[1]])
        )
    elif rank == 3:
        equation, shape = g.one(
            ("bij,bjk->bik", [source.shape[0], source.shape[2], 3]),
            ("bij,bkj->bik", source.shape),
            ("...ij,jk->...ik", [source.shape[2], 2]),
            ("bij,b->ij", [source.shape[0]]),
        )
    else:
        equation, shape = g.one(
            ("bhid,bhjd->bhij", source.shape),
            ("bhij,bhjd->bhid", [*source.shape[:2], source.shape[3], 3]),
            ("bhwc,hkc->bhwk", [source.shape[1], 2, source.shape[3]]),
        )
    other = g.weights(list(shape))
    g.emit("Einsum", [source, other], equation=equation)


@form(3)
def attention(g: Builder) -> None:
    """Softmax(Q·Kᵀ·s + mask)·V as exporters write it, heads split from a projection."""
    if g.chance(0.5):
        source = g.data(3)
        heads, width = g.one(1, 2, 3), g.one(1, 2, 4, 8)
        made = g.emit("MatMul", [source, g.weights([source.shape[-1], 3 * heads * width], scale=0.4)])[0]
        made = g.emit("Add", [made, g.weights([3 * heads * width])])[0] if g.chance(0.6) else made
        if g.opset >= 13:
            parts = g.emit("Split", [made, g.ints(*[heads * width] * 3)], 3, axis=2)
        else:
            parts = g.emit("Split", [made], 3, axis=2, split=[heads * width] * 3)
        split = []
        for part in parts:
            four = g.emit("Reshape", [part, g.ints(0, -1 if all(source.shape) else 0, heads, width)])[0]
            split.append(g.emit("Transpose", [four], perm=[0, 2, 1, 3])[0])
        query, key, value = split
    else:
        query = g.data(g.one(3, 4))
        key, value = g.like(query), g.like(query)
    scale = g.const(np.array(g.one(0.125, 0.5, 1.0)), query.dtype)
    scores = g.emit("MatMul", [query, swapped(g, key)])[0]
    if g.chance(0.7):
        scores = g.emit(g.one("Mul", "Div"), [scores, scale])[0]
    if g.chance(0.5):
        mask = np.triu(np.full(scores.shape[-2:], g.one(-1e4, -np.inf if g.chance(0.3) else -10.0)), 1)
        scores = g.emit("Add", [scores, g.const(mask, scores.dtype)])[0]
    weights = g.emit("Softmax", [scores], axis=scores.rank - 1 if g.opset < 11 else g.one(-1, scores.rank - 1))[0]
    made = g.emit("MatMul", [weights, value])[0]
    if made.rank == 4 and g.chance(0.6):
        made = g.emit("Transpose", [made], perm=[0, 2, 1, 3])[0]
        if all(made.shape):
            made = g.emit("Reshape", [made, g.ints(0, 0, -1)])[0]


@form(1.2)
def attention_operator(g: Builder) -> None:
    """The Attention operator of operator set 23."""
    query = g.data(4)
    key = g.weights([query.shape[0], query.shape[1], g.integer(1, 5), query.shape[3]])
    value = g.weights([query.shape[0], query.shape[1], key.shape[2], g.one(1, 3, query.shape[3])])
    operands: list[Value | None] = [query, key, value]
    if g.chance(0.4):
        operands.append(g.weights([query.shape[2], key.shape[2]]))
    attributes = {"is_causal": g.one(0, 1, None), "scale": g.one(None, 0.3), "softcap": g.one(None, None, 2.0)}
    g.emit("Attention", operands, shapes=[(*query.shape[:3], value.shape[3])], **attributes)
