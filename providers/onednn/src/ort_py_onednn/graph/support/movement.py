"""Operators that only move or rename."""

from __future__ import annotations

import numpy as np

from ort_py.contracts import GraphView, NodeSpec
from ort_py_onednn.graph.support.rule import Rule, Rules, only_moved, shape_of, value_name

__all__ = ["RULES"]


def _concat(node: NodeSpec, graph: GraphView) -> str | None:
    shape = shape_of(node, 0)
    if not shape:
        return "sequence of scalars"
    if _grows(node, graph):
        # Keys and values of a decoder: with them in it, a region would have other shapes at each token.
        return "it extends a cache that grows from run to run: a plan would serve one run"
    return None


def _grows(node: NodeSpec, graph: GraphView) -> bool:
    """Return whether rows that were computed are put behind those that the caller kept, to be kept again."""
    shape, output = shape_of(node, 0), node.outputs[0]
    rows = len(shape) - 2
    if rows < 1 or node.attributes["axis"] % len(shape) != rows or isinstance(shape[rows], int) or output is None:
        return False
    kept, *added = (value_name(node, place) for place in range(len(node.inputs)))
    return (
        any(value.name == output.name for value in graph.outputs)
        and any(value.name == kept for value in graph.inputs)
        and all(graph.producer(name) is not None for name in added)
    )


def _slice(node: NodeSpec, graph: GraphView) -> str | None:
    if value_name(node, 4):
        steps = graph.constant(value_name(node, 4))
        if steps is None or any(int(step) < 1 for step in steps.reshape(-1)):
            return "steps backwards"
    return None


def _split(node: NodeSpec, graph: GraphView) -> str | None:
    return None if all(value is not None for value in node.outputs) else "an output is left out"


def _pad(node: NodeSpec, graph: GraphView) -> str | None:
    mode = node.attributes.get("mode", "constant")
    if mode in {"constant", "edge", "wrap"}:
        return None
    if mode != "reflect":
        return f"mode {mode}"
    pads = node.attributes.get("pads") if node.since_version < 11 else graph.constant(value_name(node, 1))
    if pads is None or max((int(width) for width in np.reshape(pads, -1)), default=0) > _MIRRORED:
        return f"its mode is reflect, and it may add more than {_MIRRORED} elements, each by a separate copy"
    return None


def _filled(node: NodeSpec, graph: GraphView) -> str | None:
    output = node.outputs[0]
    if graph.constant(value_name(node, 0)) is None:
        return None
    if output is None or any(value.name == output.name for value in graph.outputs):
        return "its result is a graph output and a constant"
    return None


def _gather(node: NodeSpec, graph: GraphView) -> str | None:
    if not shape_of(node, 0):
        return "a scalar"
    places = graph.constant(value_name(node, 1))
    if places is None:
        return "its places are not known" if len(shape_of(node, 1)) else None
    if not places.size:
        return "no places"
    apart = np.diff(places.reshape(-1))
    if places.size <= _PICKED or (apart[0] > 0 and (apart == apart[0]).all()):
        return None
    return None if np.count_nonzero(apart != 1) < _PICKED else "it has too many places to copy each separately"


def _blocks(node: NodeSpec, graph: GraphView) -> str | None:
    return None if len(shape_of(node, 0)) == 4 else "its input does not have four dimensions"


_MIRRORED = 8
_PICKED = 16
_SECOND = frozenset({1})

RULES: Rules = {
    ("", "Cast"): Rule(since=6),
    ("", "Concat"): Rule(_concat, types=only_moved),
    ("", "ConstantOfShape"): Rule(_filled, frozenset({0}), frozenset({0})),
    ("", "DepthToSpace"): Rule(_blocks),
    ("", "Expand"): Rule(looked_at=_SECOND, shaped=_SECOND),
    ("", "Flatten"): Rule(types=only_moved),
    ("", "Gather"): Rule(_gather, _SECOND, _SECOND),
    ("", "Pad"): Rule(_pad, frozenset({1, 2, 3}), _SECOND, since=2),
    ("", "Reshape"): Rule(looked_at=_SECOND, shaped=_SECOND, types=only_moved, since=5),
    ("", "Slice"): Rule(_slice, frozenset({1, 2, 3, 4}), frozenset({1, 2}), types=only_moved),
    ("", "SpaceToDepth"): Rule(_blocks),
    ("", "Split"): Rule(_split, _SECOND, _SECOND, types=only_moved),
    ("", "Squeeze"): Rule(looked_at=_SECOND, types=only_moved),
    ("", "Tile"): Rule(looked_at=_SECOND, shaped=_SECOND, since=6),
    ("", "Transpose"): Rule(types=only_moved),
    ("", "Unsqueeze"): Rule(looked_at=_SECOND, types=only_moved),
}
