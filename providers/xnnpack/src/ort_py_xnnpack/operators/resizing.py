"""Resizing of two axes: by neighbours that are repeated, and by straight lines between neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ort_py.contracts import NodeSpec
from ort_py_xnnpack.binding.constants import Flag
from ort_py_xnnpack.operators.operator import Constants, Operator, attribute, constant, shape_of

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = ["OPERATORS"]


def _targets(node: NodeSpec, graph: Constants, shape: tuple[Any, ...]) -> tuple[int | None, int | None] | str:
    """Sizes of the result, None where that of a run decides, or why it is none that XNNPACK makes.

    Args:
        node: The node.
        graph: The graph.
        shape: That of the data, as far as it is known.
    """
    if len(shape) != 4:
        return "its data has not two axes besides the channels"
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
    results: list[int | None] = []
    for scale, size in zip((float(one) for one in scales[2:]), shape[2:], strict=True):
        known = isinstance(size, int)
        exact = scale * size if known else scale
        if exact != int(exact) or exact < 1:
            return "its scales do not give whole sizes"
        results.append(int(exact) if known else None)
    return results[0], results[1]


def _check(node: NodeSpec, graph: Constants) -> str | None:
    shape = shape_of(node)
    found = _targets(node, graph, shape)
    if isinstance(found, str):
        return found
    mode = attribute(node, "mode", "nearest")
    coordinates = attribute(node, "coordinate_transformation_mode", "half_pixel")
    if attribute(node, "antialias", 0):
        return "it smooths"
    if mode == "linear":
        if coordinates not in {"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"}:
            return f"XNNPACK has no {coordinates}"
        return "one of its results may have the size 1" if any(one in {1, None} for one in found) else None
    pairs = [(new, old) for new, old in zip(found, shape[2:], strict=True) if new is not None]
    if any(not isinstance(old, int) for _, old in pairs):
        return "the sizes of its data are not known"
    factors = [new / old for new, old in pairs]
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

    x = node.inputs[0]
    batch, channels, height, width = builder.shape(x)
    found = _targets(node, builder.graph, (batch, channels, height, width))
    assert not isinstance(found, str)
    rows, columns = found
    assert rows is not None
    assert columns is not None
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
