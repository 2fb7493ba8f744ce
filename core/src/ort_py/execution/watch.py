"""Checks between steps: cancellation, the time limit, the memory limit and the recording of times.

A run without any of these has no watch and pays nothing.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.constraints import check_work
from ort_py.contracts.running_time import check_time
from ort_py.errors import Fail, LimitError, MemoryLimitError
from ort_py.limits.allocation import array_memory
from ort_py.limits.budget import MEMORY_FIX
from ort_py.limits.running_time import refuse_ahead
from ort_py.planning.plan import FRAME_SLOT, Step
from ort_py.platform.headroom import BLAS_BUFFER, addresses_limited, has_headroom
from ort_py.platform.processors import products_per_second

if TYPE_CHECKING:
    from ort_py.execution.program import Program
    from ort_py.profiling.recorder import Recorder

_NAMED = 5
"""Arrays named where a run holds too much."""


_GATHERING = frozenset(
    (
        *("Identity", "If", "Loop", "Optional", "OptionalGetElement", "Scan", "SequenceConstruct", "SequenceEmpty"),
        *("SequenceErase", "SequenceInsert", "SequenceMap"),
    )
)
"""Operators whose sequences hold tensors that were counted when they were made."""


_PRODUCTS = frozenset(
    (
        *("Attention", "Det", "Conv", "ConvInteger", "ConvTranspose", "Einsum", "FusedConv", "FusedGemm"),
        *("FusedMatMul", "GRU", "Gemm", "GroupQueryAttention", "LSTM", "MatMul", "MatMulInteger", "MatMulNBits"),
        *("MultiHeadAttention", "QLinearConv", "QLinearMatMul", "RNN"),
    )
)
"""Operators whose work outgrows their inputs. Others end soon, or look at the clock themselves."""

_WORTH_A_LOOK = 1 << 22
"""Elements of inputs below which products end within seconds, whatever their shapes; pads may make much of little."""


def demanding_steps(program: Program) -> tuple[bool, ...]:
    """Note and return, by step of a program, whether its work outgrows its inputs: `RunWatch.fits` is asked first."""
    program.demanding = tuple([step.location.op_type in _PRODUCTS for step in program.plan.steps])
    return program.demanding


_STRETCH = 1 << 16
"""Items of sequences that are counted between two looks at the clock."""


class RunWatch:
    """Checks of one run, nested bodies included.

    Args:
        terminate: Asked between steps whether to stop.
        memory_bytes: Limit of the bytes all live arrays of the run may take, constants included.
        held_bytes: Memory that the session holds beside the arrays of its runs, which counts too.
        threads: Threads of the run, for what fits into its time.

    Attributes:
        checks: Whether there is anything but the recorder: something to look at between steps.
        bounds_memory: Whether the bytes that are alive are counted.
        terminable: Whether there is anything to ask whether to stop.
        deadline: The time (of ``time.monotonic``) when the run has to be over.
    """

    def __init__(
        self,
        *,
        terminate: Callable[[], bool] | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        held_bytes: int = 0,
        recorder: Recorder | None = None,
        threads: int = 1,
    ) -> None:
        self._terminate = terminate
        self.terminable = terminate is not None
        self._seconds = seconds
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._threads = threads
        self._memory_bytes = memory_bytes
        self._held_bytes = held_bytes
        self.recorder = recorder
        self.bounds_memory = memory_bytes is not None
        self.checks = terminate is not None or seconds is not None or memory_bytes is not None
        # What is alive around the running frame: the slots of each frame further out, and what waits to be stacked.
        self._outer: list[list[Any]] = []
        self._at_most: int | None = None  # bytes that can be alive; None where only looking at all arrays tells
        self._looked_at: set[int] = set()
        self._addresses_limited: bool | None = None

    @property
    def idle(self) -> bool:
        return not self.checks and self.recorder is None

    def before(self, step: Step | None = None) -> None:
        """Stop the run where it was cancelled or its time is over.

        Raises:
            Fail: The caller asked to stop.
        """
        if self._terminate is not None and self._terminate():
            raise Fail(
                "The run was stopped: RunOptions.terminate is set.",
                where=step.location if step is not None else "",
                fix="Set it to False, or pass other RunOptions, to run again.",
            )
        if time.monotonic() > self.deadline:
            raise LimitError(
                f"The run took longer than {self._seconds} s.",
                where=step.location if step is not None else "",
                why="Limits.run_seconds",
                fix="Raise the limit if you trust the model.",
            )

    def check_kernel(self, ahead: float = 0.0) -> None:
        """Stop a kernel inside of a step; see `ort_py.limits.checking_time`.

        Raises:
            Fail, LimitError: As `before`; or a call of `ahead` seconds would end long after the time is over.
        """
        self.before()
        if ahead and self._seconds is not None:
            refuse_ahead(ahead, self.deadline - time.monotonic(), self._seconds, "Limits.run_seconds")

    def fits(self, step: Step, slots: Sequence[Any]) -> None:
        """Refuse a kernel whose products cannot end within the time limit, before they begin.

        Raises:
            MemoryLimitError: There is no memory for the buffers of the libraries that compute them.
        """
        if self._seconds is None:
            return
        if self._addresses_limited is None:
            self._addresses_limited = addresses_limited()  # to ask takes as long as a small product
        if self._addresses_limited and not has_headroom(BLAS_BUFFER * self._threads):
            raise MemoryLimitError(
                f"Less than {BLAS_BUFFER * self._threads >> 20} MiB of addresses are left for a product of matrices.",
                where=step.location,
                why="libraries for such products end the process if they get no memory for their buffers",
                fix="Raise the limit of this process's address space (RLIMIT_AS), or use fewer threads.",
            )
        from ort_py.constraints.single import work_of  # the table of constraints: only runs with a limit need it

        if (node := getattr(step, "node", None)) is None:
            return  # a region, which its gate asked
        inputs = [slots[slot] for slot in step.inputs]
        if sum(getattr(one, "size", 0) for one in inputs) >= _WORTH_A_LOOK or node.attributes.get("pads"):
            kinds = [one.dtype for one in inputs if isinstance(one, np.ndarray)]
            if kinds:  # other devices have other rates
                least = min(kind.itemsize for kind in kinds)
                halves = {kind for kind in kinds if kind.itemsize == least} == {np.dtype("f2")}
                rate = self._threads * products_per_second(8 * least, halves=halves)
                check_work(work_of(node, inputs), self._seconds, rate, step.location)

    def after(self, step: Step, slots: list[Any]) -> None:
        """Stop the run where its arrays take too much memory.

        All arrays are looked at only where the results since the last look, if all of them are still alive, would pass
        the limit: else each step of a loop would look at every element of the sequences that the loop makes.

        Raises:
            MemoryLimitError: More than `memory_bytes` are alive.
        """
        if self._memory_bytes is None:
            return
        if id(slots) not in self._looked_at:  # a frame comes with constants of its own
            self._looked_at.add(id(slots))
            self._at_most = None
        at_most = self._at_most
        if at_most is None:
            self._check(step, slots)
            return
        for slot in step.outputs:
            item = slots[slot]
            if type(item) is np.ndarray and item.dtype.char != "O":  # the common case, decided without further checks
                while isinstance(item.base, np.ndarray):
                    item = item.base
                at_most += item.nbytes
            elif not (_is_list(item) and step.location.op_type in _GATHERING and not step.location.domain):
                at_most += _at_most((item,))
        self._at_most = at_most
        if at_most > self._memory_bytes - self._held_bytes:
            self._check(step, slots)

    def enter(self, slots: list[Any]) -> None:
        """A body begins: what the frame around it holds stays alive, and counts, until `leave`."""
        if self._memory_bytes is not None:
            self._outer.append([slots])

    def hold(self, step: Step, values: Sequence[Any]) -> None:
        """A body's iteration left values that wait outside of any slot to be stacked.

        Raises:
            MemoryLimitError: More than `memory_bytes` are alive.
        """
        if self._memory_bytes is not None and values:
            self._outer[-1].extend(values)
            self._check(step, ())

    def leave(self) -> None:
        """The body has ended."""
        if self._memory_bytes is not None:
            self._outer.pop()

    def _alive(self, slots: Sequence[Any]) -> int:
        """Bytes of all arrays that are alive; memory that several share counts once."""
        texts: set[int] = set()
        return sum(array_memory(owner, texts) for owner in _owners((*slots, *self._outer)))

    def _check(self, step: Step, slots: Sequence[Any]) -> None:
        assert self._memory_bytes is not None  # who calls has asked
        allowed = self._memory_bytes - self._held_bytes
        if self._at_most is not None and self._at_most <= allowed:
            return
        total = self._at_most = self._alive(slots)
        if total <= allowed:
            return
        largest = _largest(slots)
        packed = f", {self._held_bytes} of them derived from constants" if self._held_bytes else ""
        raise MemoryLimitError(
            f"The run holds {total + self._held_bytes} bytes{packed}; {self._memory_bytes} are allowed.",
            where=step.location,
            why=[
                f"Limits.total_memory_bytes is {self._memory_bytes}",
                *(f"{name}: {size} bytes" for name, size in largest),
            ],
            fix=MEMORY_FIX,
            largest=largest,
        )


def _counts(value: Any) -> bool:
    return isinstance(value, dict) or hasattr(value, "nbytes")  # arrays of any device


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _at_most(values: Iterable[Any]) -> int:
    """Bytes that values may have added: all of them, whether they share memory with others or not."""
    return sum(map(array_memory, _owners(values)))


def _owners(values: Iterable[Any]) -> Iterator[Any]:
    """The arrays that own the memory of values, each once; a sequence may have millions of them."""
    found: set[int] = set()
    pending = list(values)
    for count in itertools.count(1):
        if not pending:
            return
        if count % _STRETCH == 0:
            check_time()
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
            continue
        owner = _owner(item)
        if id(owner) not in found and _counts(owner):
            found.add(id(owner))
            yield owner


def _owner(item: Any) -> Any:
    """The array that owns the memory. A view takes none of its own, and a broadcast array reports more than there
    is.
    """
    while isinstance(item, np.ndarray) and isinstance(item.base, np.ndarray):
        item = item.base
    return item


def _largest(slots: Sequence[Any]) -> tuple[tuple[str, int], ...]:
    """(description, bytes) of the largest arrays in the slots of a frame."""
    program = getattr(slots[FRAME_SLOT], "program", None) if slots else None
    makers = {value.slot: f"feed '{value.name}'" for value in program.plan.inputs} if program is not None else {}
    for step in program.plan.steps if program is not None else ():
        makers |= dict.fromkeys(step.outputs, step.title)
    found: dict[int, tuple[int, str]] = {}
    texts: set[int] = set()
    for slot, item in enumerate(slots):
        owner = _owner(item)
        if _counts(owner):
            found.setdefault(id(owner), (array_memory(owner, texts), makers.get(slot, "a constant")))
    return tuple((name, size) for size, name in nlargest(_NAMED, found.values()))
