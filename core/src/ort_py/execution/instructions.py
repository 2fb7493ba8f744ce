"""Steps become instructions: callables over the list of slots, specialised by arity.

The hot loop is ``for instruction in program: instruction(slots)``. An instruction for a kernel with two inputs and
one output is ``slots[o] = call(slots[a], slots[b])`` and nothing else: no loop over inputs, no tuple, no branch. The
source of each shape of instruction is made of integers counted here, never of anything a model says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from ort_py.bytecode import compiled
from ort_py.contracts import RegionInstance, RunDeclined
from ort_py.limits.running_time import contiguous_copy
from ort_py.planning.plan import ContiguousStep, CopyStep, KernelStep, RegionStep, WaitStep

Slots: TypeAlias = list[Any]
Instruction: TypeAlias = Callable[[Slots], None]
_NAMED = 256  # slots with a name of their own: the time to compile them grows with the square of their number


@cache
def _maker(inputs: int, outputs: int, released: int) -> Callable[..., Instruction]:
    """A function that makes instructions of one shape: ``maker(call, inputs, outputs, release)``."""
    results = ", ".join(f"s[o{index}]" for index in range(outputs)) if outputs <= _NAMED else "*made,"
    body = [f"{f'{results} = ' if results else ''}call({_slots(inputs)})"]
    return _compiled("call", body, inputs, outputs, released)


@cache
def _region_maker(inputs: int, outputs: int, released: int) -> Callable[..., Instruction]:
    """The same for regions: ``maker(instance, instantiate, unbound, declined, instead, inputs, outputs, release)``."""
    results = ("".join(f"s[o{index}], " for index in range(outputs)) if outputs <= _NAMED else "*made,") or "()"
    body = [
        "instance = s[place]",
        "if instance is None:",
        "    instance = instantiate(s)",
        "try:",  # which costs nothing where nothing is raised
        f"    instance.bind([{_slots(inputs)}], unbound)",
        f"    {results} = instance()",
        "except declined as error:",
        f"    {results} = instead(s, error)",
    ]
    return _compiled("place, instantiate, unbound, declined, instead", body, inputs, outputs, released)


def _slots(inputs: int) -> str:
    return ", ".join(f"s[i{index}]" for index in range(inputs)) if inputs <= _NAMED else "*[s[i] for i in ins]"


def _compiled(given: str, body: Sequence[str], inputs: int, outputs: int, released: int) -> Callable[..., Instruction]:
    """A maker of instructions: what is `given`, then the slots of inputs, of outputs and of what is released."""
    source = [f"def make({given}, ins, outs, rel):"]
    for name, count, whole in (("i", inputs, "ins"), ("o", outputs, "outs"), ("r", released, "rel")):
        if 0 < count <= _NAMED:
            names = ", ".join(f"{name}{index}" for index in range(count))
            source.append(f"    {names}, = {whole}")
    source.append("    def instruction(s):")
    stored = ["for o, one in zip(outs, made): s[o] = one"] if outputs > _NAMED else []
    freed = [f"s[r{index}] = None" for index in range(released)] if released <= _NAMED else ["for r in rel: s[r]=None"]
    source.extend(f"        {line}" for line in (*body, *stored, *freed))
    source.append("    return instruction")
    namespace: dict[str, Any] = {}
    exec(compiled("\n".join(source)), namespace)  # noqa: S102 - the source holds nothing but counted names
    maker: Callable[..., Instruction] = namespace["make"]
    return maker


def compile_kernel(step: KernelStep) -> Instruction:
    """``slots[outputs] = call(*slots[inputs])``, then the releases."""
    maker = _maker(len(step.inputs), len(step.outputs), len(step.release))
    return maker(step.call, step.inputs, step.outputs, step.release)


def compile_into(step: KernelStep, arrays: Sequence[int]) -> Instruction:
    """``slots[outputs] = into(*slots[inputs], *slots[arrays])``, then the releases."""
    assert step.into is not None
    given = (*step.inputs, *arrays)
    return _maker(len(given), len(step.outputs), len(step.release))(step.into, given, step.outputs, step.release)


def compile_kept(outputs: Sequence[int], results: Sequence[Any], release: Sequence[int]) -> Instruction:
    """``slots[outputs] = results``, which an earlier run made, then the releases."""
    give = repeat(results if len(results) > 1 else results[0]).__next__
    return _maker(0, len(outputs), len(release))(give, (), outputs, release)


def compile_release(release: Sequence[int]) -> Instruction:
    """Drop the content of slots, and do nothing else."""
    return partial(_release, release)


def _release(release: Sequence[int], s: Slots) -> None:
    for slot in release:
        s[slot] = None


def with_check(instruction: Instruction, number: int, wanted: Sequence[tuple[int, tuple[int, ...]]]) -> Instruction:
    """An instruction that checks its results: where a shape differs, the frame's run continues without a plan.

    Args:
        wanted: (slot, shape) of what later instructions count on.
    """

    if len(wanted) == 1:
        return partial(_check_one, instruction, number, *wanted[0])
    return partial(_check_all, instruction, number, wanted)


def rechecked(chosen: Instruction, plain: Instruction, other: Instruction) -> Instruction | None:
    """Another way to run a step in the place of the one that was chosen, with the same check of the results.

    Args:
        plain: The step's own instruction.
        other: Does the same.

    Returns:
        None where what was chosen is neither `plain` nor a check of it.
    """
    if chosen is plain:
        return other
    if isinstance(chosen, partial) and chosen.func in (_check_one, _check_all) and chosen.args[0] is plain:
        return partial(chosen.func, other, *chosen.args[1:])
    return None


def _check_one(instruction: Instruction, number: int, slot: int, shape: tuple[int, ...], s: Slots) -> None:
    instruction(s)
    if getattr(s[slot], "shape", None) != shape:
        s[0].go_on_plainly(number)


def _check_all(instruction: Instruction, number: int, wanted: Sequence[tuple[int, tuple[int, ...]]], s: Slots) -> None:
    instruction(s)
    for slot, shape in wanted:
        if getattr(s[slot], "shape", None) != shape:
            s[0].go_on_plainly(number)


def compile_region(step: RegionStep, instead: Callable[[RegionStep, Slots, RunDeclined], Sequence[Any]]) -> Instruction:
    """Bind the frame's instance to this run's arrays and run it; the instance is made on first use."""

    def instantiate(s: Slots) -> RegionInstance:
        instance: RegionInstance = s[0].instantiate(step)
        return instance

    maker = _region_maker(len(step.inputs), len(step.outputs), len(step.release))
    unbound = (None,) * len(step.outputs)
    answer = partial(instead, step)
    return maker(step.instance, instantiate, unbound, RunDeclined, answer, step.inputs, step.outputs, step.release)


def compile_copy(step: CopyStep) -> Instruction:
    """Copy along the hops on the frame's streams."""
    (source,), (target,), hops = step.inputs, step.outputs, step.hops
    release = step.release

    def instruction(s: Slots) -> None:
        streams = s[0].streams
        value = s[source]
        if value is not None:  # an empty optional
            for position, hop in enumerate(hops):
                stream = streams.get(hop.source) or streams.get(hop.target)
                copy = hop.transfer.copy
                if type(value) is list:  # a sequence: its tensors one by one
                    value = [copy(item, hop.source, hop.target, stream) for item in value]
                else:
                    value = copy(value, hop.source, hop.target, stream)
                if position + 1 < len(hops) and stream is not None:
                    stream.synchronize()  # the next hop reads on the host what this one wrote
        s[target] = value
        for slot in release:
            s[slot] = None

    return instruction


def compile_wait(step: WaitStep) -> Instruction:
    """Block until the device's stream is done."""
    device, release = step.device, step.release

    def instruction(s: Slots) -> None:
        stream = s[0].streams.get(device)
        if stream is not None:
            stream.synchronize()
        for slot in release:
            s[slot] = None

    return instruction


def compile_contiguous(step: ContiguousStep) -> Instruction:
    """``ascontiguousarray``, which returns the same array where there is nothing to do."""
    make = step.array_module.ascontiguousarray

    def contiguous(array: Any) -> Any:
        if type(array) is np.ndarray:
            return array if array.flags.c_contiguous else contiguous_copy(array)
        # Sequences and absent values pass; NumPy would turn a 0-d array into a 1-d one.
        return array if getattr(array, "ndim", 0) == 0 else make(array)

    return _maker(1, 1, len(step.release))(contiguous, step.inputs, step.outputs, step.release)
