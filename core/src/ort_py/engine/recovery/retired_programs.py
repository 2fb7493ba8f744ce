"""Replaced programs of a session, which are released as soon as their last run has ended.

Released are the things that belong to one program only: frames through their pool, compiled regions here, and constants
with the references to them. It does not depend on sessions or on why a program was replaced.
"""

from __future__ import annotations

from functools import partial

from ort_py.engine.assembly import Assembled
from ort_py.engine.contributions import quietly
from ort_py.execution.frame import FramePool


class RetiredPrograms:
    """Replaced programs that runs under way still use. Methods are called from any thread."""

    def __init__(self) -> None:
        self._retired: list[tuple[Assembled, FramePool]] = []

    def add(self, program: Assembled, pool: FramePool) -> None:
        """Release a program now, or when the last of its runs has ended. No new run starts in it."""
        retired = (program, pool)
        self._retired.append(retired)
        pool.close()
        pool.when_empty(partial(self._release, retired))

    def wait(self) -> None:
        """Block until no other thread runs any of them."""
        for _, pool in list(self._retired):
            pool.wait()

    def close(self) -> None:
        """Release all programs. Call it after `wait`, or when nothing runs."""
        for retired in list(self._retired):
            self._release(retired)

    def __len__(self) -> int:
        return len(self._retired)

    def _release(self, retired: tuple[Assembled, FramePool]) -> None:
        try:
            self._retired.remove(retired)
        except ValueError:
            return  # another thread was faster
        close_regions(retired[0])


def close_regions(program: Assembled) -> None:
    """Close a program's compiled regions; what one raises is logged."""
    for region in program.compiled.values():
        quietly("closing a compiled region", region.close)
