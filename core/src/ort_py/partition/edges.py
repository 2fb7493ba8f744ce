"""Trimming islands: nodes at an edge that cost less elsewhere, their copies counted in, leave one after the other.

A step of `islands`. A node that leaves may lay open the next one; each leaves once, so the work is linear in the uses
of values. It uses costs and devices, but not operators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from ort_py.partition.work_table import OUTSIDE, Ints, Placed, WorkTable


def trimmed(table: WorkTable, owner: Placed, others: Placed, labels: Ints) -> Placed:
    """Return a placement without the edges that do not pay.

    Args:
        others: The provider that would take each node instead; the same provider if there is no other.
    """
    devices = table.node_devices(owner)
    movable = (labels >= 0) & (others != owner) & (devices[:-1] > 0)
    crossing = devices[table.producer] != devices[table.reader]
    makers, readers, values = table.producer[crossing], table.reader[crossing], table.value[crossing]
    latency, rates = table.copy_us, 1 / table.copy_rate
    source, target = devices[makers], devices[readers]
    copying = latency[source] + latency[target] + table.nbytes[values] * (rates[source] + rates[target])
    ends = np.concatenate([makers, readers])
    # At best all copies of a node are saved: where even that is not enough, it need not be looked at.
    saved = np.bincount(ends[ends >= 0], np.tile(copying, 2)[ends >= 0], minlength=len(owner))
    places = np.arange(len(owner))
    movable &= owner >= 0
    with np.errstate(invalid="ignore"):  # a provider states a cost of minus infinity for an island that always pays
        dearer = np.where(movable, table.cost[others, places] - table.cost[owner, places], np.inf)
    start = np.flatnonzero(movable & (saved > 0) & (saved > dearer))
    if not len(start):
        return owner
    return _Trimming(table, owner, others, movable).walk(start.tolist())


class _Trimming:
    def __init__(self, table: WorkTable, owner: Placed, others: Placed, movable: Ints) -> None:
        self._table = table
        self._owner = owner.copy()
        self._others = others
        self._movable = movable.tolist()
        self._device = table.node_devices(owner).tolist()
        self._copy_us: list[float] = table.copy_us.tolist()
        self._rate: list[float] = (1 / table.copy_rate).tolist()
        self._bytes: list[float] = table.nbytes.tolist()
        self._values, self._ends = table.values_of_nodes, table.ends_of_values
        # For each value: the device that computes it, and the number of readers on each device.
        self._made = [self._device[ends[0]] for ends in self._ends]
        self._readers = [[0] * len(self._copy_us) for _ in self._bytes]
        for value, ends in enumerate(self._ends):
            counts = self._readers[value]
            for reader in ends[1:]:
                counts[self._device[reader]] += 1

    def walk(self, start: Iterable[int]) -> Placed:
        pending = deque(start)
        while pending:
            node = pending.popleft()
            if not self._movable[node] or not self._pays_to_leave(node):
                continue
            self._movable[node] = False
            self._move(node)
            for value in self._values[node]:
                pending.extend(end for end in self._ends[value] if end != OUTSIDE and self._movable[end])
        return self._owner

    def _pays_to_leave(self, node: int) -> bool:
        place, other = self._owner[node], self._others[node]
        gain = float(self._table.cost[place, node] - self._table.cost[other, node])
        target = int(self._table.device[other])
        touched = set(self._values[node])
        before = sum(map(self._copying, touched))
        self._shift(node, target)
        gain += before - sum(map(self._copying, touched))
        self._shift(node, int(self._table.device[place]))
        return gain > 0

    def _move(self, node: int) -> None:
        self._shift(node, int(self._table.device[self._others[node]]))
        self._owner[node] = self._others[node]

    def _shift(self, node: int, target: int) -> None:
        source, self._device[node] = self._device[node], target
        for value in self._values[node]:
            if self._ends[value][0] == node:
                self._made[value] = target
            else:
                self._readers[value][source] -= 1
                self._readers[value][target] += 1

    def _copying(self, value: int) -> float:
        made, nbytes, found = self._made[value], self._bytes[value], 0.0
        for device, count in enumerate(self._readers[value]):
            if count and device != made:
                found += self._copy_us[made] + self._copy_us[device]
                found += nbytes * (self._rate[made] + self._rate[device])
        return found
