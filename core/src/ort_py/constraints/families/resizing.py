"""Resize and Upsample: sizes from factors, or as they are given."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.constraints.program import Code
from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Unchecked, Violation
from ort_py.constraints.sizes import Amount, Size, any_of, equal, function, less


def _scaled(n: NodeScope, shape: Dims, axes: tuple[int, ...], factors: Dims) -> Dims:
    if len(factors) != len(axes):
        raise Violation(f"there are {len(factors)} factors for {len(axes)} axes")
    sizes = list(shape)
    for axis, factor in zip(axes, factors, strict=True):
        n.require(less(0, factor), "a factor is {}", factor)
        size = sizes[axis]
        if isinstance(size, int) and isinstance(factor, int | float):
            sizes[axis] = int(size * factor)
        elif isinstance(size, Size) and isinstance(factor, int | float) and factor == int(factor):
            sizes[axis] = size * int(factor)
        else:
            sizes[axis] = function(Code.TRUNCATE, size * factor, int)
    return tuple(sizes)


def _resize(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    old = n.since_version < 11
    axes = n.axes(n.ints("axes", range(len(shape))), len(shape))
    given = 1 if old else 2
    if n.text("coordinate_transformation_mode") == "tf_crop_and_resize":
        n.require_same(1, (2 * len(axes),), "roi")
    if not old and n.has(3) and _count(n, 3) != 0:
        sizes = n.content(3)
        if len(sizes) != len(axes):
            raise Violation(f"there are {len(sizes)} sizes for {len(axes)} axes")
        if n.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise Unchecked("sizes follow a policy of aspect ratios")
        made: list[Amount] = list(shape)
        for axis, size in zip(axes, sizes, strict=True):
            n.require(less(-1, size), "a size is {}", size)
            nothing = any_of(less(0, shape[axis]), equal(size, 0))
            n.require(nothing, "an empty axis cannot be resized to {}", size)
            made[axis] = size
        return [tuple(made)]
    if not n.has(given):
        raise Violation("neither factors nor sizes are given")
    return [_scaled(n, shape, axes, n.content(given))]


def _count(n: NodeScope, place: int) -> Amount:
    shape = n.shape(place)
    return shape[0] if shape else 1


def _upsample(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    factors: Dims
    if n.since_version >= 9:
        factors = n.content(1)
    elif "scales" in n.attributes:
        factors = tuple(float(one) for one in n.attributes["scales"])
    else:
        if len(shape) != 4:
            raise Violation(f"the input has {len(shape)} axes instead of four")
        factors = (1.0, 1.0, float(n.attributes["height_scale"]), float(n.attributes["width_scale"]))
    return [_scaled(n, shape, tuple(range(len(shape))), factors)]


TABLE: Mapping[tuple[str, str], Constraint] = {("", "Resize"): _resize, ("", "Upsample"): _upsample}
