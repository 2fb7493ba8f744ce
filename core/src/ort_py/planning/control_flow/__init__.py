"""Steps for If, Loop, Scan and SequenceMap: where bodies get their values and where their results are left.

A module an operator; `bodies` holds what they share, with kernels that hold graphs too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ort_py.graph.ir import Node
from ort_py.planning.control_flow.branches import emit_if
from ort_py.planning.control_flow.loops import emit_loop
from ort_py.planning.control_flow.scans import emit_scan
from ort_py.planning.control_flow.sequence_maps import emit_sequence_map

if TYPE_CHECKING:
    from ort_py.planning.builder import GraphPlanner

__all__ = ["emit_control_flow"]

_EMIT: dict[str, Callable[[GraphPlanner, Node], None]] = {
    "If": emit_if,
    "Loop": emit_loop,
    "Scan": emit_scan,
    "SequenceMap": emit_sequence_map,
}


def emit_control_flow(planner: GraphPlanner, node: Node) -> None:
    """Emit the step of a node that the core runs itself.

    Raises:
        InvalidGraph: A body has the wrong number of inputs or outputs.
    """
    _EMIT[node.op_type](planner, node)
