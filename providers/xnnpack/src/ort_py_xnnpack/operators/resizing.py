"""Resizing of two axes: by neighbours that are repeated, and by straight lines between neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.contracts import NodeSpec
from ort_py_xnnpack.binding.constants import Flag
from ort_py_xnnpack.operators.operator import Constants, Operator, attribute, constant, shape_of

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = ["OPERATORS"]


def _targets(node: NodeSpec, graph: Constants) -> tuple[int, int] | str:
    """Sizes of the result, or why it is none that XNNPACK makes."""
    shape = shape_of(node)
    if len(shape) != 4 or not all(isinstance(dim, int) for dim in shape[2:]):
        return "its data has not two axes of known size besides the channels"
    if "axes" in node.attributes or "roi" in str(attribute(node, "coordinate_transformation_mode", "")):
        return "it names axes or a region"
    sizes = constant(node, graph, 3)
    if sizes is not None and sizes.size:
        if attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
            return "it keeps the ratio of its sizes"
        found = [int(one) for one in sizes.reshape(-1)]
        if found[:2] != list(shape[:2]):
            return "it resizes the channels, or their number is not known"
        return found[2], found[3]
    scales = constant(node, graph, 2)
    if scales is None or scales.size != 4 or scales[0] != 1 or scales[1] != 1:
        return "its scales are not those of two axes"
    exact = [float(scale) * size for scale, size in zip(scales[2:], shape[2:], strict=True)]
    if any(one != int(one) or one < 1 for one in exact):
        return "its scales do not give whole sizes"
    return int(exact[0]), int(exact[1])


def _check(node: NodeSpec, graph: Constants) -> str | None:
    found = _targets(node, graph)
    if isinstance(found, str):
        return found
    mode = attribute(node, "mode", "nearest")
    coordinates = attribute(node, "coordinate_transformation_mode", "half_pixel")
    if attribute(node, "antialias", 0):
        return "it smooths"
    if mode == "linear":
        if coordinates not in {"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"}:
            return f"XNNPACK has no {coordinates}"
        return None if min(found) > 1 else "one of its results has the size 1"
    factors = [new / old for new, old in zip(found, shape_of(node)[2:], strict=True)]
    rounding = attribute(node, "nearest_mode", "round_prefer_floor")
    if mode != "nearest" or any(one != int(one) for one in factors):
        return "it neither repeats elements nor draws lines between them"
    if (coordinates, rounding) in {
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
    }:
        return None
    return f"repeated elements are not what {coordinates} and {rounding} give"


def _lower(builder: Builder, node: NodeSpec) -> None:
    from ort_py_xnnpack.execution.builder import last

    found = _targets(node, builder.graph)
    assert not isinstance(found, str)
    rows, columns = found
    x = node.inputs[0]
    batch, channels, height, width = builder.shape(x)
    source = builder.read(x, last(4))
    target = builder.write(node.outputs[0], (batch, channels, rows, columns), last(4))
    if attribute(node, "mode", "nearest") == "linear":
        coordinates = attribute(node, "coordinate_transformation_mode", "half_pixel")
        builder.watch(source)  # of two neighbours it computes the difference, which is NaN if both are infinite
        flags = {"align_corners": Flag.ALIGNED_CORNERS, "asymmetric": Flag.ASYMMETRIC}.get(coordinates, 0)
        builder.define("static_resize_bilinear_2d", rows, columns, source, target, int(flags))
        return
    # Each row and each column is repeated by giving it an axis of its own.
    apart = (batch, height, 1, width, 1, channels)
    repeated = (batch, height, rows // height, width, columns // width, channels)
    split, wide = builder.between(apart), builder.between(repeated)
    builder.reshape(source, split, apart)
    builder.define("static_broadcast", 6, list(repeated), split, wide, 0)
    builder.reshape(wide, target, (batch, rows, columns, channels))


OPERATORS = {"Resize": Operator(_lower, _check, looked_at=frozenset({1, 2, 3}), since=11)}
