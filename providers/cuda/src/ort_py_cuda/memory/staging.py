"""Host memory that queued work still needs: it is kept until a stream has passed the work, and released at the next
wait.

One object a stream, used by the thread that uses the stream. It uses events through their three methods and does not
depend on CUDA.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Staging"]


class Staging:
    """Blocks and arrays that a stream's work reads or writes."""

    __slots__ = ("_finish", "_kept")

    def __init__(self) -> None:
        self._kept: deque[tuple[Any, tuple[Any, ...]]] = deque()
        self._finish: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._kept) + len(self._finish)

    def keep(self, event: Any, *things: Any) -> None:
        """Keep things alive until an event that was recorded behind the work that needs them.

        Args:
            event: CuPy's event: ``done`` tells without waiting.
            *things: What is to be kept.
        """
        self._kept.append((event, things))

    def finish_with(self, call: Callable[[], None]) -> None:
        """Something to be done on the host when all work queued so far is done. It may hold blocks of its own."""
        self._finish.append(call)

    def release_passed(self) -> None:
        """Let go of what the stream has passed; events are passed in the order they were recorded."""
        kept = self._kept
        while kept and kept[0][0].done:
            kept.popleft()

    def finish(self) -> None:
        """The stream is done: do what was left for the host, and let go of everything."""
        calls, self._finish = self._finish, []
        self._kept.clear()
        for call in calls:
            call()

    def drop(self) -> None:
        """Release everything after failed work whose results are not read. Call it only after the stream has ended."""
        self._finish.clear()
        self._kept.clear()
