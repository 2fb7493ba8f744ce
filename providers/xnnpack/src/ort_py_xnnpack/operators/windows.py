"""Windows that slide over two axes: kernels, strides and padding as XNNPACK wants them, and the sizes that result.

Data with one axis besides the channels is data with two of which the first has the size 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_xnnpack.operators.operator import attribute

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = ["Windows", "as_two_axes", "is_padded_forwards", "restored"]


def is_padded_forwards(node: NodeSpec) -> bool:
    """Return whether no padding is negative."""
    return all(one >= 0 for one in attribute(node, "pads", []))


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a node.

    Attributes:
        padding: Above, on the right, below, on the left.
        kernel, strides, dilations: Of two axes.
        more: Rows and columns that a transposed convolution adds.
        results: Sizes of the result, as many as the node has axes besides the channels.
        cut: Whether a window reaches beyond the padding, so that it has fewer elements.
    """

    padding: tuple[int, int, int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    more: tuple[int, int]
    results: tuple[int, ...]
    cut: bool = False

    @classmethod
    def of(cls, node: NodeSpec, sizes: Sequence[int], kernel: Sequence[int], *, transposed: bool = False) -> Windows:
        """The windows of a node over data of given sizes.

        Raises:
            EPFail: A window is larger than the data.
        """
        count = len(sizes)
        strides = [int(one) for one in attribute(node, "strides", [1] * count)]
        dilations = [int(one) for one in attribute(node, "dilations", [1] * count)]
        pads = [int(one) for one in attribute(node, "pads", [0] * 2 * count)]
        more = [int(one) for one in attribute(node, "output_padding", [0] * count)]
        kind = str(attribute(node, "auto_pad", "NOTSET"))
        up = bool(attribute(node, "ceil_mode", 0))
        before, after, results, cut = [], [], [], False
        for axis, size in enumerate(sizes):
            reach = (int(kernel[axis]) - 1) * dilations[axis] + 1
            first, second = pads[axis], pads[axis + count]
            if kind.startswith("SAME"):
                needed = max((math.ceil(size / strides[axis]) - 1) * strides[axis] + reach - size, 0)
                first, second = needed // 2, needed - needed // 2
                if kind == "SAME_LOWER":
                    first, second = second, first
            elif kind == "VALID":
                first = second = 0
            if transposed:
                results.append((size - 1) * strides[axis] + reach + more[axis] - first - second)
            else:
                left = size + first + second - reach
                if left < 0:
                    raise EPFail(
                        "A window is larger than the data and its padding.", fix="run it with another provider"
                    )
                steps = left // strides[axis]
                if up and left % strides[axis] and (steps + 1) * strides[axis] < size + first:
                    steps, cut = steps + 1, True
                    second += steps * strides[axis] - left
                results.append(steps + 1)
            before.append(first)
            after.append(second)
        if count == 1:
            before, after, more = [0, *before], [0, *after], [0, *more]
            kernel, strides, dilations = [1, *kernel], [1, *strides], [1, *dilations]
        return cls(
            (before[0], after[1], after[0], before[1]),
            (int(kernel[0]), int(kernel[1])),
            (strides[0], strides[1]),
            (dilations[0], dilations[1]),
            (more[0], more[1]),
            tuple(results),
            cut,
        )


def as_two_axes(builder: Builder, value: ValueSpec | None) -> tuple[int, tuple[int, ...]]:
    """Data with its channels last and two other axes, and its sizes in ONNX's order."""
    from ort_py_xnnpack.execution.builder import last

    shape = builder.shape(value)
    number = builder.read(value, last(len(shape)))
    if len(shape) == 4:
        return number, shape
    sizes = shape[0], 1, shape[2], shape[1]
    wide = builder.between(sizes, builder.grid(number))
    builder.reshape(number, wide, sizes)
    return wide, (shape[0], shape[1], 1, shape[2])


def restored(builder: Builder, value: ValueSpec | None, shape: tuple[int, ...]) -> tuple[int, Callable[[], None]]:
    """What a node writes that computes with two axes, and what has to be called after it was added.

    Args:
        builder: The builder.
        value: The node's output.
        shape: Its sizes in ONNX's order.
    """
    from ort_py_xnnpack.execution.builder import last

    order = last(len(shape))
    if len(shape) == 4:
        return builder.write(value, shape, order), lambda: None
    stored = shape[0], shape[2], shape[1]
    wide = builder.between((shape[0], 1, *stored[1:]), builder.grid_of(value))

    def narrow() -> None:
        builder.reshape(wide, builder.write(value, shape, order), stored)

    return wide, narrow
