"""The facts of a placement that its pictures and files show: a record for each node, and what is computed from them.

Comes before `plain` and `page`, which show these facts, and before `report`, whose `Placement` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.inspection.placement.flow import Flow
    from ort_py.inspection.placement.islands import Island, IslandBorder
    from ort_py.inspection.placement.merging import Suggestion


@dataclass(frozen=True, slots=True)
class NodePlacement:
    """Place of one node.

    Attributes:
        provider: The provider that runs it; ``core`` for control flow.
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


class PlacementFacts(Protocol):
    """A placement, as far as what shows it knows it; see `Placement` for each member."""

    @property
    def nodes(self) -> tuple[NodePlacement, ...]:
        """A record for each node."""

    @property
    def islands(self) -> tuple[Island, ...]:
        """Nodes that run together without waiting for another provider."""

    @property
    def borders(self) -> tuple[IslandBorder, ...]:
        """Values that cross from island to island."""

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Operators whose support would merge the most islands."""

    @property
    def devices(self) -> Mapping[str, str]:
        """Device of each provider."""

    def counts(self) -> dict[str, int]:
        """Number of nodes that each provider runs."""

    def refusals(self) -> list[tuple[str, str, str, int]]:
        """(provider, operator, reason, nodes) of what providers refused."""

    def ranked(self) -> list[str]:
        """Names of the providers that run a node, in the order in which they were asked."""

    def flow(self) -> Flow:
        """Values that flow between the nodes."""
