"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.dtypes import Shape
from ort_py.transforms.gradient.registry import Call, Gradients, rule, unsupported

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


def _transposed(b: GradientBuilder, value: str, rank: int) -> str:
    return b.transpose(value, *range(rank - 2), rank - 1, rank - 2)


@rule("MatMul")
def matmul(b: GradientBuilder, call: Call) -> Gradients:
    """a b over the last two axes; a vector is a row on the left, a column on the right."""
    left, right, g = call.x(0), call.x(1), call.grad
    left_shape, right_shape, shape = call.shape(0), call.shape(1), call.output(0).shape
    if shape is None:
        raise unsupported(call, "the rank of its result is unknown")
    if len(left_shape) == 1:
        left, left_shape, shape = (
            b.unsqueeze(left, 0),
            (1, *left_shape),
            _insert(shape, 1 if len(right_shape) > 1 else 0),
        )
        g = b.unsqueeze(g, -2) if len(right_shape) > 1 else b.unsqueeze(g, 0)
    if len(right_shape) == 1:
        right, right_shape = b.unsqueeze(right, 1), (*right_shape, 1)
        g, shape = b.unsqueeze(g, -1), (*shape, 1)
    grads: list[str | None] = [None, None]
    batch = shape[:-2]
    if call.wants(0):
        grad = b("MatMul", g, _transposed(b, right, len(right_shape)))
        grads[0] = _to_operand(b, call, 0, grad, (*batch, *left_shape[-2:]))
    if call.wants(1):
        grad = b("MatMul", _transposed(b, left, len(left_shape)), g)
        grads[1] = _to_operand(b, call, 1, grad, (*batch, *right_shape[-2:]))
    return grads


def _insert(shape: Shape, before: int) -> Shape:
    """A size 1 put in, `before` axes from the end."""
    place = len(shape) - before
    return (*shape[:place], 1, *shape[place:])


def _to_operand(b: GradientBuilder, call: Call, position: int, grad: str, shape: Shape) -> str:
    if call.rank(position) > 1:
        return b.sum_to(grad, shape, call.input(position))
    grad = b.sum(grad, tuple(range(len(shape) - 2)))
    return b.squeeze(grad, position)  # the row on the left is axis 0, the column on the right axis 1


@rule("Gemm", since=7)
def gemm(b: GradientBuilder, call: Call) -> Gradients:
    """alpha A B + beta C, with A and B transposed on demand."""
    g = call.grad
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    flip_left, flip_right = bool(call.attribute("transA", 0)), bool(call.attribute("transB", 0))
    scaled = g if alpha == 1.0 else b("Mul", alpha, g)
    grads: list[str | None] = [None, None, None]
    if call.wants(0):
        factor = call.x(1) if flip_right else b.transpose(call.x(1), 1, 0)
        grad = b("MatMul", scaled, factor)
        grads[0] = b.transpose(grad, 1, 0) if flip_left else grad
    if call.wants(1):
        factor = call.x(0) if flip_left else b.transpose(call.x(0), 1, 0)
        grad = b("MatMul", factor, scaled)
        grads[1] = b.transpose(grad, 1, 0) if flip_right else grad
    if call.wants(2):
        grad = b.sum_to(g, call.output(0).shape, call.input(2))
        grads[2] = grad if beta == 1.0 else b("Mul", beta, grad)
    return grads


@rule("Einsum", since=12)
def einsum(b: GradientBuilder, call: Call) -> Gradients:
    """A sum of products: the gradient of one operand is the same sum with the others and the result's gradient."""
    equation = str(call.attribute("equation")).replace(" ", "")
    if "." in equation:
        raise unsupported(call, "its equation has an ellipsis")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if not arrow:
        letters = left.replace(",", "")
        result = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    if any(len(set(term)) < len(term) for term in terms):
        raise unsupported(call, "an operand of its equation repeats a letter: it takes a diagonal")
    grads: list[str | None] = []
    for position, term in enumerate(terms):
        if not call.wants(position):
            grads.append(None)
            continue
        others = [index for index in range(len(terms)) if index != position]
        known = set(result).union(*[terms[index] for index in others])
        kept = "".join(letter for letter in term if letter in known)
        inputs = ",".join([result, *[terms[index] for index in others]])
        grad = b("Einsum", call.grad, *[call.x(index) for index in others], equation=f"{inputs}->{kept}")
        # Letters that stand in this operand only were summed over: their axes are repeated.
        grad = b.unsqueeze(grad, *[axis for axis, letter in enumerate(term) if letter not in known])
        grads.append(grad if len(kept) == len(term) else b.expand_like(grad, call.input(position)))
    return grads
