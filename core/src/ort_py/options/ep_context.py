"""Arguments of the callbacks for compiled models: a buffer to fill, and data to read.

onnxruntime keeps what an accelerator compiled in nodes called EPContext, or in files beside the model; a program that
keeps them elsewhere reads them through a callback. Providers for such models get the callback from the options.
"""

from __future__ import annotations

from typing import Any

from ort_py.errors import UsageError


class OrtEpContextDataBuffer:
    """Room for the data of one compiled node, which a callback allocates once and fills."""

    __slots__ = ("_data", "max_size")

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._data: bytearray | None = None

    @property
    def is_allocated(self) -> bool:
        return self._data is not None

    @property
    def size(self) -> int:
        return len(self._data or b"")

    def allocate(self, size: int) -> None:
        """Make room.

        Raises:
            UsageError: There is room already, or the size is not from 0 to `max_size`.
        """
        if self._data is not None or not 0 <= size <= self.max_size:
            raise UsageError(
                f"{size} bytes cannot be allocated.",
                why="allocate() was already called"
                if self._data is not None
                else f"at most {self.max_size} are allowed",
                fix="Allocate once, with the size of the data.",
            )
        self._data = bytearray(size)

    def write(self, data: Any, offset: int = 0) -> None:
        """Copy bytes into the buffer.

        Args:
            data: Anything with the buffer protocol, C-contiguous.

        Raises:
            UsageError: The buffer has no room there.
        """
        view = memoryview(data).cast("B")
        if self._data is None or offset < 0 or offset + view.nbytes > len(self._data):
            raise UsageError(
                f"{view.nbytes} bytes cannot be written at {offset}.",
                why="nothing is allocated" if self._data is None else f"there is room for {len(self._data)}",
                fix="Call allocate() first, with the size of all the data.",
            )
        self._data[offset : offset + view.nbytes] = view

    def content(self) -> OrtEpContextData:
        return OrtEpContextData(bytes(self._data or b""))


class OrtEpContextData:
    """Data of one compiled node."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Some of the bytes.

        Args:
            length: Number of bytes; None for all that follow.

        Raises:
            UsageError: There are not that many.
        """
        end = len(self._data) if length is None else offset + length
        if offset < 0 or not offset <= end <= len(self._data):
            raise UsageError(
                f"Bytes {offset} to {end} cannot be read.",
                why=f"there are {len(self._data)}",
                fix="Read within `size`.",
            )
        return self._data[offset:end]
