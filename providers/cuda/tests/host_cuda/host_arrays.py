"""A stand-in for CuPy on the host's memory: NumPy's arrays with CuPy's `data.ptr`, for code that hands out addresses.

Arrays are NumPy's, so addresses are good ones and kernels that run on the host can read them. Made anew on the current
stream like CuPy's, filled with rubbish, so that what is read before it is written is seen.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["HostArray", "HostModule", "on_host"]


class HostArray(np.ndarray[Any, Any]):
    """An array whose address can be asked for as CuPy's."""

    @property
    def data(self) -> Any:
        """Where it begins."""
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


def on_host(x: Any) -> Any:
    """An array as one of the stand-in's; absent ones and lists pass."""
    return np.array(x).view(HostArray) if isinstance(x, np.ndarray | np.generic) else x


def _wrapped(value: Any) -> Any:
    if isinstance(value, np.generic):
        return np.asarray(value).view(HostArray)
    if isinstance(value, np.ndarray) and not isinstance(value, HostArray):
        return value.view(HostArray)
    if isinstance(value, tuple | list):
        return type(value)(_wrapped(one) for one in value)
    return value


class HostModule:
    """The names of NumPy that CuPy has, and `cuda`."""

    def __init__(self, capability: int = 90) -> None:
        stream = SimpleNamespace(ptr=7)  # the stream of `emulation`
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: stream,
            runtime=SimpleNamespace(getDevice=lambda: 0),
            Device=lambda *_: SimpleNamespace(
                id=0, compute_capability=str(capability), attributes={"MultiProcessorCount": 4}
            ),
        )

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if not callable(value) or isinstance(value, type):
            return value
        return lambda *args, **keywords: _wrapped(value(*args, **keywords))

    def empty(self, shape: Any, dtype: Any = float) -> Any:
        """Filled with rubbish."""
        made = np.empty(shape, dtype).view(HostArray)
        made.view(np.ndarray).reshape(-1).view(np.uint8)[...] = 0xCD
        return made
