"""Islands: connected nodes on one device. An island is kept if it pays, loses an edge that does not, or is dissolved.

Works on a placement as an array, see `work_table`; comes before `candidates`, which compares whole placements. The cost
of an island is that of its nodes, the calls of its regions and the copies at its border. It is compared with the next
providers in order that would take its nodes. If there is none, the island stays. Linear in nodes and uses, for each
round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from ort_py.lazy_dataclass import dataclass
from ort_py.partition.cost_model import CostModel
from ort_py.partition.edges import trimmed
from ort_py.partition.work_table import OUTSIDE, Floats, Ints, Placed, WorkTable

_NO_GROUP = -1


@dataclass(slots=True)
class Improved:
    """A placement without what does not pay.

    Attributes:
        reasons: Why nodes lost their provider: (its place, node) and the reason.
    """

    owner: Placed
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)


def groups_of(table: WorkTable) -> Ints:
    """For each provider, what its islands share; -1 where they are not weighed.

    Providers of one device have common islands. On the host nothing is copied, so only a provider that says what its
    nodes cost is weighed there; of the others their own judgement and their rank decide.
    """
    groups = np.where(table.device > 0, table.device, _NO_GROUP)
    for place, stated in enumerate(table.stated):
        if stated and table.device[place] == 0:
            groups[place] = len(table.copy_us) + place
    return groups


def islands_of(table: WorkTable, owner: Placed, groups: Ints) -> Ints:
    """Number of each node's island, -1 for nodes that are in none."""
    mine = _node_groups(owner, groups)
    joined = (mine[table.producer] == mine[table.reader]) & (mine[table.reader] != _NO_GROUP)
    parent = list(range(len(owner)))
    for ends in zip(table.producer[joined].tolist(), table.reader[joined].tolist(), strict=True):
        left, right = ends
        while parent[left] != left:
            parent[left] = left = parent[parent[left]]
        while parent[right] != right:
            parent[right] = right = parent[parent[right]]
        if left < right:
            parent[right] = left
        else:
            parent[left] = right
    # Parents are smaller than their children: one walk in order ends at the roots.
    for index, above in enumerate(parent):
        parent[index] = parent[above]
    roots, labels = np.unique(np.where(mine[:-1] == _NO_GROUP, _NO_GROUP, np.array(parent)), return_inverse=True)
    labels = labels.astype(np.int64).reshape(-1)
    return labels - 1 if len(roots) and roots[0] == _NO_GROUP else labels


def improve(table: WorkTable, owner: Placed, order: Sequence[int], groups: Ints, model: CostModel) -> Improved:
    """Give away the islands that do not pay, and the nodes at their edges.

    Args:
        order: Providers in the order in which they take what others lose.
    """
    result = Improved(owner.copy())
    for _ in order:  # nodes that one device loses may go to another one, where they have to pay as well
        before = result.owner
        others = _others(table, before, order, groups)
        labels = islands_of(table, before, groups)
        if labels.max(initial=-1) < 0:
            break
        edged = trimmed(table, before, others, labels)
        kept = labels if edged is before else islands_of(table, edged, groups)
        figures = _Figures(table, edged, others, kept)
        lost = np.append(figures.elsewhere < model.island_margin * figures.here, False)  # the last: in no island
        after = np.where(lost[kept], others, edged)
        if np.array_equal(after, before):
            break
        _explain(result, table, (before, after, others), labels, groups)
        result.owner = after
    return result


def _node_groups(owner: Placed, groups: Ints) -> Ints:
    """Group of each node, and of what is outside as the last entry."""
    found = np.full(len(owner) + 1, _NO_GROUP, dtype=np.int64)
    found[:-1] = np.where(owner < 0, _NO_GROUP, groups[owner])
    return found


def _others(table: WorkTable, owner: Placed, order: Sequence[int], groups: Ints) -> Placed:
    """The provider that would take each node in place of its own: the next in order from another group, else itself."""
    found = owner.copy()
    for position, place in enumerate(order):
        mine = np.flatnonzero(owner == place)
        if groups[place] == _NO_GROUP or not len(mine):
            continue
        for later in reversed(order[position + 1 :]):
            # On the host an island is not given away for a guess.
            if groups[later] != groups[place] and (table.device[place] > 0 or table.known[later]):
                claimed = mine[table.claimed[later][mine]]
                found[claimed] = later
    return found


