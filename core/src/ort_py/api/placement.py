"""Who runs each node, and why: the session's placement as a value with a table and JSON.

A record for each of ten thousand nodes takes a tenth of the time of making their session, and few ask: they are made
when somebody does, or when the session closes and lets its graph go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ort_py.errors import operator_title
from ort_py.partition.assignment import Assignment

__all__ = ["NodePlacement", "Placement", "placement_of"]


@dataclass(frozen=True, slots=True)
class NodePlacement:
    """Where one node runs.

    Attributes:
        node: Name of the node.
        op_type: Operator.
        domain: Operator domain.
        provider: Who runs it; ``core`` for control flow.
        runner: ``kernel``, ``region`` or ``control flow``.
        region: Name of the compiled region it is part of, else ``""``.
        reason: Why this provider took it.
        refusals: (provider, reason) of each provider asked before.
        path: Names of the enclosing control-flow nodes.
    """

    node: str
    op_type: str
    domain: str
    provider: str
    runner: str
    region: str
    reason: str
    refusals: tuple[tuple[str, str], ...]
    path: tuple[str, ...]


class Placement:
    """Placement of every node of a model, nested graphs included. Iterates over `NodePlacement`s.

    Args:
        assignment: The partitioner's decisions.
    """

    __slots__ = ("_assignment", "_counts", "_nodes")

    def __init__(self, assignment: Assignment) -> None:
        self._assignment: Assignment | None = assignment
        self._counts = dict(assignment.counts().most_common())
        self._nodes: tuple[NodePlacement, ...] = ()

    @property
    def nodes(self) -> tuple[NodePlacement, ...]:
        """A record for each node, in the order in which nodes were assigned."""
        assignment = self._assignment
        if assignment is not None:
            # In this order: another thread that finds no assignment finds the records.
            self._nodes = _records(assignment)
            self._assignment = None
        return self._nodes

    def counted(self) -> Placement:
        """The counts alone, for a session whose end nobody sees; who holds this placement keeps its records."""
        counts = Placement(Assignment())
        counts._counts, counts._assignment = self._counts, None
        return counts

    @classmethod
    def of(cls, nodes: tuple[NodePlacement, ...]) -> Placement:
        """A placement from its records, as pickle has them."""
        placement = cls(Assignment())
        placement._nodes, placement._assignment = nodes, None
        placement._counts = dict(Counter(node.provider for node in nodes).most_common())
        return placement

    def __reduce__(self) -> tuple[Any, ...]:
        return Placement.of, (self.nodes,)

    def __eq__(self, other: object) -> bool:
        return self.nodes == other.nodes if isinstance(other, Placement) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nodes)

    def __iter__(self) -> Iterator[NodePlacement]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return sum(self._counts.values())

    def counts(self) -> dict[str, int]:
        """Number of nodes each provider runs, most first."""
        return dict(self._counts)

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return {"counts": self.counts(), "nodes": [asdict(node) for node in self.nodes]}

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in self.counts().items())
        return f"<Placement of {len(self)} nodes: {counts or 'none'}>"

    def __str__(self) -> str:
        rows = [("node", "operator", "provider", "how", "why")]
        for item in self.nodes:
            operator = operator_title(item.op_type, item.domain)
            name = " > ".join((*item.path, item.node))
            refused = "; ".join(f"{provider} refused: {reason}" for provider, reason in item.refusals)
            rows.append((name, operator, item.provider, item.region or item.runner, refused or item.reason))
        widths = [min(48, max(len(row[column]) for row in rows)) for column in range(4)]
        return "\n".join(
            "  ".join([*(text[:width].ljust(width) for text, width in zip(row, widths, strict=False)), row[4]]).rstrip()
            for row in rows
        )


def placement_of(assignment: Assignment) -> Placement:
    """The report of a partitioner's decisions."""
    return Placement(assignment)


def _records(assignment: Assignment) -> tuple[NodePlacement, ...]:
    return tuple(
        [
            NodePlacement(
                node.name,
                node.op_type,
                node.domain,
                assigned.provider,
                assigned.runner.value,
                assigned.region.name if assigned.region is not None else "",
                assigned.reason,
                assigned.refusals,
                node.path,
            )
            for node, assigned in assignment
        ]
    )
