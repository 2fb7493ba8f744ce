"""Resize of the last two axes, in the forms that MIL computes as ONNX says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, constant, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_LINEAR = {
    "align_corners": "STRICT_ALIGN_CORNERS",
    "asymmetric": "DEFAULT",
    "half_pixel": "UNALIGN_CORNERS",
    "half_pixel_symmetric": "UNALIGN_CORNERS",
    "pytorch_half_pixel": "UNALIGN_CORNERS",
}
"""MIL's names of the coordinates; those of ONNX differ where a result has one element only, or a part of one."""

_HALF = frozenset({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"})
_ROUNDED = frozenset({"round_prefer_ceil", "round_prefer_floor"})


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of an axis.

    Attributes:
        factor: The size behind it, divided by that before.
        size: The size behind it; no integer if it is not known.
    """

    factor: float
    size: Any

    @property
    def grows(self) -> bool:
        """Whether each element becomes a whole number of them."""
        return self.factor >= 1 and self.factor == int(self.factor)


def _changes(node: NodeSpec, graph: Constants) -> list[_Change] | str:
    """Return the changes of the last two axes, or the reason why they are not known, or are not whole."""
    shape = shape_of(node)
    if len(shape) != 4:
        return "its data does not have four axes"
    axes = [int(axis) % 4 for axis in attribute(node, "axes", range(4))]
    if attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return "it keeps the ratio of sizes"
    scales, wanted = constant(node, graph, 2), constant(node, graph, 3)
    found = [_Change(1.0, size) for size in shape]
    for place, axis in enumerate(axes):
        before = shape[axis]
        if wanted is not None and wanted.size:
            if not isinstance(before, int):
                return "a size of its data is not known, and it has a size for its result"
            found[axis] = _Change(int(wanted[place]) / before, int(wanted[place]))
        elif scales is not None and scales.size:
            factor = float(scales[place])
            behind = before * factor if isinstance(before, int) else None
            found[axis] = _Change(factor, None if behind is None or behind != int(behind) else int(behind))
    if any(one.factor != 1 for one in found[:2]):
        return "it resizes the first two axes"
    if any(not one.grows and not isinstance(one.size, int) for one in found[2:]):
        return "its scales are not whole numbers, and give parts of elements or a size that is not known"
    return found[2:]


def _check(node: NodeSpec, graph: Constants) -> str | None:
    changes = _changes(node, graph)
    if isinstance(changes, str):
        return changes
    mode, coordinates = _mode(node)
    whole = all(one.grows for one in changes)
    if mode == "nearest":
        nearest = attribute(node, "nearest_mode", "round_prefer_floor")
        if whole and (
            (coordinates == "asymmetric" and nearest == "floor") or (coordinates in _HALF and nearest in _ROUNDED)
        ):
            return None
        if not whole:
            return "it takes nearest elements, and its scales are not whole numbers"
        return f"its nearest element is not the one that it lies in: {coordinates} coordinates, {nearest}"
    if mode != "linear":
        return f"its mode is {mode}"
    if coordinates not in _LINEAR:
        return f"its coordinates are {coordinates}"
    if coordinates in ("align_corners", "asymmetric", "pytorch_half_pixel") and any(one.size == 1 for one in changes):
        return f"its result has an axis of one element, and {coordinates} coordinates"
    if coordinates in ("asymmetric", "align_corners") and not all(isinstance(one.size, int) for one in changes):
        return f"sizes of its data are not known, and it has {coordinates} coordinates"
    return "it is smoothed" if attribute(node, "antialias", 0) else None


def _mode(node: NodeSpec) -> tuple[str, str]:
    return attribute(node, "mode", "nearest"), attribute(node, "coordinate_transformation_mode", "half_pixel")


def _resize(lowering: Lowering, node: NodeSpec) -> Var:
    changes = _changes(node, lowering.graph)
    assert not isinstance(changes, str), "others are refused"
    mb, x, (mode, coordinates) = lowering.mb, lowering.read(node.inputs[0]), _mode(node)
    height, width = changes
    if mode == "nearest":
        factors = {"scale_factor_height": int(height.factor), "scale_factor_width": int(width.factor)}
        return mb.upsample_nearest_neighbor(x=x, **factors)
    if isinstance(height.size, int) and isinstance(width.size, int):
        return mb.resize_bilinear(
            x=x, target_size_height=height.size, target_size_width=width.size, sampling_mode=_LINEAR[coordinates]
        )
    return mb.upsample_bilinear(
        x=x,
        scale_factor_height=np.float32(height.factor),
        scale_factor_width=np.float32(width.factor),
        align_corners=False,
    )


OPERATORS = {"Resize": Operator(_resize, _check, frozenset({1, 2, 3}), since=11)}
