"""The shape of a broadcast result, and ONNX's older, one-sided way of broadcasting.

`broadcast_shape` is the `output_shape` of every element-wise kernel: the engine asks it before it lets the kernel
allocate. Works on anything that has a shape; touches no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.errors import InvalidArgument, Location

__all__ = ["aligned", "broadcast_dims", "broadcast_shape"]


def broadcast_shape(*arrays: Array) -> tuple[int, ...]:
    """Shape of the element-wise result of arrays (ONNX multidirectional broadcasting, as in NumPy).

    Raises:
        InvalidArgument: Two sizes of one axis differ and neither is 1.
    """
    first = arrays[0].shape
    if all(array.shape == first for array in arrays):
        return tuple(first)
    return broadcast_dims([array.shape for array in arrays])


def broadcast_dims(shapes: Sequence[Sequence[int]], where: Location | str = "") -> tuple[int, ...]:
    """`broadcast_shape` for bare shapes."""
    rank = max(len(shape) for shape in shapes)
    result = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, start=rank - len(shape)):
            if dim == 1 or dim == result[axis]:
                continue
            if result[axis] != 1:
                raise InvalidArgument(
                    f"Shapes {' and '.join(str(tuple(s)) for s in shapes)} cannot be broadcast together.",
                    where=where,
                    why=f"axis {axis - rank} has the sizes {result[axis]} and {dim}, and neither is 1",
                    fix="Check the shapes of the inputs that were fed.",
                )
            result[axis] = dim
    return tuple(result)


def aligned(a: Array, b: Array, axis: int | None, broadcast: int, where: Location) -> Any:
    """`b` shaped so that today's broadcasting does what `axis` and `broadcast` said before opset 7.

    Args:
        a: First operand; alone decides the result's shape.
        b: Second operand; with `broadcast`, its shape is a contiguous part of `a`'s beginning at `axis`.
        axis: First axis of `a` that `b` covers; the last ones where None.
        broadcast: 0 asks for equal shapes.
        where: Node, for messages.

    Raises:
        InvalidArgument: The shapes do not fit that way.
    """
    if not broadcast:
        if a.shape != b.shape:
            raise InvalidArgument(
                f"Shapes {a.shape} and {b.shape} differ, and the node does not ask for broadcasting.",
                where=where,
                fix="Before opset 7 an operator broadcasts only with the attribute broadcast=1.",
            )
        return b
    start = a.ndim - b.ndim if axis is None else axis + a.ndim * (axis < 0)
    covered = tuple(a.shape[start : start + b.ndim])
    fits = len(covered) == b.ndim and all(own in (1, dim) for own, dim in zip(b.shape, covered, strict=True))
    if start < 0 or not fits:
        raise InvalidArgument(
            f"Shape {b.shape} does not fit into {a.shape} at axis {start}.",
            where=where,
            why=f"the axes it would cover have the sizes {covered}",
            fix="Check the attribute 'axis' and the shapes of the inputs that were fed.",
        )
    return b.reshape(b.shape + (1,) * (a.ndim - start - b.ndim))
