"""Convolutions and transposed convolutions of two axes, and of one, which is the second of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_xnnpack.binding.constants import INFINITY, NO_VALUE
from ort_py_xnnpack.operators.operator import Constants, Operator, attribute, known_sizes, rank, shape_of
from ort_py_xnnpack.operators.windows import Windows, as_two_axes, is_padded_forwards, restored

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder
    from ort_py_xnnpack.operators.integers import Integers

__all__ = ["OPERATORS", "lower_integers"]

Arrange: TypeAlias = "Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]"


_WHOLE_TAPS = frozenset({3, 4, 9, 25})
"""Numbers of taps for which there is code on all processors; other kernels of single channels get taps of weight 0."""


def _channels_last(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    four = array if array.ndim == 4 else array[:, :, None, :]
    return np.ascontiguousarray(four.transpose(0, 2, 3, 1))


def _depthwise(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    four = array if array.ndim == 4 else array[:, :, None, :]
    return np.ascontiguousarray(four.transpose(1, 2, 3, 0))


def _check(node: NodeSpec, graph: Constants) -> str | None:
    if rank(node) not in {3, 4}:
        return f"its data has {max(rank(node) - 2, 0)} axes besides the channels; one and two are supported"
    if not isinstance(shape_of(node)[1], int):
        return "the number of channels is not known"
    if not is_padded_forwards(node):
        return "its padding is negative"
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None and not graph.is_known(bias.name):
        return "its bias is not a constant"
    return None


def _lower(builder: Builder, node: NodeSpec) -> None:
    kernel = node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None

    def weights(form: str, arrange: Arrange, axis: int) -> tuple[int, int]:
        added = NO_VALUE if bias is None else builder.weight(bias, "bias", np.asarray)
        return builder.weight(kernel, form, arrange), added

    _describe(builder, node, builder.shape(kernel), weights, (-INFINITY, INFINITY))


def lower_integers(builder: Builder, found: Integers) -> None:
    """Describe a convolution that computes with integers."""
    held = found.weights
    assert held is not None

    def weights(form: str, arrange: Arrange, axis: int) -> tuple[int, int]:
        return builder.channels(held, form, arrange, axis)

    _describe(builder, found.node, held.numbers.shape, weights, found.limits)


def _describe(
    builder: Builder,
    node: NodeSpec,
    shape: tuple[int, ...],
    weights: Callable[[str, Arrange, int], tuple[int, int]],
    limits: tuple[float, float],
) -> None:
    """Describe a convolution.

    Args:
        builder: The builder.
        node: The node.
        shape: That of its kernel.
        weights: Makes its kernel and its bias, of a name for the layout, what makes it, and the axis of the outputs.
        limits: The smallest and the largest number that is written.
    """
    x = node.inputs[0]
    outputs, per_group, *kernel = shape
    inputs = builder.shape(x)[1]
    groups = int(attribute(node, "group", 1))
    windows = Windows.of(node, builder.shape(x)[2:], kernel)
    source, sizes = as_two_axes(builder, x)
    depthwise = per_group == 1 and groups == inputs and groups > 1
    filters, added = weights(*(("depthwise", _depthwise, 3) if depthwise else ("channels last", _channels_last, 0)))
    if per_group == 1 and windows.kernel[0] * windows.kernel[1] not in _WHOLE_TAPS:
        builder.watch(source)  # what taps of weight 0 read is multiplied, too
    target, done = restored(builder, node.outputs[0], (sizes[0], outputs, *windows.results))
    window = (*windows.padding, *windows.kernel, *windows.strides, *windows.dilations)
    many = (outputs // inputs, inputs) if depthwise else (groups, per_group, outputs // groups)
    name = "depthwise_convolution_2d" if depthwise else "convolution_2d"
    builder.define(name, *window, *many, *limits, source, filters, added, target, 0)
    done()


def _check_transposed(node: NodeSpec, graph: Constants) -> str | None:
    reason = _check(node, graph)
    if reason is not None:
        return reason
    if "output_shape" in node.attributes or attribute(node, "auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        return "the size of its result decides its padding"
    if not known_sizes(node, 1):
        return "the sizes of its kernel are not known"
    strides = attribute(node, "strides", [1] * (rank(node) - 2))
    if any(more >= stride for more, stride in zip(attribute(node, "output_padding", []), strides, strict=False)):
        return "its output_padding is not smaller than its strides"
    return None


def _lower_transposed(builder: Builder, node: NodeSpec) -> None:
    x, kernel = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    inputs, per_group, *_ = builder.shape(kernel)
    groups = int(attribute(node, "group", 1))
    windows = Windows.of(node, builder.shape(x)[2:], builder.shape(kernel)[2:], transposed=True)
    source, sizes = as_two_axes(builder, x)

    def arranged(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        four = array if array.ndim == 4 else array[:, :, None, :]
        rows, columns = four.shape[2:]
        apart = four.reshape(groups, inputs // groups, per_group, rows, columns)
        return np.ascontiguousarray(apart.transpose(0, 2, 3, 4, 1).reshape(-1, rows, columns, inputs // groups))

    filters = builder.weight(kernel, f"transposed of {groups}", arranged)
    added = NO_VALUE if bias is None else builder.weight(bias, "bias", np.asarray)
    target, done = restored(builder, node.outputs[0], (sizes[0], per_group * groups, *windows.results))
    window = (*windows.padding, *windows.more, *windows.kernel, *windows.strides, *windows.dilations)
    many = (groups, inputs // groups, per_group)
    builder.define("deconvolution_2d", *window, *many, -INFINITY, INFINITY, source, filters, added, target, 0)
    done()


OPERATORS = {
    "Conv": Operator(_lower, _check, looked_at=frozenset({1}), heavy=True),
    "ConvTranspose": Operator(_lower_transposed, _check_transposed, looked_at=frozenset({1}), heavy=True),
}
