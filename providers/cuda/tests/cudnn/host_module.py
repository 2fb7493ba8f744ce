"""The stand-in for CuPy of `emulation`, with a diary: what is allocated on which stream, and when it is dropped.

What happened is kept in order, so that tests can say that scratch memory outlived the call that uses it, and that a
stream was set before that call.
"""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np

from providers.cuda.tests.emulation import arrays

__all__ = ["HostModule", "to_device"]


def to_device(x: Any) -> Any:
    """A contiguous copy as the stand-in's array; None stays None."""
    return None if x is None else arrays.on_host(np.array(x, order="C"))


class HostModule(arrays.HostModule):
    """`order` lists what happened; `stream` is the current stream's handle."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[Any, ...]] = []
        self.stream = arrays.STREAM
        self.capturing = False
        self.short_of_memory = False
        self.cuda.get_current_stream = lambda: SimpleNamespace(ptr=self.stream)
        self.cuda.runtime.streamIsCapturing = lambda stream: self.capturing
        self.cuda.Event = lambda: SimpleNamespace(record=lambda stream: None, synchronize=lambda: None)
        self.cuda.get_elapsed_time = self._elapsed
        self.times: list[float] = []

    def _elapsed(self, start: Any, stop: Any) -> float:
        return self.times.pop(0) if self.times else 1.0

    def empty(self, shape: Any, dtype: Any = np.float32) -> Any:
        """Scratch memory, which is bytes, is noted."""
        if self.short_of_memory:
            raise MemoryError("the stand-in has none left")
        made = super().empty(shape, dtype)
        if made.dtype == np.uint8:
            self.order.append(("allocated", made.nbytes))
            weakref.finalize(made, self.order.append, ("freed", made.nbytes))
        return made
