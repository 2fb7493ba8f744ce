"""Inputs of a region that are on the host when it runs, determined before the region is compiled.

Comes after partitioning, which determines the provider that computes each value. It does not depend on plans: what
comes from a loop or from an outer graph may be anywhere, and does not count.
"""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.contracts import IExecutionProvider
from ort_py.devices import HOST
from ort_py.graph.ir import Value
from ort_py.partition.assignment import Assignment, Region, RunnerKind


def host_inputs(region: Region, assignment: Assignment, providers: Mapping[str, IExecutionProvider]) -> frozenset[str]:
    """Names of a region's inputs whose values are on the host; all of them where the region itself runs there."""
    graph, inputs = region.graph, region.border.inputs
    if providers[region.provider].device == HOST:
        return frozenset([value.name for value in inputs])

    def on_host(value: Value) -> bool:
        node = value.producer
        if node is None:
            return value.graph is graph and graph.owner is None  # what the caller feeds
        made = assignment.nodes.get(node)
        if made is None or made.runner is RunnerKind.CONTROL_FLOW:
            return False
        if made.kernel is not None and node.outputs.index(value) in made.kernel.host_outputs:
            return True
        return providers[made.provider].device == HOST

    return frozenset([value.name for value in inputs if on_host(value)])
