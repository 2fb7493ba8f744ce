"""Scratch memory for one call, and the stream that the call goes to.

Scratch memory comes from CuPy's current allocator, which is the provider's, and is dropped as soon as the call is
enqueued. That is right because its pools belong to streams: what is freed is handed out again on the same stream only,
behind the work that still uses it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

__all__ = ["Scratch", "capturing", "current_stream"]


def current_stream(xp: Any) -> int:
    """The native handle of the calling thread's current stream."""
    handle: int = xp.cuda.get_current_stream().ptr
    return handle


def capturing(xp: Any) -> bool:
    """Return whether the current stream is recording a CUDA graph, so that nothing may wait or be timed."""
    return bool(xp.cuda.runtime.streamIsCapturing(current_stream(xp)))


class Scratch:
    """Scratch memory, as long as the ``with`` block: its address, 0 for no bytes.

    Raises:
        MemoryError: The allocator has none; CuPy's own error is one.
    """

    __slots__ = ("_array", "_size", "_xp")

    def __init__(self, xp: Any, size: int) -> None:
        self._xp = xp
        self._size = size
        self._array: Any = None

    def __enter__(self) -> int:
        if not self._size:
            return 0
        self._array = self._xp.empty((self._size,), self._xp.uint8)
        address: int = self._array.data.ptr
        return address

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._array = None
