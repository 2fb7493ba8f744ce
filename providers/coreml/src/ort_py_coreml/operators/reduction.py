"""Reductions along axes that are known when the region is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import Constants, Lower, Operator, Var, attribute, integers, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_NAMES = {
    "ReduceL1": "reduce_l1_norm",
    "ReduceL2": "reduce_l2_norm",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
    "ReduceSumSquare": "reduce_sum_square",
}


def _axes(node: NodeSpec, graph: Constants) -> list[int]:
    """Return the axes, counted from the front; empty if nothing is reduced."""
    rank = len(shape_of(node))
    axes = integers(node, graph, 1, "axes")
    if not axes:
        return [] if attribute(node, "noop_with_empty_axes", 0) else list(range(rank))
    return sorted({axis % rank for axis in axes})


def _check(node: NodeSpec, graph: Constants) -> str | None:
    return None if _axes(node, graph) else "it reduces no axes"


def _reduce(name: str) -> Lower:
    def lower(lowering: Lowering, node: NodeSpec) -> Var:
        function = getattr(lowering.mb, name)
        keep = bool(attribute(node, "keepdims", 1))
        return function(x=lowering.read(node.inputs[0]), axes=_axes(node, lowering.graph), keep_dims=keep)

    return lower


def _global(name: str) -> Lower:
    """Reduce all axes behind the channels, and keep them."""

    def lower(lowering: Lowering, node: NodeSpec) -> Var:
        axes = list(range(2, len(shape_of(node))))
        return getattr(lowering.mb, name)(x=lowering.read(node.inputs[0]), axes=axes, keep_dims=True)

    return lower


def _check_global(node: NodeSpec, graph: Constants) -> str | None:
    return None if len(shape_of(node)) > 2 else "its data has no axes behind the channels"


OPERATORS = {
    "GlobalAveragePool": Operator(_global("reduce_mean"), _check_global),
    "GlobalMaxPool": Operator(_global("reduce_max"), _check_global),
    **{name: Operator(_reduce(function), _check, frozenset({1})) for name, function in _NAMES.items()},
}
