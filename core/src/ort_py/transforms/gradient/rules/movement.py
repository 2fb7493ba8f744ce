"""Operators that move or repeat elements as a whole: the gradient moves back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.transforms.gradient.registry import Call, Gradients, rule, unsupported
from ort_py.transforms.gradient.rules.indexing import scattered

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


@rule("Flatten", "Reshape", "Squeeze", "Unsqueeze")
def reshape(b: GradientBuilder, call: Call) -> Gradients:
    """The same elements in another shape."""
    return [b.reshape_like(call.grad, call.input(0))]


@rule("Transpose")
def transpose(b: GradientBuilder, call: Call) -> Gradients:
    """Axes in another order."""
    permutation = call.attribute("perm")
    if permutation is None:
        return [b("Transpose", call.grad)]  # reversing the axes undoes itself
    back = sorted(range(len(permutation)), key=lambda axis: permutation[axis])
    return [b.transpose(call.grad, *back)]


@rule("Expand", since=8)
def expand(b: GradientBuilder, call: Call) -> Gradients:
    return [b.sum_to(call.grad, call.output(0).shape, call.input(0))]


@rule("Tile", since=6)
def tile(b: GradientBuilder, call: Call) -> Gradients:
    """Repetitions side by side: each axis becomes two, repetitions and elements."""
    rank = call.rank()
    if rank == 0:
        return [call.grad]
    shape = b.shape(call.input(0))
    sizes = [b.part(vector, axis, axis + 1) for axis in range(rank) for vector in (call.x(1), shape)]
    split = b.reshape(call.grad, b.concat(*sizes))
    return [b.sum(split, tuple(range(0, 2 * rank, 2)))]


@rule("Concat", since=4)
def concat(b: GradientBuilder, call: Call) -> Gradients:
    axis = call.axis(1)
    start = b.ints(0)
    grads: list[str | None] = []
    for position in range(len(call.node.inputs)):
        end = b("Add", start, b.part(b.shape(call.input(position)), axis, axis + 1))
        grads.append(b("Slice", call.grad, start, end, b.ints(axis)) if call.wants(position) else None)
        start = end
    return grads


@rule("Split", since=2)
def split(b: GradientBuilder, call: Call) -> Gradients:
    """The parts together; those without a gradient are zero."""
    parts = [
        grad or b.zeros_like(call.output(position))
        for position, grad in enumerate(call.grads)
        if position < len(call.node.outputs) and call.node.outputs[position] is not None
    ]
    return [b("Concat", *parts, axis=call.attribute("axis", 0))]


@rule("Pad", since=11)
def pad(b: GradientBuilder, call: Call) -> Gradients:
    """Constants around: negative pads take them away again. Other modes copy elements, see `indexing`."""
    if call.attribute("mode", "constant") != "constant":
        return [scattered(b, call, unique=False)]
    axes = call.x(3) if call.has(3) else None
    grad = b("Pad", call.grad, b("Neg", call.x(1)), 0.0, axes)
    around = None
    if call.wants(2):
        around = b("Sub", b.sum(call.grad, None), b.sum(grad, None))
        around = b.reshape_like(around, call.input(2))
    return [grad, None, around]


@rule("DepthToSpace")
def depth_to_space(b: GradientBuilder, call: Call) -> Gradients:
    """Blocks of channels to blocks of pixels."""
    if call.attribute("mode", "DCR") != "DCR":
        return [scattered(b, call, unique=True)]
    return [b("SpaceToDepth", call.grad, blocksize=call.attribute("blocksize"))]


@rule("SpaceToDepth")
def space_to_depth(b: GradientBuilder, call: Call) -> Gradients:
    """Blocks of pixels to blocks of channels."""
    return [b("DepthToSpace", call.grad, blocksize=call.attribute("blocksize"))]


@rule("ReverseSequence", since=10)
def reverse_sequence(b: GradientBuilder, call: Call) -> Gradients:
    return [b("ReverseSequence", call.grad, call.x(1), **dict(call.node.attributes))]


@rule("Resize", since=11)
def resize(b: GradientBuilder, call: Call) -> Gradients:
    """The nearest element, which may be taken many times; interpolation is not covered."""
    mode, crops = call.attribute("mode", "nearest"), call.attribute("coordinate_transformation_mode", "half_pixel")
    if mode != "nearest" or crops == "tf_crop_and_resize":
        raise unsupported(call, f"its mode is '{mode}' with '{crops}'; mode 'nearest' without cropping is covered")
    return [scattered(b, call, unique=False)]
