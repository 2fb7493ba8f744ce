"""Counting against limits while one model loads: nodes, depth, bytes of constants, seconds.

One `Budget` a load, used by one thread. The places that can grow call it as they go, so that a hostile model is
stopped at the limit and not after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import nlargest

from ort_py.errors import LimitError, Location, MemoryLimitError, ModelLoadCanceled
from ort_py.limits.allocation import human_bytes
from ort_py.limits.limits import Limits
from ort_py.limits.running_time import refuse_ahead

MEMORY_FIX = "Use a smaller input or model, or raise SessionOptions.memory_limit_bytes (Limits.total_memory_bytes)."
"""Advice where a session would hold more memory than it may."""

_PER_CHECK = 512
"""Parts of a model between two looks at the clock, each of which costs about as much as a tenth of a node."""

_NAMED = 5
"""Constants named where there are too many."""


class Budget:
    """Resources that a load has used so far.

    Attributes:
        file_bytes: Size of the model and of the external files seen so far; relative bounds follow it.
        initializer_bytes: Bytes of constants made or mapped so far.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        file_bytes: int = 0,
        clock: Callable[[], float] = time.monotonic,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.limits = limits
        self.file_bytes = file_bytes
        self.nodes = 0
        self.initializer_bytes = 0
        self._capped, self._cap = file_bytes, limits.initializer_cap(file_bytes)
        self._written = 0
        self._node_cap = limits.node_cap(0)
        self._clock = clock
        self._cancelled = cancelled
        self._deadline = None if limits.load_seconds is None else clock() + limits.load_seconds
        self._rest: tuple[float | None, Callable[[], bool] | None] = (None, None)
        self._seen = 0
        self._largest: list[tuple[int, str]] = []

    def write_nodes(self, count: int) -> None:
        """Note `count` nodes that stand in the file; the bound on inlining follows their number.

        Raises:
            LimitError: They are more than `Limits` allow, or the time for loading is over.
        """
        self._written += count
        self._node_cap = self.limits.node_cap(self._written)
        self.check_nodes(self._written)
        self.check_time()

    def check_nodes(self, total: int, where: Location | str = "") -> None:
        """Refuse a model that would have `total` nodes once functions are inlined.

        Raises:
            LimitError: More than `Limits` allow.
        """
        if self._node_cap is not None and total > self._node_cap:
            shown = f"{total:,}" if total < 10**15 else f"about 2^{total.bit_length() - 1}"
            raise LimitError(
                f"Inlining the model's functions makes {shown} nodes, including calls; {self._node_cap:,} are allowed.",
                where=where,
                why=f"{self._written:,} nodes are in the file, and functions that call functions multiply them",
                fix="If the model is right, raise Limits.nodes_after_inlining and Limits.inlining_factor.",
            )

    def add_node(self, where: Location | str = "") -> None:
        """Count one node that is being made, and look at the clock now and then.

        Raises:
            LimitError: One more than `Limits` allow, or the time is over.
        """
        self.nodes += 1
        self.tick()
        if self._node_cap is not None and self.nodes > self._node_cap:
            self.check_nodes(self.nodes, where)

    def tick(self) -> None:
        """Note that a part of the model is worked on, and look at the clock now and then: see `check_time`."""
        self._seen += 1
        if self._seen % _PER_CHECK == 0:
            self.check_time()

    def check_depth(self, depth: int, where: Location | str = "") -> None:
        """Refuse a graph nested `depth` levels inside the main graph.

        Raises:
            LimitError: Deeper than `Limits` allow.
        """
        allowed = self.limits.nesting_depth
        if allowed is not None and depth > allowed:
            raise LimitError(
                f"Graphs are nested {depth} deep; {allowed} levels are allowed.",
                where=where,
                why="each If, Loop, Scan or SequenceMap contains another level of graphs",
                fix="If the model is right, raise Limits.nesting_depth.",
            )

    def add_initializer(self, nbytes: int, where: Location | str = "") -> None:
        """Count a constant before it is made.

        Raises:
            MemoryLimitError: The constants together take more than the session may.
            LimitError: They pass what `Limits` allow for this file.
        """
        self.tick()
        self.initializer_bytes += nbytes
        self._check_memory(nbytes, where)
        if self._capped != self.file_bytes:
            self._capped, self._cap = self.file_bytes, self.limits.initializer_cap(self.file_bytes)
        allowed = self._cap
        if allowed is not None and self.initializer_bytes > allowed:
            raise LimitError(
                f"The model's constants take more than {human_bytes(allowed)}.",
                where=where,
                why=f"its files have {human_bytes(self.file_bytes)}, and constants may be "
                f"{self.limits.initializer_factor or 'any number of'} times that, or Limits.initializer_bytes",
                fix="If the model is right, raise Limits.initializer_bytes and Limits.initializer_factor.",
            )

    def _check_memory(self, nbytes: int, where: Location | str) -> None:
        allowed = self.limits.total_memory_bytes
        if allowed is None:
            return
        name = where.value if isinstance(where, Location) else str(where)
        self._largest = nlargest(_NAMED, [*self._largest, (nbytes, name)])
        if self.initializer_bytes > allowed:
            raise MemoryLimitError(
                f"The model's constants take more than the {human_bytes(allowed)} that the session may use.",
                where=where,
                why=[
                    f"{human_bytes(self.initializer_bytes)} including this one",
                    *(f"constant '{name}' has {human_bytes(size)}" for size, name in self._largest),
                ],
                fix=MEMORY_FIX,
                largest=tuple((name, size) for size, name in self._largest),
            )

    def seconds_left(self) -> float | None:
        """Seconds until the time for loading is over, or None without a time limit."""
        return None if self._deadline is None else self._deadline - self._clock()

    def check_kernel(self, ahead: float = 0.0) -> None:
        """Stop a kernel that runs while the model is loaded; see `ort_py.limits.checking_time`.

        Raises:
            LimitError, ModelLoadCanceled: As `check_time`; or a call of `ahead` seconds would end much too late.
        """
        self.check_time()
        left = self.seconds_left()
        if ahead and left is not None and self.limits.load_seconds is not None:
            refuse_ahead(ahead, left, self.limits.load_seconds, "Limits.load_seconds")

    def pause(self) -> None:
        """Stop the clock: what is done until `resumed` has no time limit, and cannot be cancelled."""
        self._rest = self.seconds_left(), self._cancelled
        self._deadline, self._cancelled = None, None

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Let the clock run again while the block lasts, with the seconds that were left."""
        left, self._cancelled = self._rest
        self._deadline = None if left is None else self._clock() + left
        try:
            self.check_time()
            yield
            self.check_time()
        finally:
            self.pause()

    def end(self) -> None:
        """The model is loaded: whatever is done with it later has no time limit, and cannot be cancelled."""
        self._deadline, self._cancelled, self._rest = None, None, (None, None)

    def check_time(self, where: Location | str = "") -> None:
        """Refuse to go on when the time for loading is over, or the caller wants it to end.

        Raises:
            LimitError: `Limits.load_seconds` have passed since this budget was made.
        """
        if self._cancelled is not None and self._cancelled():
            raise ModelLoadCanceled(
                "Loading the model was cancelled.",
                where=where,
                why="SessionOptions.set_load_cancellation_flag(True) was called",
                fix="Set the flag to False, and create the session again.",
            )
        if self._deadline is not None and self._clock() > self._deadline:
            raise LimitError(
                f"Loading the model takes longer than {self.limits.load_seconds:g} s.",
                where=where,
                fix="If the model is right, raise Limits.load_seconds.",
            )
