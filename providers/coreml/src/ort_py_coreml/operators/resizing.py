"""Resize of the last two axes, in the forms that MIL computes as ONNX says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, constant, sizes

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_LINEAR = frozenset({"align_corners", "half_pixel", "pytorch_half_pixel"})


def _scales(node: NodeSpec, graph: Constants) -> tuple[int, int] | str:
    """Return the whole numbers by which the last two axes grow, or the reason why there are none."""
    shape = sizes(node)
    if shape is None or len(shape) != 4:
        return "its data does not have four axes of known sizes"
    axes = [int(axis) % 4 for axis in attribute(node, "axes", range(4))]
    if (
        constant(node, graph, 1) is not None
        and attribute(node, "coordinate_transformation_mode", "") == "tf_crop_and_resize"
    ):
        return "it crops"
    scales, wanted = constant(node, graph, 2), constant(node, graph, 3)
    factors = [1.0] * 4
    for place, axis in enumerate(axes):
        if wanted is not None and wanted.size:
            factors[axis] = float(wanted[place]) / shape[axis]
        elif scales is not None and scales.size:
            factors[axis] = float(scales[place])
    if attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return "it keeps the ratio of sizes"
    if factors[:2] != [1.0, 1.0]:
        return "it resizes the first two axes"
    if any(factor != int(factor) or factor < 1 for factor in factors):
        return "its scales are not whole numbers"
    return int(factors[2]), int(factors[3])


def _check(node: NodeSpec, graph: Constants) -> str | None:
    scales = _scales(node, graph)
    if isinstance(scales, str):
        return scales
    mode, coordinates = (
        attribute(node, "mode", "nearest"),
        attribute(node, "coordinate_transformation_mode", "half_pixel"),
    )
    if mode == "nearest":
        if coordinates == "asymmetric" and attribute(node, "nearest_mode", "round_prefer_floor") == "floor":
            return None
        return "nearest elements are supported for asymmetric coordinates that are rounded down"
    if mode != "linear":
        return f"its mode is {mode}"
    if coordinates not in _LINEAR:
        return f"its coordinates are {coordinates}"
    return "it is smoothed" if attribute(node, "antialias", 0) else None


def _resize(lowering: Lowering, node: NodeSpec) -> Var:
    scales = _scales(node, lowering.graph)
    assert not isinstance(scales, str)
    x = lowering.read(node.inputs[0])
    if attribute(node, "mode", "nearest") == "nearest":
        return lowering.mb.upsample_nearest_neighbor(x=x, scale_factor_height=scales[0], scale_factor_width=scales[1])
    corners = attribute(node, "coordinate_transformation_mode", "half_pixel") == "align_corners"
    height, width = map(np.float32, scales)
    return lowering.mb.upsample_bilinear(
        x=x, scale_factor_height=height, scale_factor_width=width, align_corners=corners
    )


OPERATORS = {"Resize": Operator(_resize, _check, frozenset({1, 2, 3}), since=11)}
