"""Undoing broadcasting: the gradient of a value that was repeated is the sum over its repetitions.

Used through `GradientBuilder.sum_to`. Axes whose sizes are known, or have one name, are decided here; the others are
left for the run to decide, by comparing shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.contracts import ValueSpec
from ort_py.dtypes import Dim, Shape

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder

__all__ = ["sum_to"]


def sum_to(b: GradientBuilder, grad: str, shape: Shape | None, target: ValueSpec) -> str:
    wanted = target.shape
    if wanted == ():
        return grad if shape == () else b.sum(grad, None)
    if shape is None or wanted is None:
        return _any_rank(b, grad, target)
    extra = len(shape) - len(wanted)
    grad = b.sum(grad, tuple(range(extra)))
    kinds = [_repeated(size, whole) for size, whole in zip(wanted, shape[extra:], strict=True)]
    grad = b.sum(grad, tuple([axis for axis, kind in enumerate(kinds) if kind]), keepdims=True)
    unsure = [axis for axis, kind in enumerate(kinds) if kind is None]
    if not unsure:
        return grad
    if b.opset >= 13:
        axes = _differing(b, b.shape(target), b.shape(grad))
        return b("ReduceSum", grad, axes, keepdims=1, noop_with_empty_axes=1)
    for axis in unsure:
        grad = _sum_or_not(b, grad, axis, target)
    return grad


def _repeated(size: Dim, whole: Dim) -> bool | None:
    """Return whether an axis was repeated from `size` to `whole`, or None if this is only known in a run."""
    if size == whole and size is not None:
        return False
    if size == 1:
        return True
    if isinstance(size, int) or whole == 1:
        return False
    return None


def _differing(b: GradientBuilder, first: str, second: str) -> str:
    """Positions at which two vectors of one length differ."""
    return b("Squeeze", b("NonZero", b("Not", b("Equal", first, second))), b.ints(0))


def _any_rank(b: GradientBuilder, grad: str, target: ValueSpec) -> str:
    if b.opset < 13:
        raise b.needs_opset(13, f"broadcasting of '{target.name}', whose rank is unknown,")
    whole, part = b.shape(grad), b.shape(target)
    missing = b("Sub", b("Shape", whole), b("Shape", part))
    padded = b.concat(b("Expand", b.ints(1), missing), part)
    axes = _differing(b, padded, whole)
    return b.reshape(b("ReduceSum", grad, axes, keepdims=1, noop_with_empty_axes=1), part)


def _sum_or_not(b: GradientBuilder, grad: str, axis: int, target: ValueSpec) -> str:
    """Sum over an axis if the target has size 1 there, while axes are attributes and cannot be computed.

    The sum is put in front of the gradient, and a slice takes one or the other.
    """
    size = b.part(b.shape(target), axis, axis + 1)
    start = b("Cast", b("Not", b("Equal", size, b.ints(1))), to=7)
    both = b("Concat", b.sum(grad, (axis,), keepdims=True), grad, axis=axis)
    return b("Slice", both, start, b("Add", start, size), b.ints(axis))
