"""Islands: nodes that one provider runs without waiting for another, and the values that cross their borders.

Comes after `flow`. A compiled region is an island of its own. Of kernels, nodes are taken in turns: one provider runs
everything that is ready, then the next one does; what hangs together within a turn is an island. So no island ever
waits for what waits for it, and for two providers no other order has fewer turns. Linear in nodes and values.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from ort_py.inspection.placement.flow import NOBODY, Flow, FlowValue
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Island:
    """Nodes that a provider runs together.

    Attributes:
        number: Its number; islands of one graph are numbered in an order in which they can run.
        region: Name of the compiled region it is, ``""`` for kernels.
        graph: Number of its graph among those of the model, 0 for the main one.
        nodes: Numbers of its nodes, as the placement lists them.
    """

    number: int
    provider: str
    region: str
    graph: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IslandBorder:
    """A value that one island computes and another one reads.

    Attributes:
        source: Island that computes it, -1 where the caller feeds it.
        target: Island that reads it, -1 where the caller gets it.
        to_device: Device it is wanted on; where it is another one, the value is copied.
    """

    source: int
    target: int
    value: FlowValue
    from_device: str
    to_device: str

    @property
    def copied(self) -> bool:
        """True if crossing takes a copy: on one device the other provider reads the same memory."""
        return self.from_device != self.to_device


def island_groups(
    flow: Flow, runs: Sequence[Hashable], regions: Sequence[str], order: Sequence[Hashable]
) -> list[list[int]]:
    """Nodes of each island, graph by graph, in an order in which they can run.

    Args:
        regions: Region of each node, ``""`` for none.
        order: All providers that run something, in the order in which they are asked. With the provider that completes
            in front, the others get what they run in the fewest pieces.
    """
    unit_of = list(range(len(runs)))
    first: dict[tuple[int, str], int] = {}
    for node, region in enumerate(regions):
        if region:
            unit_of[node] = first.setdefault((flow.graph_of[node], region), node)
    edges = {(unit_of[source], unit_of[target]) for source, target in flow.edges()}
    edges = {(source, target) for source, target in edges if source != target}
    members: dict[int, list[int]] = {}
    for node, unit in enumerate(unit_of):
        members.setdefault(unit, []).append(node)
    single = {unit for unit in members if regions[unit]}
    units_of_graph: list[list[int]] = [[] for _ in flow.graphs]
    for unit in members:
        units_of_graph[flow.graph_of[unit]].append(unit)
    successors: dict[int, list[int]] = {unit: [] for unit in members}
    for source, target in sorted(edges):
        successors[source].append(target)
    groups: list[list[int]] = []
    for units in units_of_graph:
        taken = turns(units, successors, runs, order, single)
        groups.extend(sorted(node for unit in group for node in members[unit]) for group in taken)
    return groups


def turns(
    units: Sequence[int],
    successors: Mapping[int, Sequence[int]],
    runs: Sequence[Hashable] | Mapping[int, Hashable],
    order: Sequence[Hashable],
    single: set[int] | frozenset[int] = frozenset(),
) -> list[list[int]]:
    """Units taken in turns, each turn cut into what hangs together.

    Args:
        units: Nodes and regions of one graph; those on a cycle are left out.
        order: Everybody, in the order of their turns.
        single: Units that stay groups of their own.
    """
    waiting = dict.fromkeys(units, 0)
    for unit in units:
        for target in successors[unit]:
            waiting[target] += 1
    ready: dict[Hashable, list[int]] = {who: [] for who in order}
    for unit in units:
        if not waiting[unit]:
            ready[runs[unit]].append(unit)
    groups: list[list[int]] = []
    progress = True
    while progress:
        progress = False
        for who in order:
            mine = ready[who]
            if not mine:
                continue
            progress = True
            ready[who] = []
            turn: list[int] = []
            while mine:
                unit = mine.pop()
                turn.append(unit)
                for target in successors[unit]:
                    waiting[target] -= 1
                    if not waiting[target]:
                        (mine if runs[target] == who else ready[runs[target]]).append(target)
            groups.extend(_connected(turn, successors, single))
    return groups


def _connected(
    turn: Sequence[int], successors: Mapping[int, Sequence[int]], single: set[int] | frozenset[int]
) -> list[list[int]]:
    leader = {unit: unit for unit in turn}

    def find(unit: int) -> int:
        while leader[unit] != unit:
            leader[unit] = leader[leader[unit]]
            unit = leader[unit]
        return unit

    for unit in turn:
        if unit not in single:
            for target in successors[unit]:
                if target in leader and target not in single:
                    leader[find(target)] = find(unit)
    groups: dict[int, list[int]] = {}
    for unit in turn:
        groups.setdefault(find(unit), []).append(unit)
    return list(groups.values())


def borders_of(
    flow: Flow, islands: Sequence[Island], devices: Mapping[str, str], host: str
) -> tuple[IslandBorder, ...]:
    """Values that cross from island to island, and those that the caller feeds to or gets from another device.

    Args:
        devices: Device of each provider; one that is not listed works on the host.
    """
    island_of = {node: island.number for island in islands for node in island.nodes}
    device_of = [devices.get(island.provider, host) for island in islands]
    found: list[IslandBorder] = []
    for value in flow.values:
        source = NOBODY if value.producer == NOBODY else island_of[value.producer]
        origin = host if source == NOBODY else device_of[source]
        found.extend(
            IslandBorder(source, target, value, origin, device_of[target])
            for target in dict.fromkeys([island_of[reader] for reader in value.readers])
            if target != source and (source != NOBODY or device_of[target] != host)
        )
        if value.returned and origin != host:
            found.append(IslandBorder(source, NOBODY, value, origin, host))
    return tuple(found)


def copied_bytes(borders: Sequence[IslandBorder]) -> tuple[int, tuple[str, ...]]:
    """Bytes that one run copies between devices as far as shapes tell, and the sizes that depend on symbols.

    A value is copied once to each device, however many islands read it there.
    """
    once = {(border.value.name, border.to_device): border.value for border in borders if border.copied}
    known = sum(value.nbytes for value in once.values() if value.nbytes is not None)
    return known, tuple([value.size for value in once.values() if value.nbytes is None])
