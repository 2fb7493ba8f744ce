"""Memory for the values between the nodes of runtimes, shared by runtimes that do not compute at the same time.

It is as large as the runtime needs that needs most. XNNPACK keeps a list of the runtimes of a workspace and lets them
follow when it moves; none of that is safe in threads, so what changes the list or the memory, and what computes in it,
holds a lock. It does not know regions.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.constants import check
from ort_py_xnnpack.binding.library import Library
from ort_py_xnnpack.binding.pool import pools

__all__ = ["Workspace", "Workspaces"]


class Workspace:
    """The memory.

    Args:
        library: The library.

    Attributes:
        handle: XNNPACK's.
        lock: Held while a runtime computes, and by `changing`.
        generation: That of the pools when it was made: a forked child may find the lock held by no thread.
    """

    def __init__(self, library: Library) -> None:
        self._c = library.c
        handle = ffi.new("workspace_t *")
        check(library.c.xnn_create_workspace(handle), "xnn_create_workspace")
        self.handle = ffi.gc(handle[0], library.c.xnn_release_workspace)
        self.lock = threading.Lock()
        self.generation = pools.generation
        self._discarded: list[Any] = []

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Let nothing compute here, and no discarded runtime be left, while runtimes are made or get other sizes."""
        with self.lock:
            self._delete()
            yield

    def discard(self, runtime: Any) -> None:
        """Delete a runtime: now, or, where another one computes or the collector calls this, before the next change."""
        self._discarded.append(runtime)
        if self.lock.acquire(blocking=False):
            try:
                self._delete()
            finally:
                self.lock.release()

    def _delete(self) -> None:
        while self._discarded:
            self._c.xnn_delete_runtime(self._discarded.pop())

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # where none could be made
            self._delete()


class Workspaces:
    """The workspaces of a session: one for each frame, whose regions run one after the other.

    Args:
        library: The library.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._first: Workspace | None = None
        self._is_lent = False

    def first(self) -> Workspace:
        """The one in which regions are compiled, and which the first frame gets."""
        with self._lock:
            return self._made_first()

    def of(self, shared: dict[Any, Any]) -> Workspace:
        """The workspace of a frame.

        Args:
            shared: See `FrameResources`.
        """
        with self._lock:
            found: Workspace | None = shared.get(self)
            if found is None or found.generation != pools.generation:
                found = shared[self] = Workspace(self._library) if self._is_lent else self._made_first()
                self._is_lent = True
            return found

    def _made_first(self) -> Workspace:
        if self._first is None or self._first.generation != pools.generation:
            self._first, self._is_lent = Workspace(self._library), False
        return self._first
