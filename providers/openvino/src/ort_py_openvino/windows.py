"""Convolutions, pools and resizing: forms that OpenVINO computes otherwise than ONNX says.

A part of `defects`, which has the rules for its tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py_openvino.kept_sizes import keeps_batch_and_channels

__all__ = ["average_pool", "conv", "conv_transpose", "lp_pool", "max_pool", "resize", "upsample"]

_CLOSE = 1e-5
"""Relative distance from an integer at which it may round a size up."""


def conv(node: NodeSpec, graph: GraphView) -> str | None:
    """Kernels of a single tap, and results of a single column."""
    attributes = node.attributes
    weights = node.inputs[1]
    kernel = () if weights is None or weights.shape is None else weights.shape[2:]
    strides = attributes.get("strides") or (1,) * len(kernel)
    padded = any(attributes.get("pads") or ()) and _padding(node) == "NOTSET"
    if padded and all(size == 1 for size in kernel) and max(strides, default=1) > 1:
        return "it applies the strides of a kernel of a single tap before the pads"
    one_channel = weights is not None and weights.shape is not None and weights.shape[1] == 1
    if len(kernel) < 2 or not one_channel or attributes.get("group", 1) != 1:
        return None
    width = _sizes(node)[-1:]
    if kernel[-1] != 1 and strides[-1] > 1 == strides[-2] and not _has_columns(node, kernel[-1], *width):
        return "it reads the wrong elements of one channel if the result has a single column"
    return None


def max_pool(node: NodeSpec, graph: GraphView) -> str | None:
    """Places of the largest elements, padding to the size of inputs of unknown sizes, and windows behind the data."""
    if len(node.outputs) > 1 and node.outputs[1] is not None:
        return "it counts the positions of the largest elements differently"
    return _same_padding(node) or _windows_behind(node)


def average_pool(node: NodeSpec, graph: GraphView) -> str | None:
    """Windows that reach behind the padding are divided by another count."""
    if node.attributes.get("ceil_mode", 0) and node.attributes.get("count_include_pad", 0):
        return "it divides windows at the border by a different count if ceil_mode and count_include_pad are set"
    return _same_padding(node) or _windows_behind(node)


def lp_pool(node: NodeSpec, graph: GraphView) -> str | None:
    """Windows at the border are made larger by a factor."""
    return "it scales windows at the border if ceil_mode is set" if node.attributes.get("ceil_mode", 0) else None


def conv_transpose(node: NodeSpec, graph: GraphView) -> str | None:
    """Sizes of results that do not follow from pads."""
    if _padding(node).startswith("SAME"):
        return "it pads to a different size with auto_pad"
    return "it pads differently to reach output_shape" if "output_shape" in node.attributes else None


def resize(node: NodeSpec, graph: GraphView) -> str | None:
    """Modes that it ignores or computes otherwise."""
    attributes = node.attributes
    if attributes.get("antialias", 0) or attributes.get("exclude_outside", 0):
        return "it computes antialias and exclude_outside differently"
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "it ignores keep_aspect_ratio_policy"
    if not keeps_batch_and_channels(node, graph):
        return "it resizes neither batches nor channels"
    by_scales = len(node.inputs) > 2 and node.inputs[2] is not None
    if attributes.get("coordinate_transformation_mode") == "align_corners" and by_scales:
        return "it aligns corners by the rounded size instead of by the scales"
    if by_scales and not _are_exact(node.inputs[2], node.inputs[0], graph):
        return "it rounds the size of a result up if the scales give almost an integer"
    return None


def upsample(node: NodeSpec, graph: GraphView) -> str | None:
    """Axes that it does not resize."""
    return None if keeps_batch_and_channels(node, graph) else "it resizes neither batches nor channels"


def _are_exact(scales: ValueSpec | None, data: ValueSpec | None, graph: GraphView) -> bool:
    """Return whether sizes times scales are either integers or far from any."""
    given = None if scales is None else graph.constant(scales.name)
    if given is None or data is None or data.shape is None:
        return given is not None and not given.size
    for size, scale in zip(data.shape, map(float, given), strict=False):
        if not isinstance(size, int):
            if not (scale * 256).is_integer():
                return False
        elif not (size * scale).is_integer() and abs(size * scale - round(size * scale)) < _CLOSE * size:
            return False
    return True


def _has_columns(node: NodeSpec, taps: int | str | None, width: int | str | None = None) -> bool:
    """Return whether the result of a convolution is known to have more than one element along its last axis."""
    if not isinstance(taps, int) or not isinstance(width, int):
        return False
    pads, stride = node.attributes.get("pads") or (), int(node.attributes["strides"][-1])
    dilation = int((node.attributes.get("dilations") or (1,))[-1])
    room = width - dilation * (taps - 1) - 1
    if _padding(node) == "NOTSET" and pads:
        room += int(pads[len(pads) // 2 - 1]) + int(pads[-1])
    return width > stride if _padding(node).startswith("SAME") else room >= stride


def _same_padding(node: NodeSpec) -> str | None:
    padded = _padding(node).startswith("SAME")
    unknown = not all(isinstance(size, int) for size in _sizes(node))
    return "it computes auto_pad differently for sizes that are known only in a run" if padded and unknown else None


def _windows_behind(node: NodeSpec) -> str | None:
    """With `ceil_mode`, a window that would begin behind the data is none of ONNX's and one of OpenVINO's."""
    attributes = node.attributes
    if not attributes.get("ceil_mode", 0):
        return None
    shape = _sizes(node)
    rank = len(shape)
    kernel = attributes["kernel_shape"]
    strides = attributes.get("strides") or (1,) * rank
    pads = attributes.get("pads") or (0,) * (2 * rank)
    dilations = attributes.get("dilations") or (1,) * rank
    for axis, size in enumerate(shape):
        if not isinstance(size, int):
            return "with ceil_mode it has windows that begin behind the data"
        reach = size + pads[axis] + pads[axis + rank] - dilations[axis] * (kernel[axis] - 1) - 1
        windows = -(-reach // strides[axis]) + 1
        if (windows - 1) * strides[axis] >= size + pads[axis]:
            return "with ceil_mode it has a window that begins behind the data"
    return None


def _sizes(node: NodeSpec) -> Sequence[int | str | None]:
    value = node.inputs[0]
    return () if value is None or value.shape is None else value.shape[2:]


def _padding(node: NodeSpec) -> str:
    return _text(node.attributes.get("auto_pad", "NOTSET"))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
