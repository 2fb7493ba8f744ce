"""A plan for feeds that are on a device already, and results that are wanted on one: the copies between are left out.

Comes after `builder`, whose plans bring everything to the host. What changes are slots and copies at both ends of the
main graph; kernels, constants and the plans of bodies are those of the plan it is made from. It is independent of
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ort_py.devices import HOST, Device
from ort_py.memory.transfer import TransferTable
from ort_py.planning.plan import CopyStep, ExecutionPlan, PlanInput, PlanOutput, Step, WaitStep


def device_plan(
    plan: ExecutionPlan, inputs: Mapping[str, Device], outputs: Mapping[str, Device], transfers: TransferTable
) -> ExecutionPlan:
    """The same plan with other places for some inputs and outputs.

    Its runs end with a wait for each of these devices: memory of the caller's is not read afterwards, and results are
    there. Results may be strided, as their steps made them.

    Args:
        plan: A main plan, with everything on the host.
        inputs: Device of each input that is fed there, by name; none that has a default.
        outputs: Device of each output wanted there, by name.

    Raises:
        EngineError: Nothing copies between a device and the host.
    """
    edit = _Edit(plan, transfers)
    taken = tuple(edit.arriving(value, inputs[value.name]) if value.name in inputs else value for value in plan.inputs)
    given = tuple(
        edit.leaving(value, outputs[value.name]) if value.name in outputs else value for value in plan.outputs
    )
    streamed = {device for device, _ in plan.streams}
    for device in sorted({*inputs.values(), *outputs.values()} & streamed):
        edit.wait_last(device)
    ends = {value.slot for value in taken if not value.default} | {value.slot for value in given}
    persistent = {value.slot for value in plan.outputs} - set(plan.clear)
    return replace(
        plan,
        steps=tuple(edit.steps),
        template=tuple(edit.template),
        inputs=taken,
        outputs=given,
        clear=tuple(sorted(({*plan.clear} | ends) - persistent)),
    )


class _Edit:
    """Steps and slots of the new plan while it is made."""

    def __init__(self, plan: ExecutionPlan, transfers: TransferTable) -> None:
        self.steps: list[Step] = list(plan.steps)
        self.template = list(plan.template)
        self._transfers = transfers
        self._results = {value.name: value.slot for value in plan.outputs}

    def arriving(self, value: PlanInput, device: Device) -> PlanInput:
        """Take an input on a device: the copy to that device is dropped, and steps that read it elsewhere get a copy
        from there.
        """
        host = value.slot
        to_host = self._transfers.route(device, HOST)
        number = self._copy(lambda step: step.inputs == (host,) and step.hops[-1].target == device)
        slot = self._new() if number is None else self.steps.pop(number).outputs[0]
        if self._is_read(host) or host in self._results.values():
            who = self.provider_on(device)
            last = () if self._is_read(slot) else (slot,)
            self.steps[:0] = [
                CopyStep(inputs=(slot,), outputs=(host,), release=last, provider=who, hops=to_host),
                WaitStep(provider=who, device=device),
            ]
        return replace(value, slot=slot, device=device)

    def leaving(self, value: PlanOutput, device: Device) -> PlanOutput:
        """Give an output on a device: where its step made it there, it is not copied."""
        host = self._results.pop(value.name)
        number = self._copy(lambda step: step.outputs == (host,) and step.hops[0].source == device)
        if number is None:
            slot = self._new()
            hops = self._transfers.route(HOST, device)
            self.steps.append(CopyStep(inputs=(host,), outputs=(slot,), provider=self.provider_on(device), hops=hops))
        else:
            slot = self.steps[number].inputs[0]
            if not self._is_read(host) and host not in self._results.values():
                del self.steps[number]
            self.steps = [
                replace(step, release=tuple(other for other in step.release if other != slot))
                if slot in step.release
                else step
                for step in self.steps
            ]
        return replace(value, slot=slot, device=device)

    def wait_last(self, device: Device) -> None:
        """End with a wait for a device; those at the end so far do."""
        for step in reversed(self.steps):
            if not isinstance(step, WaitStep):
                break
            if step.device == device:
                return
        self.steps.append(WaitStep(provider=self.provider_on(device), device=device))

    def provider_on(self, device: Device) -> str:
        """The provider responsible for a failure on a device: the one that runs a step there, or None."""
        return next((step.provider for step in self.steps if step.provider and _is_on(step, device)), "")

    def _copy(self, wanted: Callable[[CopyStep], bool]) -> int | None:
        for number, step in enumerate(self.steps):
            if isinstance(step, CopyStep) and wanted(step):
                return number
        return None

    def _is_read(self, slot: int) -> bool:
        return any(slot in step.inputs for step in self.steps)

    def _new(self) -> int:
        self.template.append(None)
        return len(self.template) - 1


def _is_on(step: Step, device: Device) -> bool:
    if isinstance(step, CopyStep):
        return any(device in (hop.source, hop.target) for hop in step.hops)
    return getattr(step, "device", None) == device
