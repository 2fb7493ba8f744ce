"""Resize and Upsample: which coordinates and roundings are those of oneDNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec
from ort_py.dtypes import Shape
from ort_py_onednn.graph.resampling import NEAREST_COORDINATES, nearest_places, onednn_places
from ort_py_onednn.graph.support.rule import Rule, Rules, shape_of, value_name

__all__ = ["RULES"]

_TRIED = 7
"""Size for which whole factors are tried where it is not known."""
_COMPARED = 1 << 20
"""Rows or columns up to which oneDNN's choice is compared with ONNX's: nothing has bounded the sizes of a model yet."""
_COPIED = 32
"""Rows or columns up to which each may be a copy of its own."""


def _resize(node: NodeSpec, graph: GraphView) -> str | None:
    attributes = node.attributes
    shape, rank = shape_of(node, 0), len(shape_of(node, 0))
    if not 3 <= rank <= 5:
        return f"{rank} dimensions; 3 to 5 are supported"
    mode = attributes.get("mode", "nearest")
    if attributes.get("antialias", 0) or attributes.get("axes") or attributes.get("exclude_outside", 0):
        return "it has antialias, axes or exclude_outside"
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "it has a policy of aspect ratios"
    old = node.op_type == "Upsample" or node.since_version < 11
    way = "asymmetric" if old else attributes.get("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest" and way not in NEAREST_COORDINATES:
        return f"coordinates {way}"
    if mode == "linear" and way not in {"half_pixel", "half_pixel_symmetric"}:
        return f"coordinates {way}"
    if mode not in {"nearest", "linear"}:
        return f"mode {mode}"
    if value_name(node, 3) and graph.constant(value_name(node, 3)) is None:
        return None  # sizes that follow from shapes: any can be had, whole factors and linear ones in one primitive
    scales = _factors(node, graph)
    if scales is None:
        return "neither scales nor sizes can be compared with the input's shape"
    if any(scale != 1 for scale in scales[:2]):
        return "it changes sizes that are not spatial"
    if mode == "nearest":
        return _nearest(shape, scales, way, "simple" if old else attributes.get("nearest_mode", "round_prefer_floor"))
    if any(scale != int(scale) for scale in scales) and not all(isinstance(dim, int) for dim in shape):
        return "its factors are not integers, and sizes are not known"
    if any(isinstance(dim, int) and dim * scale != int(dim * scale) for dim, scale in zip(shape, scales, strict=True)):
        return "sizes are rounded"
    return None


def _nearest(shape: Shape, scales: Sequence[float], way: str, rounding: str) -> str | None:
    """Compare oneDNN's choice with ONNX's, by elements for known sizes and by whole factors for others."""
    for dim, scale in zip(shape[2:], scales[2:], strict=True):
        if not isinstance(dim, int) and scale != int(scale):
            return "its factors are not integers, and sizes are not known"
        size = dim if isinstance(dim, int) else _TRIED
        target = int(size * scale)
        if max(size, target) > _COMPARED:
            return f"{target} rows or columns"
        places = nearest_places(way, rounding, size, target, scale)
        if np.array_equal(places, onednn_places(size, target)):
            continue
        if not isinstance(dim, int) or target > _COPIED:
            return f"coordinates {way} with {rounding}"
    return None


def _factors(node: NodeSpec, graph: GraphView) -> list[float] | None:
    """Scale of each dimension."""
    found: Any = None
    if node.op_type == "Upsample":
        found = graph.constant(value_name(node, 1)) if node.since_version >= 9 else node.attributes.get("scales")
    else:
        place = 1 if node.since_version < 11 else 2
        found = graph.constant(value_name(node, place)) if value_name(node, place) else None
        if (found is None or not np.size(found)) and value_name(node, 3):
            sizes = graph.constant(value_name(node, 3))
            shape = shape_of(node, 0)
            if sizes is None or sizes.ndim != 1 or not all(isinstance(dim, int) and dim for dim in shape):
                return None
            return [int(size) / int(dim) for size, dim in zip(sizes, shape, strict=True)]  # type: ignore[arg-type]  # all are int
    return None if found is None or np.ndim(found) != 1 or not len(found) else [float(scale) for scale in found]


RULES: Rules = {
    ("", "Resize"): Rule(_resize, frozenset({1, 2, 3}), frozenset({3})),
    ("", "Upsample"): Rule(_resize, frozenset({1})),
}
