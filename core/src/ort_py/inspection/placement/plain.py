"""A placement as plain data for JSON. Comes after `report`, `islands` and `merging`; writes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ort_py.inspection.placement.facts import PlacementFacts
from ort_py.inspection.placement.islands import Island, IslandBorder, copied_bytes


def plain_placement(placement: PlacementFacts) -> dict[str, Any]:
    """Counts, nodes with the numbers of their islands, islands, borders, refusals and suggestions."""
    nodes = placement.nodes
    islands = placement.islands
    borders = placement.borders
    graphs = placement.flow().graphs
    island_of = {node: island.number for island in islands for node in island.nodes}
    known, symbolic = copied_bytes(borders)
    return {
        "counts": placement.counts(),
        "devices": placement.devices,
        "nodes": [asdict(node) | {"island": island_of.get(number)} for number, node in enumerate(nodes)],
        "islands": [_island(island, graphs[island.graph].name) for island in islands],
        "borders": [_border(border) for border in borders],
        "copied": {"bytes": known, "symbolic": list(symbolic)},
        "refusals": [
            {"provider": provider, "operator": operator, "reason": reason, "nodes": count}
            for provider, operator, reason, count in placement.refusals()
        ],
        "suggestions": [asdict(one) | {"merged": one.merged} for one in placement.suggestions],
    }


def _island(island: Island, graph: str) -> dict[str, Any]:
    return {
        "number": island.number,
        "provider": island.provider,
        "region": island.region,
        "graph": graph,
        "nodes": list(island.nodes),
    }


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
