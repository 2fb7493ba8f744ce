"""Outputs that may share memory with an object that outlives the run. They are copied for the caller.

A graph output never aliases a feed, a constant or another output. What is certain statically needs no check in the
run: an output is safe where its chain of possible views ends at a value that some kernel newly created.
"""

from __future__ import annotations

from ort_py.graph.ir import Graph, Node, Value
from ort_py.partition.assignment import Assignment, RunnerKind


def outputs_to_copy(graph: Graph, assignment: Assignment) -> list[bool]:
    """One entry per output of the main graph: whether the caller must get a copy."""
    owners: set[Value] = set()
    answer: list[bool] = []
    positions: dict[Node, dict[Value | None, int]] = {}
    for output in graph.outputs:
        root = _root(output, assignment, positions)
        copy = root is None or root in owners
        if root is not None:
            owners.add(root)
        answer.append(copy)
    return answer


def _root(value: Value, assignment: Assignment, positions: dict[Node, dict[Value | None, int]]) -> Value | None:
    """The value whose memory `value` may be a view of. None if that is a feed, a constant or unknown.

    Args:
        positions: Those of the outputs of nodes that were looked at.
    """
    while True:
        node = value.producer
        if node is None:
            return None
        assigned = assignment.nodes.get(node)
        if assigned is None or assigned.runner is RunnerKind.CONTROL_FLOW:
            return None  # a body may return an outer value as it is
        if assigned.kernel is None:
            return value  # regions return arrays of their own
        if assigned.kernel.subgraphs:
            return None  # as control flow: what a graph returned may go on as it is
        if not assigned.kernel.views:
            return value
        if node not in positions:
            positions[node] = {result: position for position, result in enumerate(node.outputs)}
        position = positions[node][value]
        viewed = [source for result, source in assigned.kernel.views if result == position]
        if not viewed:
            return value
        source = node.inputs[viewed[0]] if len(viewed) == 1 and viewed[0] < len(node.inputs) else None
        if source is None:
            return None
        value = source
