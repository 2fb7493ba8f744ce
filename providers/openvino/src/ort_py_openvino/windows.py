"""Pools, transposed convolutions and resizing: forms that OpenVINO computes otherwise than ONNX says.

A part of `defects`, which has the rules for its tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import GraphView, NodeSpec

__all__ = ["average_pool", "conv_transpose", "lp_pool", "max_pool", "resize"]


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
    if str(_text(node.attributes.get("auto_pad", "NOTSET"))).startswith("SAME"):
        return "it pads to a different size with auto_pad"
    return "it pads differently to reach output_shape" if "output_shape" in node.attributes else None


def resize(node: NodeSpec, graph: GraphView) -> str | None:
    """Modes that it ignores or computes otherwise."""
    attributes = node.attributes
    if attributes.get("antialias", 0) or attributes.get("exclude_outside", 0):
        return "it computes antialias and exclude_outside differently"
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "it ignores keep_aspect_ratio_policy"
    by_scales = len(node.inputs) > 2 and node.inputs[2] is not None
    if attributes.get("coordinate_transformation_mode") == "align_corners" and by_scales:
        return "it aligns corners by the rounded size instead of by the scales"
    return None


def _same_padding(node: NodeSpec) -> str | None:
    padded = str(_text(node.attributes.get("auto_pad", "NOTSET"))).startswith("SAME")
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


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
