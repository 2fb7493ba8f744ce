"""Slots of one plan: which value is where, on which device, and the copies, waits and layouts that bring it there.

The one place that decides about movement. A value has a home (where it is made); asking for it elsewhere emits a
copy step once, and a wait step before the host reads what a stream still writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.devices import HOST, Device
from ort_py.dtypes import numpy_dtype
from ort_py.errors import EngineError, Location
from ort_py.graph.ir import Graph, Value
from ort_py.planning.plan import NONE_SLOT, ContiguousStep, CopyStep, Step, WaitStep
from ort_py.planning.resources import PlanResources


class SlotTable:
    """Slots of one graph's plan while it is built.

    Attributes:
        captures: Slot of each outer value read here, by (value, device).
        home: Device each value of this graph is made on.
    """

    def __init__(self, graph: Graph, resources: PlanResources) -> None:
        self.steps: list[Step] = []
        self.template: list[Any] = [None, None]  # the frame's slot and the None slot
        self.captures: dict[tuple[Value, Device], int] = {}
        self.home: dict[Value, Device] = {}
        self._graph = graph
        self._resources = resources
        self._slots: defaultdict[Device, dict[Value, int]] = defaultdict(dict)
        self._contiguous: dict[int, int] = {}
        self._strided: set[int] = set()
        self._persistent: set[int] = {0, NONE_SLOT}
        self._waits: dict[Device, int] = {}
        self._arrivals: dict[int, tuple[Device, int]] = {}

    @property
    def persistent(self) -> frozenset[int]:
        """Slots whose content outlives a run: constants and infrastructure."""
        return frozenset(self._persistent)

    def reserve(self, content: Any = None) -> int:
        """A new slot that no lifetime ends: for frames, instances and constants."""
        slot = self._new(content)
        self._persistent.add(slot)
        return slot

    def stand_in(self, value: Value, device: Device) -> int:
        """A slot for a constant whose values are never read: an array of its shape and dtype that takes no memory."""
        assert value.weight is not None
        module, weight = self.array_module(device), value.weight
        return self.reserve(module.broadcast_to(module.zeros((), numpy_dtype(weight.data_type)), weight.shape))

    def define(self, value: Value, device: Device, *, strided: bool) -> int:
        """The slot of a value made here.

        Args:
            strided: Whether it may not be C-contiguous.
        """
        slot = self._new()
        self.home[value] = device
        self._slots[device][value] = slot
        if strided:
            self._strided.add(slot)
        return slot

    def keep(self, slot: int, content: Any) -> None:
        """Give a defined slot a content that outlives runs: the default of an overridable initializer."""
        self.template[slot] = content
        self._persistent.add(slot)

    def discard(self) -> int:
        """A slot for an output that has no value; released at once."""
        return self._new()

    def may_be_strided(self, *slots: int) -> bool:
        """Return whether one of these slots may hold an array that is not C-contiguous."""
        return not self._strided.isdisjoint(slots)

    def acquire(self, wanted: Sequence[tuple[Value | None, Device, bool]]) -> tuple[int, ...]:
        """Slots of values where a step wants them, after emitting the copies, layouts and waits that takes.

        Args:
            wanted: (value, device, contiguous) of each input; None where an optional input is absent.
        """
        slots = [
            NONE_SLOT if value is None else self._slots[device].get(value) or self._on(value, device)
            for value, device, _ in wanted
        ]
        for slot, (_, device, _) in zip(slots, wanted, strict=True):
            if device == HOST:
                self._settle(slot)
        for index, (slot, (_, device, contiguous)) in enumerate(zip(slots, wanted, strict=True)):
            if contiguous and slot in self._strided:
                slots[index] = self._make_contiguous(slot, device)
        return tuple(slots)

    def acquire_on(self, device: Device, values: Sequence[Value | None], *, contiguous: bool) -> tuple[int, ...]:
        """`acquire` for what most steps want: all inputs on one device, in one layout."""
        here = self._slots[device]
        slots = [NONE_SLOT if value is None else here.get(value) or self._on(value, device) for value in values]
        if self._arrivals and device == HOST:
            for slot in slots:
                self._settle(slot)
        if contiguous and not self._strided.isdisjoint(slots):
            slots = [self._make_contiguous(slot, device) if slot in self._strided else slot for slot in slots]
        return tuple(slots)

    def array_module(self, device: Device) -> Any:
        """The array module of a device: that of its first provider, or NumPy on a host without one."""
        for provider in self._resources.providers.values():
            if provider.device == device:
                return provider.array_module
        return np

    def _provider_on(self, device: Device) -> str:
        """The provider responsible when a step on a device fails: the device's first provider, or None on the host."""
        if device == HOST:
            return ""
        return next((name for name, provider in self._resources.providers.items() if provider.device == device), "")

    def _new(self, content: Any = None) -> int:
        self.template.append(content)
        return len(self.template) - 1

    def _on(self, value: Value, device: Device) -> int:
        """The slot of a value that has none on this device yet."""
        if value.constant:
            assert value.weight is not None
            slot = self.reserve(self._resources.constants.array(value.weight, device))
        elif value in self.home:
            slot = self._copy(self._slots[self.home[value]][value], self.home[value], device)
        elif value.graph is self._graph:
            raise EngineError(
                f"Value '{value.name}' is read before it is computed.",
                where=Location(value=value.name),
                why=f"the nodes of graph '{self._graph.name}' are out of order",
                fix="This is a defect of ort-py: please report it together with the model.",
            )
        else:
            # An outer value: the enclosing plan brings it to this device, once, before the body runs.
            slot = self.reserve()
            self.captures[(value, device)] = slot
            self._strided.add(slot)
        self._slots[device][value] = slot
        return slot

    def _copy(self, source: int, origin: Device, target: Device) -> int:
        hops = self._resources.transfers.route(origin, target)
        if origin == HOST:
            self._settle(source)
        slot = self._new()
        who = self._provider_on(origin if target == HOST else target)
        self.steps.append(CopyStep(inputs=(source,), outputs=(slot,), provider=who, hops=hops))
        if origin in self._resources.streams:
            # A copy arrives when the source's stream reaches it.
            self._arrivals[slot] = (origin, self._waits.get(origin, 0))
            if target != HOST:
                self._settle(slot)
        return slot

    def _settle(self, slot: int) -> None:
        """Wait for the stream that fills a slot, unless a wait since then covers it."""
        arrival = self._arrivals.get(slot)
        if arrival is None:
            return
        device, waits_before = arrival
        if self._waits.get(device, 0) == waits_before:
            self.steps.append(WaitStep(provider=self._provider_on(device), device=device))
            self._waits[device] = waits_before + 1
        del self._arrivals[slot]

    def _make_contiguous(self, slot: int, device: Device) -> int:
        if slot not in self._contiguous:
            result = self._new()
            module = self.array_module(device)
            who = self._provider_on(device)
            self.steps.append(ContiguousStep(inputs=(slot,), outputs=(result,), provider=who, array_module=module))
            self._contiguous[slot] = result
        return self._contiguous[slot]
