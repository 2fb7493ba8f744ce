"""Handles of cuDNN: one for each thread and device, on the stream that is current when it is used.

A handle carries a stream and is not safe to share between threads, so each thread has its own; it goes when the thread
ends. Both doors to cuDNN keep their handles here. It does not depend on graphs or descriptors.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Handles"]


class Handles:
    """The handles of one library.

    Args:
        create: Makes a handle for the current device.
        destroy: Ends one; exceptions at the end of a thread cannot be handled and are ignored.
        set_stream: ``set_stream(handle, stream)``.
    """

    def __init__(
        self, create: Callable[[], Any], destroy: Callable[[Any], None], set_stream: Callable[[Any, int], None]
    ) -> None:
        self._create = create
        self._destroy = destroy
        self._set_stream = set_stream
        self._local = threading.local()

    def on(self, device: int, stream: int) -> Any:
        """This thread's handle for a device, which must be the current one, set to a stream.

        Args:
            device: Its number.
            stream: The native stream.

        Raises:
            CudnnError: cuDNN cannot be initialised, or refuses the stream.
        """
        held: dict[tuple[int, int], _Held] = self._local.__dict__.setdefault("held", {})
        key = (os.getpid(), device)  # a child of fork has to make its own
        found = held.get(key)
        if found is None:
            found = held[key] = _Held(self._create(), self._destroy)
        self._set_stream(found.handle, stream)
        return found.handle


class _Held:
    """A handle that is destroyed when its thread's storage goes; not at exit, when the driver may be gone already."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, handle: Any, destroy: Callable[[Any], None]) -> None:
        self.handle = handle
        weakref.finalize(self, _end, handle, destroy, os.getpid()).atexit = False


def _end(handle: Any, destroy: Callable[[Any], None], process: int) -> None:
    if os.getpid() == process:
        destroy(handle)
