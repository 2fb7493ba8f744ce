"""The services and constants that a session offers to the kernels it binds.

Comes before `binding`. A session has them also if it binds no kernel, so they stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ort_py.contracts import Array
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import Limits


def run_inline(rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
    """`KernelContext.parallel_for` on one thread."""
    fn(0, rows)


@dataclass(frozen=True, slots=True)
class KernelServices:
    """Services that the session offers to the kernels it binds.

    Attributes:
        parallel_for: Splits rows on the process-wide pool.
        seed: Session seed of random operators; None draws from the system. See `seeds`.
        timed: Whether calls are made while a clock is looked at: then they are cut into blocks.
    """

    limits: Limits = field(default_factory=Limits)
    parallel_for: Callable[[int, int, Callable[[int, int], None]], None] = run_inline
    seed: int | None = None
    timed: bool = False


class KernelConstants(Mapping[int, Array]):
    """Constant inputs of one node by position, as host arrays: what a plan adds to a plain mapping."""

    def packed(self, positions: Sequence[int], form: str, make: Callable[[], Any]) -> Any:
        """Return a packed form of the inputs at `positions`, shared if their owner allows it.

        Args:
            positions: The inputs it is made of, absent ones left out.
            form: As in `KernelContext.packed`.
        """
        return make()
