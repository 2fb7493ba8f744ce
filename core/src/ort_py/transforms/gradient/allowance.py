"""Limits for gradients: the number of nodes that they may add to a model, and the time that writing them may take.

A gradient is about as large as what it differentiates, so a few nodes that differentiate each other in a chain grow
without end.
"""

from __future__ import annotations

from ort_py.errors import LimitError, Location
from ort_py.limits import Budget, Limits


class Allowance:
    """Nodes of one model.

    Args:
        limits: The bounds; those on inlining functions hold here too.
    """

    def __init__(self, limits: Limits, nodes: int) -> None:
        self._cap = limits.node_cap(nodes)
        self._nodes = nodes
        self._budget = Budget(limits)

    def spend(self, count: int, where: Location) -> None:
        """Count nodes that are being made.

        Raises:
            LimitError: There are more than `Limits` allow, or the time for loading is over.
        """
        self._nodes += count
        if self._cap is not None and self._nodes > self._cap:
            raise LimitError(
                f"Differentiating the model makes more than the {self._cap:,} nodes that are allowed.",
                where=where,
                why="each Gradient adds about as many nodes as it differentiates, gradients of gradients multiply",
                fix="If the model is right, raise Limits.nodes_after_inlining and Limits.inlining_factor.",
            )
        self._budget.check_time(where)
