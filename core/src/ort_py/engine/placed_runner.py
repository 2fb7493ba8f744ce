"""A runner whose program takes some feeds on devices and leaves some results there.

Made of a session's own runner, whose frames' pool closes, trims and counts those of this one too. Comes after
`planning.placed_plan`; who asks for it stands in `placed_runs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.devices import HOST, Device
from ort_py.engine.feeds import placed_feed
from ort_py.engine.results import finish_result
from ort_py.engine.runner import Runner
from ort_py.errors import MissingInputError
from ort_py.execution.program import Program
from ort_py.memory.transfer import TransferTable
from ort_py.planning.placed_plan import placed_plan
from ort_py.values.device_memory import DeviceMemory
from ort_py.values.device_tensor import DeviceTensor

__all__ = ["PlacedRunner"]


class PlacedRunner(Runner):
    """Runs the program of another runner with some inputs and outputs on devices.

    Args:
        base: The session's runner.
        inputs: Device of each input that is fed as a `DeviceTensor`, by name: tensors without defaults.
        outputs: Device of each output that is given as one, by name: tensors.
        transfers: The session's copies.
        memories: Memory of each of these devices.
        reuses_memory: As for the program of the base.

    Raises:
        EngineError: Nothing copies between a device and the host.
    """

    def __init__(
        self,
        base: Runner,
        inputs: Mapping[str, Device],
        outputs: Mapping[str, Device],
        transfers: TransferTable,
        memories: Mapping[Device, DeviceMemory],
        *,
        reuses_memory: bool,
    ) -> None:
        plan = placed_plan(base.program.plan, inputs, outputs, transfers)
        program = Program(plan, reuses_memory=reuses_memory)
        super().__init__(program, base.lanes, pool=base.pool.annex(program))
        self._memories = memories
        self._placed = [spec for spec in self._required if spec.name in inputs]
        self._required = [spec for spec in self._required if spec.name not in inputs]

    def _fill(self, slots: list[Any], feed: Mapping[str, Any]) -> None:
        others = dict(feed)
        for spec in self._placed:
            slots[spec.slot] = placed_feed(spec, others.pop(spec.name))
        super()._fill(slots, others)

    def _missing(self, feed: Mapping[str, Any]) -> MissingInputError:
        return super()._missing({**dict.fromkeys(spec.name for spec in self._placed), **feed})

    def _collect(self, slots: list[Any], names: Sequence[str] | None) -> list[Any]:
        results: list[Any] = []
        taken: set[str] = set()
        for name in names or list(self._output_by_name):
            output = self._output_by_name.get(name)
            if output is None:
                raise self._no_output(name)
            value, copy = slots[output.slot], output.copy or name in taken
            taken.add(name)
            if output.device == HOST:
                results.append(finish_result(value, copy))
                continue
            memory = self._memories[output.device]
            whole = value if value.flags.c_contiguous and not copy else memory.copied(value)
            results.append(DeviceTensor(memory, whole))
        return results
