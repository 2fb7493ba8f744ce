"""Runs with values on devices: inputs that are fed on a device are read there, and outputs wanted on one stay there.

Used by bindings and by runs of `OrtValue`s, never by plain runs. Each combination of places has a program of its
own, made when it is first met and kept with the session's runner. Where a run fails, what is fed is brought to the
host, and the run is answered as any other; also where a provider was left out before, or a run is split. Results go to
their places then by a copy, as they do to devices that no provider of the session can copy to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import FailureKind
from ort_py.devices import HOST, Device
from ort_py.dtypes import DataType, TensorType
from ort_py.engine.engine import Engine
from ort_py.engine.feeds import device_feed
from ort_py.engine.run_arguments import check_run_options
from ort_py.engine.runner import Runner, finish_result
from ort_py.engine.runs import answer, execute, run
from ort_py.errors import EngineError, MissingInputError
from ort_py.execution.compile_plan import compile_plan
from ort_py.fallback.failure import failure_of
from ort_py.memory.transfer import TransferTable
from ort_py.options import RunOptions, reuses_memory
from ort_py.planning.device_plan import device_plan
from ort_py.planning.plan import PlanInput, PlanOutput
from ort_py.values.device_memory import DeviceMemory, memory_of
from ort_py.values.device_tensor import DeviceTensor

MOST_PROGRAMS = 16
"""Combinations of places that a session keeps programs for; runs with more of them go through the host."""


class DeviceRunner(Runner):
    """Runs the program of another runner with some inputs and outputs on devices.

    Args:
        inputs: Device of each input that is fed as a `DeviceTensor`, by name: tensors without defaults.
        outputs: Device of each output that is given as one, by name: tensors.

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
        plan = device_plan(base.program.plan, inputs, outputs, transfers)
        program = compile_plan(plan, reuses_memory=reuses_memory)
        super().__init__(program, base.lanes, pool=base.pool.annex(program))
        self._memories = memories
        self._placed = [spec for spec in self._required if spec.name in inputs]
        self._required = [spec for spec in self._required if spec.name not in inputs]

    def _fill(self, slots: list[Any], feed: Mapping[str, Any]) -> None:
        others = dict(feed)
        for spec in self._placed:
            slots[spec.slot] = device_feed(spec, others.pop(spec.name))
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


def run_on_devices(
    engine: Engine,
    output_names: Sequence[str],
    input_feed: Mapping[str, Any],
    places: Mapping[str, Device],
    run_options: RunOptions | None = None,
) -> list[Any]:
    """Run once.

    Args:
        output_names: Outputs wanted, empty for all.
        input_feed: As for `runs.run`, with a `DeviceTensor` for each input that is on a device.
        places: Device of each output that is wanted on one, by name.

    Returns:
        One value per output: a `DeviceTensor` for tensors wanted on a device, others as `runs.run`.
    """
    check_run_options(run_options)
    base = engine.runner
    runner = None if base is None else _runner_for(engine, base, input_feed, places, run_options)
    if base is None or runner is None or base.needs_host_values():
        found = run(engine, output_names, _on_host(input_feed), run_options)
    else:
        try:
            found = execute(engine, runner, input_feed, output_names, run_options)
        except Exception as error:  # as in `run`
            if failure_of(error, engine.providers.in_use).kind is FailureKind.CALLER:
                raise
            found = _recovered(engine, base, error, output_names, input_feed, run_options)
    names = output_names or [argument.name for argument in engine.description.outputs]
    return [_brought(value, places.get(name)) for name, value in zip(names, found, strict=True)]


def _runner_for(
    engine: Engine, base: Runner, feed: Mapping[str, Any], places: Mapping[str, Device], options: RunOptions | None
) -> Runner | None:
    """The runner for these places; None where the run goes through the host."""
    recovery = engine.recovery
    if recovery.watching or (options is not None and recovery.fitting):
        return None
    plan = base.program.plan
    inputs = {
        value.name: given.device
        for value in plan.inputs
        if not value.default and _is_tensor(value) and isinstance(given := feed.get(value.name), DeviceTensor)
    }
    outputs = {value.name: places[value.name] for value in plan.outputs if value.name in places and _is_tensor(value)}
    if len(inputs) != sum(isinstance(value, DeviceTensor) for value in feed.values()) or len(outputs) != len(places):
        return None  # an unknown name or not a tensor: the path through the host reports or converts it
    key = (tuple(sorted(inputs.items())), tuple(sorted(outputs.items())))
    with engine.lock.held():
        assembled = engine.assembled
        if engine.runner is not base or assembled is None:
            return None
        known = base.on_devices
        if key not in known and len(known) < MOST_PROGRAMS:
            devices = {*inputs.values(), *outputs.values()}
            memories = {device: memory for device in devices if (memory := memory_of(device)) is not None}
            try:
                known[key] = DeviceRunner(
                    base, inputs, outputs, assembled.transfers, memories, reuses_memory=reuses_memory(engine.options)
                )
            except EngineError:
                known[key] = None  # no provider of the session copies to one of these devices
        return known.get(key)


def _is_tensor(value: PlanInput | PlanOutput) -> bool:
    return isinstance(value.type, TensorType) and value.type.data_type is not DataType.STRING


def _recovered(
    engine: Engine,
    runner: Runner,
    error: Exception,
    names: Sequence[str],
    feed: Mapping[str, Any],
    options: RunOptions | None,
) -> list[Any]:
    try:
        whole = _on_host(feed)
    except Exception as lost:  # the device is gone, and what was on it
        error.add_note(
            f"The run could not be repeated, because a feed can no longer be read: {type(lost).__name__}: {lost}"
        )
        raise error from error.__cause__
    return answer(engine, runner, error, names, whole, options)


def _on_host(feed: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.to_host() if isinstance(value, DeviceTensor) else value for name, value in feed.items()}


def _brought(value: Any, place: Device | None) -> Any:
    """Bring a result to its place. A value that is not a numeric tensor stays on the host."""
    if place is None or place == HOST or not isinstance(value, np.ndarray) or value.dtype.hasobject:
        return value
    return DeviceTensor.of_host(place, value)