class _Figures:
    """Costs of each island, and of its nodes elsewhere.

    Attributes:
        copying: Copies at the border of the island.
        values, nbytes: Number of the copied values, and their bytes.
        elsewhere: Its nodes with the next providers; infinite where one has none.
    """

    def __init__(self, table: WorkTable, owner: Placed, others: Placed, labels: Ints) -> None:
        count = int(labels.max(initial=-1)) + 1
        inside = np.flatnonzero(labels >= 0)
        of = labels[inside]
        self.nodes = np.bincount(of, minlength=count)
        self.computing = _sums(of, table.cost[owner[inside], inside], count)
        self.computing += _calls(table, owner, inside, of, count)
        stuck = others[inside] == owner[inside]
        away = np.where(stuck, np.inf, table.cost[others[inside], inside])
        self.elsewhere = _sums(of, np.where(stuck, 0.0, away), count)
        self.elsewhere += _calls(table, others, inside, of, count)
        self.elsewhere[np.unique(of[stuck])] = np.inf
        self._border(table, owner, labels, count)

    def _border(self, table: WorkTable, owner: Placed, labels: Ints, count: int) -> None:
        island = np.append(labels, -1)  # what is outside is in none
        device = table.node_devices(owner)
        makes, reads = island[table.producer], island[table.reader]
        crossing = (makes != reads) & (device[table.producer] != device[table.reader])
        keys: list[Ints] = []
        for ends in (makes, reads):
            chosen = crossing & (ends >= 0)
            keys.append(np.unique(table.value[chosen] * count + ends[chosen]))
        values, of = np.divmod(np.concatenate(keys), max(1, count))
        home = np.zeros(count, dtype=np.int64)
        inside = labels >= 0
        home[labels[inside]] = device[:-1][inside]
        copies = table.copy_us[home[of]] + table.nbytes[values] / table.copy_rate[home[of]]
        self.copying = _sums(of, copies, count)
        self.values = np.bincount(of, minlength=count)
        self.nbytes = _sums(of, table.nbytes[values], count)

    @property
    def here(self) -> Floats:
        """All that an island costs."""
        found: Floats = self.computing + self.copying
        return found


def _calls(table: WorkTable, owner: Placed, inside: Ints, of: Ints, count: int) -> Floats:
    """Microseconds of the calls of regions, for each island."""
    places = owner[inside]
    regions = table.region[places, inside]
    compiled = regions >= 0
    answers, nodes = table.cost.shape
    keys = np.unique((of[compiled] * answers + places[compiled]) * nodes + regions[compiled]) // max(1, nodes)
    return _sums(keys // answers, table.launch[keys % answers], count)


def _sums(of: Ints, amounts: Floats, count: int) -> Floats:
    """Sum of the amounts of each island; of floats also where there are none, which NumPy counts as integers."""
    return np.bincount(of, amounts, minlength=count).astype(np.float64)


def _explain(
    result: Improved, table: WorkTable, placed: tuple[Placed, Placed, Placed], labels: Ints, groups: Ints
) -> None:
    before, after, others = placed
    figures = _Figures(table, before, others, labels)
    moved = np.flatnonzero(before != after)
    whole = np.bincount(labels[moved], minlength=len(figures.nodes)) == figures.nodes
    cutters = _cutters(table, before, labels, groups)
    texts: dict[int, str] = {}
    for index in moved.tolist():
        place, label = int(before[index]), int(labels[index])
        if not whole[label]:
            here, away = table.cost[place, index], table.cost[others[index], index]
            text = (
                f"does not pay at the edge of its island: about {away:.0f} µs elsewhere, {here:.0f} µs there "
                "including a copy"
            )
        elif (found := texts.get(label)) is not None:
            text = found
        else:
            text = texts[label] = (
                f"does not pay: {figures.nodes[label]} node(s) take about {figures.elsewhere[label]:.0f} µs elsewhere, "
                f"{figures.computing[label]:.0f} µs there plus {figures.copying[label]:.0f} µs to copy "
                f"{figures.nbytes[label]:.0f} bytes in {figures.values[label]} value(s)" + _cut(cutters.get(label))
            )
        result.reasons[place, index] = text


def _cut(operators: Counter[str] | None) -> str:
    if not operators:
        return ""
    return f"; cut off by {', '.join(f'{count} × {operator}' for operator, count in operators.most_common(3))}"


def _borders(table: WorkTable, owner: Placed, labels: Ints, groups: Ints) -> list[tuple[int, int]]:
    """(island, node) of each node at an island's border that no provider of the island's group claims."""
    mine = _node_groups(owner, groups)
    island = np.append(labels, -1)
    pairs: list[Ints] = []
    for ends in ((table.producer, table.reader), (table.reader, table.producer)):
        inner, outer = ends
        chosen = (island[inner] >= 0) & (outer != OUTSIDE) & (island[inner] != island[outer])
        inner, outer = inner[chosen], outer[chosen]
        group = mine[inner]
        able = np.zeros(len(outer), dtype=np.bool_)
        for place in range(len(groups)):
            able |= (groups[place] == group) & table.claimed[place][outer]
        pairs.append(np.stack([island[inner], outer], axis=1)[~able])
    return [(label, node) for label, node in np.unique(np.concatenate(pairs), axis=0).tolist()]


def _cutters(table: WorkTable, owner: Placed, labels: Ints, groups: Ints) -> Mapping[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for label, node in _borders(table, owner, labels, groups):
        found.setdefault(label, Counter())[table.view.nodes[node].op_type] += 1
    return found


def cuts_of(table: WorkTable, owner: Placed, groups: Ints) -> list[tuple[str, int, int]]:
    """Operators between islands that no provider there takes: (operator, nodes, islands), most frequent first."""
    labels = islands_of(table, owner, groups)
    nodes: dict[str, set[int]] = {}
    islands: dict[str, set[int]] = {}
    touched: Counter[int] = Counter()
    borders = _borders(table, owner, labels, groups)
    for _, node in borders:
        touched[node] += 1
    for label, node in borders:
        if touched[node] > 1:
            operator = table.view.nodes[node].op_type
            nodes.setdefault(operator, set()).add(node)
            islands.setdefault(operator, set()).add(label)
    found = [(operator, len(members), len(islands[operator])) for operator, members in nodes.items()]
    return sorted(found, key=lambda one: (-one[2], one[0]))
