"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


class _Window:
    """The window of a convolution or of pooling.

    Attributes:
        kernel: Its size along each axis.
        pads: Padding before and after each axis in turn, as MIL has it; None if it depends on sizes that are unknown.
        rounded: The part of it that there is because sizes are rounded up.
    """

    rounded = 0

    def __init__(self, node: NodeSpec, kernel: Sequence[int]) -> None:
        self.kernel = [int(size) for size in kernel]
        count = len(self.kernel)
        self.strides = [int(one) for one in attribute(node, "strides", [1] * count)]
        self.dilations = [int(one) for one in attribute(node, "dilations", [1] * count)]
        self.spans = [(size - 1) * dilation + 1 for size, dilation in zip(self.kernel, self.dilations, strict=True)]
        self.shape = shape_of(node)[2:]
        self.pads = self._pads(node)
        if attribute(node, "ceil_mode", 0):
            self._round_up()

    def _pads(self, node: NodeSpec) -> list[int] | None:
        mode = attribute(node, "auto_pad", "NOTSET")
        count = len(self.kernel)
        if mode == "VALID":
            return [0] * 2 * count
        if mode == "NOTSET":
            given = [int(one) for one in attribute(node, "pads", [0] * 2 * count)]
            return [given[axis + count * side] for axis in range(count) for side in (0, 1)]
        found: list[int] = []
        for size, stride, span in zip(self.shape, self.strides, self.spans, strict=True):
            if not isinstance(size, int):
                return None
            total = max((-(-size // stride) - 1) * stride + span - size, 0)
            first = total // 2 if mode == "SAME_UPPER" else total - total // 2
            found += [first, total - first]
        return found

    def _round_up(self) -> None:
        """Pad behind axes until their last, partial windows are whole. ONNX has none that begin in the padding."""
        pads = self.pads
        for axis, (size, stride, span) in enumerate(zip(self.shape, self.strides, self.spans, strict=True)):
            if pads is None or not isinstance(size, int):
                continue
            before, whole = pads[2 * axis], size + pads[2 * axis] + pads[2 * axis + 1]
            count = -(-(whole - span) // stride) + 1
            count -= (count - 1) * stride >= size + before
            self.rounded += max((count - 1) * stride + span - whole, 0)
            pads[2 * axis + 1] += max((count - 1) * stride + span - whole, 0)

    def refusal(self) -> str | None:
        """Return why MIL has no such window, or None."""
        if self.pads is None:
            return "its padding depends on sizes that are not known"
        if any(one < 0 for one in self.pads):
            return "its padding is negative"
        return None

    def exceeds(self) -> bool:
        """Return whether it is larger than an axis of known size, with its padding."""
        pads = self.pads
        assert pads is not None
        return any(
            isinstance(size, int) and size + pads[2 * axis] + pads[2 * axis + 1] < self.spans[axis]
            for axis, size in enumerate(self.shape)
        )


def _kernel(node: NodeSpec) -> Sequence[int]:
    """Return the kernel of a convolution, which is that of its weight."""
    return shape_of(node, 1)[2:]


def _check_conv(node: NodeSpec, graph: Constants) -> str | None:
    if not 3 <= len(shape_of(node)) <= 5:
        return "its data has neither one, two nor three axes behind the channels"
    if not all(isinstance(size, int) for size in shape_of(node, 1)):
        return "the sizes of its weight are not known"
    return _Window(node, _kernel(node)).refusal()


def _arguments(lowering: Lowering, node: NodeSpec) -> dict[str, Any]:
    """Return what convolutions of both directions take; the weight and the bias are constants or dequantized."""
    window = _Window(node, _kernel(node))
    given = zip(("x", "weight", "bias"), node.inputs, strict=False)
    return {
        **{name: lowering.read(value) for name, value in given if value is not None},
        "strides": window.strides,
        "pad_type": "custom",
        "pad": window.pads,
        "dilations": window.dilations,
        "groups": int(attribute(node, "group", 1)),
    }


def _conv(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.conv(**_arguments(lowering, node))


def _check_transposed(node: NodeSpec, graph: Constants) -> str | None:
    if not 3 <= len(shape_of(node)) <= 5:
        return "its data has neither one, two nor three axes behind the channels"
    if any(attribute(node, "output_padding", ())):
        return "it has output_padding"
    if attribute(node, "output_shape", None) is not None or attribute(node, "auto_pad", "NOTSET") != "NOTSET":
        return "its padding follows from the size of its result"
    return _Window(node, _kernel(node)).refusal()


def _transposed(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.conv_transpose(**_arguments(lowering, node))


def _check_pool(node: NodeSpec, graph: Constants) -> str | None:
    if not 3 <= len(shape_of(node)) <= 5:
        return "its data has neither one, two nor three axes behind the channels"
    if any(value is not None for value in node.outputs[1:]):
        return "it gives the indices of the largest elements"
    window = _Window(node, attribute(node, "kernel_shape", ()))
    if any(one != 1 for one in window.dilations):
        return "its window has gaps"
    reason = window.refusal()
    if reason is None and window.exceeds():
        return "its window is larger than its data"
    if reason is None and attribute(node, "ceil_mode", 0):
        steps = zip(window.shape, window.strides, strict=True)
        if any(stride > 1 and not isinstance(size, int) for size, stride in steps):
            return "it rounds sizes up that are not known"
        if window.rounded and attribute(node, "count_include_pad", 0):
            return "it rounds sizes up, and divides by elements of the padding"
    return reason


def _max_pool(lowering: Lowering, node: NodeSpec) -> Var:
    window = _Window(node, attribute(node, "kernel_shape", ()))
    return lowering.mb.max_pool(
        x=lowering.read(node.inputs[0]),
        kernel_sizes=window.kernel,
        strides=window.strides,
        pad_type="custom",
        pad=window.pads,
    )


def _average_pool(lowering: Lowering, node: NodeSpec) -> Var:
    window = _Window(node, attribute(node, "kernel_shape", ()))
    return lowering.mb.avg_pool(
        x=lowering.read(node.inputs[0]),
        kernel_sizes=window.kernel,
        strides=window.strides,
        pad_type="custom",
        pad=window.pads,
        exclude_padding_from_average=not attribute(node, "count_include_pad", 0),
    )


OPERATORS = {
    "AveragePool": Operator(_average_pool, _check_pool, since=7),
    "Conv": Operator(_conv, _check_conv, frozenset({2}), frozenset({1, 2}), heavy=True),
    "ConvTranspose": Operator(_transposed, _check_transposed, frozenset({1, 2}), frozenset({1, 2}), heavy=True),
    "MaxPool": Operator(_max_pool, _check_pool),
}
