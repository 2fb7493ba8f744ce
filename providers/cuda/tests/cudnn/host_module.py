"""A stand-in for CuPy on the host's memory, with streams: what is allocated, where, and when it is dropped.

Arrays are NumPy's with CuPy's `data.ptr`; new ones hold rubbish. What happened is kept in order, so that tests can say
that scratch memory outlived the call that uses it, and that a stream was set before that call.
"""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["HostArray", "HostModule", "to_device"]


class HostArray(np.ndarray[Any, Any]):
    """An array whose address is asked for as CuPy's."""

    @property
    def data(self) -> Any:
        """Where it begins; NumPy's own is a memoryview, CuPy's is a pointer."""
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


def to_device(x: Any) -> Any:
    """A contiguous copy as the stand-in's array; None stays None."""
    return None if x is None else np.array(x, order="C").view(HostArray)


class HostModule:
    """NumPy's names, and CuPy's `cuda`. `order` lists what happened; `stream` is the current stream's handle."""

    def __init__(self) -> None:
        self.order: list[tuple[Any, ...]] = []
        self.stream = 7
        self.capturing = False
        self.short_of_memory = False
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: SimpleNamespace(ptr=self.stream),
            runtime=SimpleNamespace(streamIsCapturing=lambda stream: self.capturing),
            Event=lambda: SimpleNamespace(record=lambda stream: None, synchronize=lambda: None),
            get_elapsed_time=self._elapsed,
        )
        self.times: list[float] = []

    def _elapsed(self, start: Any, stop: Any) -> float:
        return self.times.pop(0) if self.times else 1.0

    def empty(self, shape: Any, dtype: Any = np.float32) -> Any:
        if self.short_of_memory:
            raise MemoryError("the stand-in has none left")
        made = np.empty(shape, dtype).view(HostArray)
        made.view(np.uint8).reshape(-1)[...] = 0x7E  # rubbish, NaN of no type
        if made.dtype == np.uint8:
            self.order.append(("allocated", made.nbytes))
            weakref.finalize(made, self.order.append, ("freed", made.nbytes))
        return made

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*arguments: Any, **keywords: Any) -> Any:
            return _wrapped(found(*arguments, **keywords))

        return call


def _wrapped(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, HostArray):
        return np.asarray(value).view(HostArray)
    if isinstance(value, tuple | list):
        return type(value)(_wrapped(one) for one in value)
    return value
