"""A graph as arrays: the cost of each node with each provider that claims it, and the cost of copying its values.

Between `survey`, whose answers it prices, and `candidates` and `islands`, which weigh placements with it. A placement
is an array: for each node the index of its provider in the answers, or -1 if it has none. All steps are linear in nodes
and uses of values. Times are microseconds for one run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ort_py.contracts import ClaimKind, GraphView, NodeSpec
from ort_py.devices import HOST, Device
from ort_py.graph.ir import Graph
from ort_py.partition.rates import Calibration, Rates
from ort_py.partition.survey import Answer, estimates
from ort_py.partition.work import bytes_of, work_of

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Placed: TypeAlias = Ints

OUTSIDE = -1
"""Producer of what a graph is fed, and reader of what it returns: the host."""

_NOTHING = -1e15
"""Finite value of a cost of minus infinity, by which a provider says that its island pays in any case."""


class WorkTable:
    """Costs of one graph.

    Args:
        calibration: Costs of calls, arithmetic and copies.

    Attributes:
        cost: For each answer and node, microseconds; infinite where the provider does not claim the node. Calls of
            regions are not in it: see `launch`.
        launch: Microseconds of one call of a region, for each answer.
        region: For each answer and node, the number of its region's claim; -1 where it is a kernel's, or states what
            the whole of it costs.
        device: Number of the device of each answer, 0 for the host.
        stated: Whether each answer's provider itself says what its nodes cost.
        known: Whether it does, or its rates were measured.
        copy_us, copy_rate: Microseconds of a copy, and bytes in a microsecond, of each device.
        producer, reader, value: Uses: the node that makes a value, the node that reads it, and the value. Constants are
            not included.
    """

    def __init__(self, graph: Graph, view: GraphView, answers: Sequence[Answer], calibration: Calibration) -> None:
        self.view = view
        self.answers = answers
        self._sizes: dict[str, int] = {}
        self._known: dict[int, tuple[float, float]] = {}
        self._price(calibration)
        self._connect(graph)

    def _price(self, calibration: Calibration) -> None:
        devices: list[Device] = [HOST]
        copies: list[tuple[float, float]] = [(0.0, math.inf)]
        count = len(self.view.nodes)
        self.cost: Floats = np.full((len(self.answers), count), np.inf)
        self.region: Ints = np.full((len(self.answers), count), -1, dtype=np.int64)
        self.launch: Floats = np.zeros(len(self.answers))
        self.device: Ints = np.zeros(len(self.answers), dtype=np.int64)
        self.stated = [answer.states_costs for answer in self.answers]
        self.known = list(self.stated)
        for place, answer in enumerate(self.answers):
            provider, rates = answer.provider, calibration.of(answer.provider)
            if provider.device not in devices:
                devices.append(provider.device)
                copies.append((rates.copy_us, rates.copy_bytes_per_us))
            self.device[place] = devices.index(provider.device)
            self.launch[place] = rates.launch_us
            self.known[place] |= rates.measured
            self._price_answer(place, answer, rates)
        self.copy_us: Floats = np.array([one[0] for one in copies])
        self.copy_rate: Floats = np.array([one[1] for one in copies])

    def _price_answer(self, place: int, answer: Answer, rates: Rates) -> None:
        asks = estimates(answer.provider)
        numbers: dict[int, int] = {}
        regions = self.region[place]
        stated: dict[int, float] = {}
        guessed: list[int] = []
        for index, claim in answer.claims.items():
            if claim.cost_us is not None:
                # A claim's cost is that of all its nodes: a part of it has a part of the cost.
                stated[index] = claim.cost_us / len(claim.nodes)
                continue
            if claim.kind is ClaimKind.COMPILE:
                regions[index] = numbers.setdefault(id(claim), len(numbers))
            if not asks:
                guessed.append(index)
            else:
                self._ask(answer, index, stated, guessed)
        if guessed:
            at = np.array(guessed, dtype=np.int64)
            flops, nbytes = self._works(guessed)
            calls = np.where(regions[at] >= 0, rates.node_us, rates.launch_us)
            self.cost[place, at] = calls + np.maximum(flops / rates.flops_per_us, nbytes / rates.bytes_per_us)
        for index, cost in stated.items():
            self.cost[place, index] = max(cost, _NOTHING)

    def _ask(self, answer: Answer, index: int, stated: dict[int, float], guessed: list[int]) -> None:
        try:
            cost = answer.provider.estimate_cost(self.view.nodes[index])
        except Exception as error:  # a plug-in's code: its claim is left to others, with the reason
            answer.reasons[index] = f"estimate_cost raised {type(error).__name__}: {error}"
            return
        if cost is None:
            guessed.append(index)
        else:
            stated[index] = cost

    def _works(self, nodes: Sequence[int]) -> tuple[Floats, Floats]:
        known = self._known
        found: list[tuple[float, float]] = []
        for index in nodes:
            work = known.get(index)
            if work is None:
                one = work_of(self.view.nodes[index], self._sizes)
                work = known[index] = (one.flops, one.nbytes)
            found.append(work)
        pairs = np.array(found, dtype=np.float64)
        return pairs[:, 0], pairs[:, 1]

    def _connect(self, graph: Graph) -> None:
        numbers: dict[str, int] = {}
        producers: list[int] = []
        sizes: list[int] = []
        uses: list[tuple[int, int]] = []
        known = self._sizes
        for node in self.view.nodes:
            for value in node.inputs:
                if value is None or value.constant:
                    continue
                number = numbers.get(value.name)
                if number is None:
                    number = numbers[value.name] = len(producers)
                    producers.append(OUTSIDE)
                    sizes.append(known.get(value.name) or bytes_of(value))
                uses.append((number, node.index))
            for captured in self._captured(graph, node):
                number = numbers.get(captured)
                if number is not None:
                    uses.append((number, node.index))
            for value in node.outputs:
                if value is not None:
                    numbers[value.name] = len(producers)
                    producers.append(node.index)
                    sizes.append(known.get(value.name) or bytes_of(value))
        uses.extend([(numbers[value.name], OUTSIDE) for value in self.view.outputs if value.name in numbers])
        self.nbytes: Floats = np.array(sizes, dtype=np.float64)
        pairs = np.array(uses, dtype=np.int64).reshape(-1, 2)
        self.value: Ints = pairs[:, 0]
        self.reader: Ints = pairs[:, 1]
        self.producer: Ints = np.array(producers, dtype=np.int64)[self.value]

    @staticmethod
    def _captured(graph: Graph, node: NodeSpec) -> list[str]:
        subgraphs = graph.nodes[node.index].subgraphs
        return [value.name for nested in subgraphs for value in nested.captures()] if subgraphs else []

    @cached_property
    def claimed(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each answer and node, whether it is claimed."""
        return np.isfinite(self.cost)

    @cached_property
    def ends_of_values(self) -> list[list[int]]:
        """Makers, then readers of each value, once for each use; `OUTSIDE` among them."""
        found: list[list[int]] = [[OUTSIDE] for _ in self.nbytes]
        for producer, reader, value in zip(
            self.producer.tolist(), self.reader.tolist(), self.value.tolist(), strict=True
        ):
            found[value][0] = producer
            found[value].append(reader)
        return found

    @cached_property
    def values_of_nodes(self) -> list[list[int]]:
        """Values each node makes or reads, once for each use."""
        found: list[list[int]] = [[] for _ in self.view.nodes]
        for value, ends in enumerate(self.ends_of_values):
            for node in ends:
                if node != OUTSIDE:
                    found[node].append(value)
        return found

    def owners(self, order: Sequence[int]) -> Placed:
        """Each node with the first answer of an order that claims it."""
        owner = np.full(self.cost.shape[1], -1, dtype=np.int64)
        for place in reversed(order):
            owner[self.claimed[place]] = place
        return owner

    def node_devices(self, owner: Placed) -> Ints:
        """Number of the device each node is on; one entry more for what is outside."""
        found = np.zeros(len(owner) + 1, dtype=np.int64)  # the last entry is that of index -1
        found[:-1] = np.where(owner < 0, 0, self.device[owner])
        return found

    def total(self, owner: Placed) -> float:
        """Microseconds of one run: nodes, calls of regions, copies."""
        assigned = np.flatnonzero(owner >= 0)
        places = owner[assigned]
        regions = self.region[places, assigned]
        compiled = regions >= 0
        calls = np.unique(places[compiled] * len(owner) + regions[compiled]) // max(1, len(owner))
        spent = float(self.cost[places, assigned].sum() + self.launch[calls].sum())
        return spent + float(self.copies(owner).sum())

    def copies(self, owner: Placed) -> Floats:
        devices = self.node_devices(owner)
        source, target = devices[self.producer], devices[self.reader]
        crossing = source != target
        # A value is copied to a device once, however many read it there.
        keys = np.unique(self.value[crossing] * len(self.copy_us) + target[crossing])
        values, targets = np.divmod(keys, len(self.copy_us))
        makers = np.zeros(len(self.nbytes), dtype=np.int64)
        makers[self.value] = source
        # Between two devices a value goes over the host.
        ends = self.copy_us[targets] + self.copy_us[makers[values]]
        found: Floats = ends + self.nbytes[values] * (1 / self.copy_rate[targets] + 1 / self.copy_rate[makers[values]])
        return found
