"""Parts of values: Concat of Concat, Split and Concat that undo each other, Slice of Slice, Gather of all there is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.light_tuple import NamedTuple
from ort_py.transforms.chains import chain_of


class MergeConcats(RewriteRule):
    """A Concat among the inputs of another along the same axis gives it its inputs; parts of a Split, all in order, are
    what was split."""

    name = "ConcatMerging"
    op_types = frozenset({"Concat"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        result = node.outputs[0]
        if node.domain or result is None or node.since_version < 4:
            return False
        rank = _rank(node)
        axis = node.attributes.get("axis", 0)
        whole = self._split(node, rank, graph)
        if whole is not None:
            return graph.bypass(node, whole)
        for value in dict.fromkeys(node.inputs):
            inner = graph.producer(value)
            if value is None or inner is None or inner.op_type != "Concat" or inner.domain:
                continue
            if not _same_axis(axis, inner.attributes.get("axis", 0), rank):
                continue
            if graph.uses(value) != 1:
                return "the inner Concat is read elsewhere too"
            inputs = [part for one in node.inputs for part in (inner.inputs if one == value else (one,))]
            names = tuple(["" if part is None else part.name for part in inputs])
            graph.replace_nodes([inner, node], [NodeTemplate("Concat", names, (result.name,), {"axis": axis})])
            return True
        return False

    @staticmethod
    def _split(node: NodeSpec, rank: int | None, graph: GraphEditor) -> ValueSpec | None:
        """The value that was split into all inputs, in their order, or None."""
        split = graph.producer(node.inputs[0])
        if split is None or split.op_type != "Split" or split.domain or len(split.outputs) != len(node.inputs):
            return None
        same = None not in node.inputs and tuple(split.outputs) == tuple(node.inputs)
        axes = _same_axis(node.attributes.get("axis", 0), split.attributes.get("axis", 0), rank)
        return split.inputs[0] if same and axes and _adds_up(split) else None


def _adds_up(split: NodeSpec) -> bool:
    """Return whether the parts are known to make up the axis: a Split into others is an error, and must stay one."""
    axis = split.attributes.get("axis", 0)
    sizes = [
        None if value is None or value.shape is None or not -len(value.shape) <= axis < len(value.shape)
        else value.shape[axis]
        for value in (split.inputs[0], *split.outputs)
    ]  # fmt: skip
    known = [size for size in sizes if isinstance(size, int)]
    return len(known) == len(sizes) and known[0] == sum(known[1:])


class _Range(NamedTuple):
    start: int
    end: int
    step: int


class MergeSlices(RewriteRule):
    """A Slice of a Slice: one of both, where they cut along different axes, or forwards from the beginning."""

    name = "SliceMerging"
    op_types = frozenset({"Slice"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        chain = chain_of(node, graph, self.op_types)
        if chain is None:
            return False
        first, second = _ranges(chain.inner, graph), _ranges(node, graph)
        if first is None or second is None:
            return "what is cut off is not constant, or its axes are not known"
        if graph.uses(chain.between) != 1:
            return "the inner Slice is read elsewhere too"
        together = dict(first)
        for axis, outer in second.items():
            if axis not in first:
                together[axis] = outer
                continue
            one = _composed(first[axis], outer)
            if one is None:
                return "both cut along one axis, not forwards from the beginning"
            together[axis] = one
        graph.replace_nodes([chain.inner, node], [_slice(node, chain.source, chain.result, together, graph)])
        return True


def _composed(inner: _Range, outer: _Range) -> _Range | None:
    if min(inner.start, inner.end, outer.start, outer.end) < 0 or (inner.step, outer.step) != (1, 1):
        return None
    end = min(inner.end, inner.start + outer.end)
    return _Range(min(inner.start + outer.start, end), end, 1)


def _slice(
    node: NodeSpec, source: ValueSpec, result: ValueSpec, ranges: dict[int, _Range], graph: GraphEditor
) -> NodeTemplate:
    axes = sorted(ranges)
    numbers = {
        "starts": [ranges[axis].start for axis in axes],
        "ends": [ranges[axis].end for axis in axes],
        "axes": axes,
    }
    if node.since_version < 10:
        attributes = {name: tuple(values) for name, values in numbers.items()}
        return NodeTemplate("Slice", (source.name,), (result.name,), attributes)
    numbers["steps"] = [ranges[axis].step for axis in axes]
    names = [
        graph.add_constant(f"{result.name}/{name}", np.array(values, np.int64)) for name, values in numbers.items()
    ]
    return NodeTemplate("Slice", (source.name, *names), (result.name,))


def _ranges(node: NodeSpec, graph: GraphEditor) -> dict[int, _Range] | None:
    """The ranges that are kept along each axis, or None if they are not known."""
    source = node.inputs[0]
    given: list[Any] = []
    for position, name in enumerate(("starts", "ends", "axes", "steps"), 1):
        if node.since_version < 10:
            given.append(node.attributes.get(name))
            continue
        value = node.inputs[position] if position < len(node.inputs) else None
        array = graph.constant(value)
        if value is not None and array is None:
            return None
        given.append(None if array is None else array.reshape(-1).tolist())
    starts, ends, axes, steps = given
    if starts is None or ends is None or source is None or source.shape is None:
        return None
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    rank = len(source.shape)
    return {
        int(axis) % rank: _Range(int(start), int(end), int(step))
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)
    }


class EliminateWholeGather(RewriteRule):
    """A Gather of every entry along an axis, in order."""

    name = "GatherElimination"
    op_types = frozenset({"Gather"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        source, indices = node.inputs[0], node.inputs[1]
        if node.domain or source is None or indices is None or not indices.constant or source.shape is None:
            return False
        axis = node.attributes.get("axis", 0)
        if not -len(source.shape) <= axis < len(source.shape):
            return False
        size = source.shape[axis]
        if not isinstance(size, int) or indices.shape != (size,):
            return False
        array = graph.constant(indices)
        if array is None or np.any(array < -size) or np.any(array >= size):
            return False
        if not np.array_equal(array % max(size, 1), np.arange(size)):
            return False
        return graph.bypass(node, source)


def _rank(node: NodeSpec) -> int | None:
    ranks = {
        len(value.shape) for value in (*node.inputs, *node.outputs) if value is not None and value.shape is not None
    }
    return ranks.pop() if len(ranks) == 1 else None


def _same_axis(left: int, right: int, rank: int | None) -> bool:
    return left == right or (rank is not None and rank > 0 and left % rank == right % rank)
