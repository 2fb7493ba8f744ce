"""The provider of each node, and the reason: the session's placement as a value with a table, JSON, an ONNX file and a
page.

The records of ten thousand nodes take a tenth of the time of creating their session, and few callers need them: they
are made at their first use, or when the session closes and releases its graph. `flow`, `islands` and `merging` compute
islands, borders and suggestions; `annotated` and `page` write the files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ort_py.errors import InvalidArgument, operator_title
from ort_py.inspection.placement.facts import NodePlacement
from ort_py.partition.assignment import Assignment
from ort_py.printable import one_line

if TYPE_CHECKING:
    from ort_py.inspection.placement.flow import Flow
    from ort_py.inspection.placement.islands import Island, IslandBorder
    from ort_py.inspection.placement.merging import Suggestion

__all__ = ["NodePlacement", "Placement"]

_HOST = "cpu:0"
_NOT_WORTH = ("does not pay", "too little work")
"""The first words of refusals by providers that could run the node: the cost model's and the providers' own."""


class Placement:
    """Placement of every node of a model, nested graphs included. Iterates over `NodePlacement`s.

    Args:
        assignment: The partitioner's decisions.
        devices: Device of each provider, as text; one that is not listed works on the host.
    """

    __slots__ = ("_assignment", "_counts", "_devices", "_flow", "_islands", "_nodes", "_suggestions")

    def __init__(self, assignment: Assignment, devices: Mapping[str, str] | None = None) -> None:
        self._assignment: Assignment | None = assignment
        self._counts = dict(assignment.counts().most_common())
        self._devices = dict(devices or {})
        self._nodes: tuple[NodePlacement, ...] | None = None
        self._flow: Flow | None = None
        self._islands: tuple[Island, ...] | None = None
        self._suggestions: tuple[Suggestion, ...] | None = None

    @property
    def nodes(self) -> tuple[NodePlacement, ...]:
        """A record for each node, in the order in which nodes were assigned."""
        if self._nodes is None:
            assignment = self._assignment
            # `detach` makes the records before it drops the assignment, so another thread always sees one of the two.
            self._nodes = self._nodes or (() if assignment is None else _records(assignment))
        return self._nodes

    @property
    def islands(self) -> tuple[Island, ...]:
        """Parts that run without waiting for another provider: compiled regions, and groups of kernels."""
        if self._islands is None:
            from ort_py.inspection.placement.islands import Island, island_groups

            nodes = self.nodes
            flow = self.flow()
            runs = [node.provider for node in nodes]
            # The last provider asked goes first, so that the first ones get the largest pieces.
            groups = island_groups(flow, runs, [node.region for node in nodes], self._ranks()[::-1])
            self._islands = tuple(
                Island(number, runs[group[0]], nodes[group[0]].region, flow.graph_of[group[0]], tuple(group))
                for number, group in enumerate(groups)
            )
        return self._islands

    @property
    def borders(self) -> tuple[IslandBorder, ...]:
        """Values that cross from island to island, with their bytes, and whether they are copied."""
        from ort_py.inspection.placement.islands import borders_of

        return borders_of(self.flow(), self.islands, self._devices, _HOST)

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """The few operators whose support by the provider asked first would merge the most islands, best first."""
        if self._suggestions is None:
            from ort_py.inspection.placement.merging import suggestions_of

            ranks = self._ranks()
            first = next(iter(ranks), "")
            asked = [_as_refused(node, first) for node in self.nodes]
            self._suggestions = suggestions_of(self.flow(), asked, first, ranks[::-1])
        return self._suggestions

    @property
    def devices(self) -> dict[str, str]:
        return dict(self._devices)

    def refusals(self) -> list[tuple[str, str, str, int]]:
        """(provider, operator, reason, nodes) of what providers refused, most nodes first."""
        refused = Counter(
            (provider, operator_title(node.op_type, node.domain), reason)
            for node in self.nodes
            for provider, reason in node.refusals
        )
        return [(*key, count) for key, count in refused.most_common()]

    def detach(self) -> None:
        """Make all records and release the graph. The session calls this when it closes."""
        if self._assignment is not None:
            _ = self.nodes
            self._flow = self.flow()
            self._assignment = None

    @classmethod
    def of(
        cls, nodes: tuple[NodePlacement, ...], flow: Flow | None = None, devices: Mapping[str, str] | None = None
    ) -> Placement:
        """Restore a placement from its pickled records."""
        placement = cls(Assignment(), devices)
        placement._nodes, placement._flow, placement._assignment = nodes, flow, None
        placement._counts = dict(Counter(node.provider for node in nodes).most_common())
        return placement

    def __reduce__(self) -> tuple[Any, ...]:
        return Placement.of, (self.nodes, self.flow(), self._devices)

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
        """Plain data for ``json.dumps``: counts, nodes, islands, borders, refusals and suggestions."""
        from ort_py.inspection.placement.islands import copied_bytes

        graphs = self.flow().graphs
        borders = self.borders
        island_of = {node: island.number for island in self.islands for node in island.nodes}
        known, symbolic = copied_bytes(borders)
        return {
            "counts": self.counts(),
            "devices": self.devices,
            "nodes": [asdict(node) | {"island": island_of.get(number)} for number, node in enumerate(self.nodes)],
            "islands": [
                asdict(island) | {"graph": graphs[island.graph].name, "nodes": list(island.nodes)}
                for island in self.islands
            ],
            "borders": [_border(border) for border in borders],
            "copied": {"bytes": known, "symbolic": list(symbolic)},
            "refusals": [
                {"provider": provider, "operator": operator, "reason": reason, "nodes": count}
                for provider, operator, reason, count in self.refusals()
            ],
            "suggestions": [asdict(one) | {"merged": one.merged} for one in self.suggestions],
        }

    def to_html(self, path: str | os.PathLike[str], *, title: str = "") -> None:
        """Write a page with a picture of the graph, coloured by provider. It needs no network and no other file.

        Args:
            title: Title of the page, for instance the model's name.

        Raises:
            OSError: It cannot be written.
        """
        from ort_py.inspection.placement.page import html_page

        Path(path).write_text(html_page(self, title), encoding="utf-8", newline="\n")

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the model as it runs, with the provider of each node in the node's ``metadata_props``.

        Every ONNX runtime and viewer reads the file.

        Raises:
            InvalidArgument: The session is closed, or this placement came out of a pickle: the model is gone.
            LimitError: The model passes protobuf's 2 GiB.
            OSError: The file cannot be written.
        """
        from ort_py.inspection.placement.annotated import annotated_model

        model = None if self._assignment is None else _model_of(self._assignment)
        if model is None or self._assignment is None:
            raise InvalidArgument(
                "The placement no longer has a model to write.",
                why="its session was closed, or it was unpickled" if len(self) else "no node is placed",
                fix="Call to_onnx() while the session is open.",
            )
        data = annotated_model(model, self._assignment, self.nodes, self.islands)
        Path(path).write_bytes(data)

    def ranked(self) -> list[str]:
        """All providers that run a node, in the order in which they were asked; ``core`` for control flow."""
        return [name for name in self._ranks() if name in self._counts]

    def flow(self) -> Flow:
        """Return the values that flow between the nodes."""
        from ort_py.inspection.placement.flow import Flow, flow_of

        if self._flow is None:
            assignment = self._assignment
            self._flow = self._flow or (Flow() if assignment is None else flow_of(assignment))
        return self._flow

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in self.counts().items())
        return f"<Placement of {len(self)} nodes: {counts or 'none'}>"

    def __str__(self) -> str:
        rows = [("node", "operator", "provider", "how", "why")]
        for item in self.nodes:
            operator = operator_title(item.op_type, item.domain)
            name = " > ".join((*item.path, item.node))
            refused = "; ".join(f"{provider} refused: {reason}" for provider, reason in item.refusals)
            cells = (name, operator, item.provider, str(item.region or item.runner), refused or item.reason)
            rows.append((one_line(cells[0]), one_line(cells[1]), cells[2], one_line(cells[3]), one_line(cells[4])))
        widths = [min(48, max(len(row[column]) for row in rows)) for column in range(4)]
        return "\n".join(
            "  ".join([*(text[:width].ljust(width) for text, width in zip(row, widths, strict=False)), row[4]]).rstrip()
            for row in rows
        )

    def _ranks(self) -> list[str]:
        """All providers that were asked or run a node, in the order in which they were asked."""
        place: dict[str, int] = {}
        for node in self.nodes:
            for position, name in enumerate((*(provider for provider, _ in node.refusals), node.provider)):
                place[name] = max(position, place.get(name, 0))
        return sorted(place, key=lambda name: (place[name], name))


def _records(assignment: Assignment) -> tuple[NodePlacement, ...]:
    return tuple(
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
    )


def _as_refused(node: NodePlacement, first: str) -> Any:
    from ort_py.inspection.placement.merging import RefusedNode

    reason = next((reason for provider, reason in node.refusals if provider == first), None)
    could = reason is not None and reason.startswith(_NOT_WORTH)
    runner = first if could else node.provider
    return RefusedNode(runner, node.op_type, node.domain, reason is not None and not could)


def _border(border: IslandBorder) -> dict[str, Any]:
    value = border.value
    return {
        "value": value.name,
        "type": value.type,
        "bytes": value.nbytes,
        "size": value.size,
        "symbols": list(value.symbols),
        "from_island": None if border.source < 0 else border.source,
        "to_island": None if border.target < 0 else border.target,
        "from_device": border.from_device,
        "to_device": border.to_device,
        "copied": border.copied,
    }


def _model_of(assignment: Assignment) -> Any:
    """Return the model that contains the nodes, or None if there are no nodes."""
    node = next(iter(assignment.nodes), None)
    return None if node is None else node.graph.model
