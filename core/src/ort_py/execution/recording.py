"""The record of one run: the form of every value, and the number of bytes alive at once.

Only the few runs whose signature is new are recorded. A recorded run does what any other does, with a look at the slots
after each step. It does not choose places: `planning.memory_plan` finds them in what was seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_py.planning.plan import KernelStep
from ort_py.planning.seen_value import SeenValue

if TYPE_CHECKING:
    from ort_py.execution.instructions import Instruction, Slots
    from ort_py.planning.plan import Step

_SHOWN = 10
"""Nodes in the list of the largest."""

_KEPT_BYTES, _MOST_KEPT = 256 << 10, 4 << 20
"""Bytes of the results of a step up to which they are kept, and of those of all steps together: what is larger takes
longer than a step's overhead, and memory for each set of shapes."""


class RunRecord:
    """Record of one run of one plan; bodies keep their own.

    Args:
        slots: The frame's slots as the run begins: what they hold is not the run's.
        fixed: Numbers of the steps whose results are kept.

    Attributes:
        kept: Results of those of them that are not large, by number; the first ones up to a limit.
        seen: Content of each slot that held an array, by slot.
        high_water: The most bytes that were alive at once.
    """

    def __init__(self, steps: tuple[Step, ...], slots: Slots, fixed: Collection[int] = ()) -> None:
        self.kept: dict[int, list[Any]] = {}
        self.seen: dict[int, SeenValue] = {}
        self.high_water = 0
        self._steps = steps
        self._fixed = fixed
        self._left = _MOST_KEPT
        self._given = {id(owner) for value in slots for owner, _ in _owners(value)}
        # By the identity of the memory's owner: slots that hold it, bytes, number of the step that made it. Owners in
        # a slot are alive, so no two have one identity.
        self._alive: dict[int, list[int]] = {}
        self._of_slot: dict[int, tuple[int, ...]] = {}
        self._bytes = 0
        self._peak: dict[int, int] = {}

    def instructions(self, plain: Iterable[Instruction], peak_of_body: Callable[[int], int]) -> list[Instruction]:
        """The plan's instructions, each with a look afterwards.

        Args:
            peak_of_body: Returns the most bytes that a body held, which is named by the slot of its frame.
        """
        return [partial(self._run, number, instruction, peak_of_body) for number, instruction in enumerate(plain)]

    def largest(self) -> tuple[tuple[str, int], ...]:
        """(node and operator, bytes) of the values alive at the peak, largest first."""
        found = sorted(self._peak.items(), key=lambda item: (-item[1], item[0]))
        return tuple((self._steps[number].title, nbytes) for number, nbytes in found[:_SHOWN])

    def _run(self, number: int, instruction: Instruction, peak_of_body: Callable[[int], int], s: Slots) -> None:
        step = self._steps[number]
        if isinstance(step, KernelStep) and step.check is not None:
            _run_checked(step, s)
        else:
            instruction(s)
        if number in self._fixed:
            size = sum(size for slot in step.outputs for _, size in _owners(s[slot]))
            if size <= min(_KEPT_BYTES, self._left):
                self._left -= size
                self.kept[number] = [s[slot] for slot in step.outputs]
        for slot in step.outputs:
            if slot not in step.release:
                self._note(number, slot, s[slot])
        bodies = step.bodies
        within = max(peak_of_body(body.frame) for _, body in bodies) if bodies else 0
        if self._bytes + within > self.high_water:
            self.high_water = self._bytes + within
            self._peak = {}
            for _, nbytes, maker in self._alive.values():
                self._peak[maker] = self._peak.get(maker, 0) + nbytes
            if within:
                self._peak[number] = self._peak.get(number, 0) + within
        for slot in step.release:
            for owner in self._of_slot.pop(slot, ()):
                self._drop(owner)

    def _note(self, number: int, slot: int, value: Any) -> None:
        seen = _seen_value(value)
        if seen is not None:
            self.seen[slot] = seen
        found = []
        for owner, nbytes in _owners(value):
            if id(owner) not in self._given:
                entry = self._alive.get(id(owner))
                if entry is None:
                    self._alive[id(owner)] = [1, nbytes, number]
                    self._bytes += nbytes
                else:
                    entry[0] += 1
                found.append(id(owner))
        self._of_slot[slot] = tuple(found)

    def _drop(self, owner: int) -> None:
        entry = self._alive[owner]
        entry[0] -= 1
        if not entry[0]:
            self._bytes -= entry[1]
            del self._alive[owner]


def _run_checked(step: KernelStep, s: Slots) -> None:
    """Execute the step's instruction and check what the kernel returned."""
    assert step.check is not None
    inputs = [s[slot] for slot in step.inputs]
    for slot, result in zip(step.outputs, step.check(inputs, step.call(*inputs)), strict=True):
        s[slot] = result
    for slot in step.release:
        s[slot] = None


def _seen_value(value: Any) -> SeenValue | None:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return None
    flags = getattr(value, "flags", None)
    plain = bool(getattr(flags, "c_contiguous", False)) and not getattr(dtype, "hasobject", True)
    return SeenValue(tuple(shape), dtype, int(value.nbytes), plain)


def _owners(value: Any) -> list[tuple[Any, int]]:
    """(array, bytes) of the arrays whose memory a value is in."""
    pending, found = [value], []
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
            continue
        # A view takes no memory of its own, and a broadcast one tells of more than there is.
        while hasattr(base := getattr(item, "base", None), "nbytes"):
            item = base
        if hasattr(item, "nbytes"):
            found.append((item, int(item.nbytes)))
    return found
