"""Normalisations: batch, layer, instance, group, RMS and local response."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.constraints.families.elementwise import first_shape
from ort_py.constraints.scope import Constraint, NodeScope, Outputs, Violation
from ort_py.constraints.sizes import Amount, equal, remainder


def _batch(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    channels: Amount = shape[1] if len(shape) > 1 else 1
    if n.integer("spatial", 1):
        for place, name in enumerate(("scale", "bias", "mean", "variance"), 1):
            n.require_same(place, (channels,), name)
    return [shape, *(None,) * (n.outputs - 1)]


def _layer(n: NodeScope) -> Outputs:
    shape = n.require_rank(0, 1)
    axis = n.axis(n.integer("axis", -1), len(shape))
    n.spreads_to(1, shape, "scale")
    if n.has(2):
        n.spreads_to(2, shape, "bias")
    statistics = (*shape[:axis], *(1,) * (len(shape) - axis))
    return [shape, *(statistics,) * (n.outputs - 1)]


def _root_mean_square(n: NodeScope) -> Outputs:
    shape = n.require_rank(0, 1)
    n.axis(n.integer("axis", -1), len(shape))
    n.spreads_to(1, shape, "scale")
    return [shape, *(None,) * (n.outputs - 1)]


def _instance(n: NodeScope) -> Outputs:
    shape = n.require_rank(0, 2)
    n.require_same(1, (shape[1],), "scale")
    n.require_same(2, (shape[1],), "bias")
    return [shape]


def _group(n: NodeScope) -> Outputs:
    shape = n.require_rank(0, 2)
    groups = n.integer("num_groups", 1)
    if groups < 1:
        raise Violation(f"num_groups is {groups}")
    n.require(equal(remainder(shape[1], groups), 0), "{} channels cannot be divided into {} groups", shape[1], groups)
    count: Amount = groups if n.since_version < 21 else shape[1]
    n.require_same(1, (count,), "scale")
    n.require_same(2, (count,), "bias")
    return [shape]


def _neighbours(n: NodeScope) -> Outputs:
    n.require_rank(0, 2)
    if n.integer("size", 1) < 1:
        raise Violation(f"size is {n.integer('size', 1)}")
    return first_shape(n)


def _one_axis(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    n.axis(n.integer("axis", -1), len(shape))
    if n.integer("p", 2) not in {1, 2}:
        raise Violation(f"p is {n.integer('p')}; norms of 1 and 2 are known")
    return [shape]


def _mean_variance(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    n.axes(n.ints("axes", (0, 2, 3)), len(shape), distinct=False)
    return [shape]


def _skip(n: NodeScope) -> Outputs:
    shape = n.require_rank(0, 2, 3)
    n.spreads_to(1, shape, "the skipped input")
    simplified = n.op_type.startswith("SkipSimplified")
    for place in range(2, 4 if simplified else 5):
        if n.has(place):
            n.require_same(place, shape[-1:], f"input {place}")
    return [shape, None, None, shape][: n.outputs]


TABLE: Mapping[tuple[str, str], Constraint] = {
    ("", "BatchNormalization"): _batch,
    ("", "GroupNormalization"): _group,
    ("", "InstanceNormalization"): _instance,
    ("", "LRN"): _neighbours,
    ("", "LayerNormalization"): _layer,
    ("", "LpNormalization"): _one_axis,
    ("", "MeanVarianceNormalization"): _mean_variance,
    ("", "RMSNormalization"): _root_mean_square,
    ("", "SimplifiedLayerNormalization"): _root_mean_square,
    ("com.microsoft", "SkipLayerNormalization"): _skip,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skip,
}
