"""MatMul and Gemm."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, INTEGERS, Argument, Binary, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.picture_products import FASTER, picture_product, weights_seen
from ort_py_onednn.binding.primitive import PostOp, Primitive, Unimplemented
from ort_py_onednn.binding.row_products import RowProduct
from ort_py_onednn.execution.packed_weights import Weight
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Combine, Operation, Post
from ort_py_onednn.lowering.numbers import Numbers, floating
from ort_py_onednn.lowering.planner import PER_CHANNEL, Planner, Value, broadcast_dims

__all__ = ["flattened", "gemm", "matmul"]

_SPLIT = 1 << 16
"""Weights from which on a product of one row and a step behind it take less time than one primitive for both."""


def matmul(planner: Planner, operation: Operation, numbers: Numbers | None = None) -> None:
    """ONNX MatMul: NumPy's rules for vectors and for broadcasting.

    Args:
        planner: The planner.
        operation: The operation.
        numbers: Types and scales; those of the planner where none are given.
    """
    left, right = planner.value(operation.inputs[0]), planner.value(operation.inputs[1])
    a = planner.reshaped(left, (1, *left.dims)) if len(left.shape) == 1 else left
    b = planner.reshaped(right, (*right.dims, 1)) if len(right.shape) == 1 else right
    shape = [*broadcast_dims(a.dims[:-2], b.dims[:-2]), a.dims[-2], b.dims[-1]]
    if len(right.shape) == 1:
        del shape[-1]
    if len(left.shape) == 1:
        del shape[-1 - (len(right.shape) > 1)]
    posts = operation.posts
    taken = len(posts)
    if len(left.shape) == 1 or len(right.shape) == 1:
        # Operands broadcast to the result, which lacks an axis of the product.
        taken = next((place for place, post in enumerate(posts) if isinstance(post, Combine)), taken)
    _keep_real(numbers, posts[taken:])
    found = _product(planner, a, b, shape, posts[:taken], numbers)
    planner.bind(operation.outputs[0], planner.apply(found, posts[taken:]))


def gemm(planner: Planner, operation: Operation, numbers: Numbers | None = None) -> None:
    """ONNX Gemm: alpha · A' · B' + beta · C, where A' and B' may be transposed; `numbers` as for `matmul`."""
    a, b = planner.value(operation.inputs[0]), planner.value(operation.inputs[1])
    attributes = operation.attributes
    if attributes.get("transA", 0):
        a = _transposed(planner, a)
    if attributes.get("transB", 0):
        b = _transposed(planner, b)
    posts: list[Post] = []
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    third = operation.inputs[2] if len(operation.inputs) > 2 else None
    if third and beta == 1.0:
        posts.append(Combine(Binary.ADD, third))
    if alpha != 1.0:
        posts.insert(0, linear(alpha))
    shape = (a.dims[0], b.dims[1])
    planner.bind(operation.outputs[0], _product(planner, a, b, shape, [*posts, *operation.posts], numbers))


def _transposed(planner: Planner, value: Value) -> Value:
    rows, columns = value.dims
    if value.weight is not None and value.buffer is None:
        return Value(Desc.strided((columns, rows), (1, columns), value.dtype), None, (columns, rows), value.weight)
    plain = planner.plain(value)
    return planner.view(plain, Desc.strided((columns, rows), (1, columns), value.dtype))


def _product(
    planner: Planner,
    a: Value,
    b: Value,
    shape: Sequence[int],
    posts: Sequence[Post],
    numbers: Numbers | None = None,
) -> Value:
    *batch, rows, depth = a.dims
    columns = b.dims[-1]
    if math.prod(b.dims[:-2]) == 1 and batch:
        # One matrix for the whole batch: the batch is rows.
        a = planner.reshaped(a, (math.prod(batch) * rows, depth))
        b = b if len(b.dims) == 2 else planner.reshaped(b, b.dims[-2:])
    rank = max(len(a.dims), len(b.dims))
    a, b = planner.ranked(a, rank), planner.ranked(b, rank)
    dims = (*broadcast_dims(a.dims[:-2], b.dims[:-2]), a.dims[-2], columns)
    numbers = numbers or floating(planner)
    dtype, scaling, given_too = numbers.weights, numbers.scaling, numbers.given
    result = Desc.plain(dims, numbers.result)
    bias, posts = bias_of(planner, columns, posts, shape)
    seen = b.desc
    fixed = b.weight is not None and b.buffer is None and rank == 2
    held = b.weight.first_layout(b.dims, dtype) if fixed and b.weight is not None and numbers.keeps_layout else None
    work = math.prod(dims) * depth
    vector = None if bias is None else Desc.plain((1,) * (rank - 1) + (columns,))
    srcs = _layouts(a, numbers.source)
    others = [held or Desc.any(b.dims, dtype)] if fixed else _layouts(b, dtype)
    if fixed and held is not None:
        others.append(Desc.any(b.dims, dtype))
    weight = b.weight if fixed and not given_too else None
    pictured = seen if weight is None else weights_seen(seen)
    as_picture = None if weight is None else partial(_as_picture, weight, pictured, a.dims, vector, result)

    def build(chain: Sequence[PostOp]) -> Primitive | OwnCode:
        best: Primitive | None = None
        for src in srcs:
            for weights in others:
                try:
                    found = primitives.matmul(src, weights, vector, result, chain, scaling)
                except Unimplemented:
                    continue
                if as_picture is not None:
                    bare = partial(primitives.matmul, src, weights, vector, result, (), scaling)
                    other = _in_place_of(planner, found, bare, as_picture, chain, one_row=math.prod(dims[:-1]) == 1)
                    if other is not None:
                        return other
                if not found.is_reference:
                    return found
                best = best or found
        if best is None:
            raise Unimplemented(f"matmul of {a.desc.key} and {b.desc.key}")
        return best

    def values(primitive: Primitive | OwnCode) -> Mapping[int, Value]:
        as_picture = len(primitive.arguments[Argument.WEIGHTS].dims) > rank
        weights = Value(pictured if as_picture else seen, None, b.shape, b.weight) if fixed else b
        given = {
            **given_too,
            Argument.SRC: planner.in_layout(a, primitive.arguments[Argument.SRC]),
            Argument.WEIGHTS: planner.in_layout(weights, primitive.arguments[Argument.WEIGHTS]),
        }
        if bias is not None and vector is not None:
            given[Argument.BIAS] = planner.plain(planner.converted(planner.reshaped(bias, vector.dims), F32))
        return given

    if len(shape) == len(dims) or not posts:
        found = planner.with_posts(build, values, result, dims, posts, work)
        return planner.reshaped(found, tuple(shape)) if tuple(shape) != dims else found
    flat, rest = flattened(planner, posts, dims, tuple(shape))
    _keep_real(numbers, rest)
    found = planner.reshaped(planner.with_posts(build, values, result, dims, flat, work), tuple(shape))
    return planner.apply(found, rest)


def _as_picture(
    weight: Weight,
    seen: Desc,
    dims: Sequence[int],
    vector: Desc | None,
    result: Desc,
    code: str,
    chain: Sequence[PostOp] = (),
) -> Primitive:
    """The product of a matrix and a fixed one, as a convolution.

    Args:
        weight: The fixed matrix.
        seen: It as the weights of a convolution.
        dims: Of the other matrix.
        vector: What is added in front.
        result: The result.
        code: oneDNN's name of the code.
        chain: What is done with the result.

    Raises:
        Unimplemented: That code does not do this.
    """
    layout = weight.first_layout(seen.dims) or Desc.any(seen.dims)
    return picture_product(Desc.plain(dims), layout, vector, result, code, chain)


def _in_place_of(
    planner: Planner,
    found: Primitive,
    bare: Callable[..., Primitive],
    as_picture: Callable[..., Primitive],
    chain: Sequence[PostOp],
    *,
    one_row: bool,
) -> Primitive | OwnCode | None:
    """Make what computes a product in less time than the primitive that was found; None where that is the best.

    Args:
        planner: The planner.
        found: The primitive.
        bare: Makes the same without functions behind it.
        as_picture: Makes it as a convolution, by the name of its code.
        chain: What is done with the result.
        one_row: Whether it is the product of a row.

    Raises:
        Unimplemented: As `_row`.
    """
    faster = FASTER.get(found.implementation)
    if faster is not None:
        bare = partial(as_picture, faster)
    row = _row(planner, bare, chain) if one_row else None
    if row is None and faster is not None:
        with contextlib.suppress(Unimplemented):
            return bare(chain)
    return row


def _row(planner: Planner, bare: Callable[[], Primitive], chain: Sequence[PostOp]) -> OwnCode | None:
    """A product of one row in code of our own; None where there is none.

    Args:
        planner: The planner.
        bare: Makes what it replaces, without functions behind it.
        chain: What is done with the result.

    Raises:
        Unimplemented: The code does not do that, and the product is large enough for steps behind it to pay.
    """
    try:
        product = bare()
    except Unimplemented:
        return None
    found = RowProduct.made(planner.library, product, chain)
    large = math.prod(product.arguments[Argument.WEIGHTS].dims) >= _SPLIT
    if found is None and large and RowProduct.made(planner.library, product, ()) is not None:
        raise Unimplemented("functions behind the product of a row")
    return found


def _keep_real(numbers: Numbers | None, posts: Sequence[Post]) -> None:
    """Refuse a product that becomes an integer before something is done with it.

    Raises:
        Unimplemented: It would.
    """
    if posts and numbers is not None and numbers.result in INTEGERS:
        raise Unimplemented(f"{len(posts)} functions of a product that is an integer already")


def _layouts(value: Value, dtype: Element) -> list[Desc]:
    """Layouts to offer for an operand, best first: as it lies, then plain."""
    plain = Desc.plain(value.dims, dtype)
    own = value.desc.of(dtype)
    return [plain] if own is None or own.is_plain else [own, plain]


def flattened(
    planner: Planner, posts: Sequence[Post], dims: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[list[Post], list[Post]]:
    """Posts that mean the same for the flattened result, and the others, whose operands are not vectors of columns."""
    for place, post in enumerate(posts):
        if not isinstance(post, Combine):
            continue
        operand = planner.value(post.value)
        if planner.adds_axes(post, shape):
            return list(posts[:place]), list(posts[place:])
        of_a_row = operand.dims == shape and len(shape) > len(dims)  # a vector of columns, but with more axes
        if (
            post.algorithm & PER_CHANNEL
            or of_a_row
            or not (operand.dims[-1] == math.prod(operand.dims) and operand.dims[-1] in {1, dims[-1]})
        ):
            if post.algorithm & PER_CHANNEL == 0 and operand.dims == shape:
                # Of the result's own size: flattened likewise.
                flat = planner.reshaped(operand, dims)
                name = f"{post.value}:{'x'.join(map(str, dims))}"
                planner.alias(name, flat, post.value)
                rest = flattened(planner, posts[place + 1 :], dims, shape)
                return [*posts[:place], Combine(post.algorithm, name), *rest[0]], rest[1]
            return list(posts[:place]), list(posts[place:])
    return list(posts), []


def bias_of(
    planner: Planner, columns: int, posts: Sequence[Post], shape: Sequence[int]
) -> tuple[Value | None, Sequence[Post]]:
    """A vector of columns that is added first goes in as the bias."""
    first = posts[0] if posts else None
    if isinstance(first, Combine) and first.algorithm == Binary.ADD and not planner.adds_axes(first, shape):
        value = planner.value(first.value)
        if value.weight is not None and math.prod(value.dims) == columns == value.dims[-1]:
            return value, posts[1:]
    return None, posts
