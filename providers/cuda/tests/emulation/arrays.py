"""A stand-in for CuPy on the host's memory: NumPy's arrays with CuPy's `data.ptr`, for code that hands out addresses.

Arrays are NumPy's, so addresses are good ones and kernels that run on the host can read them. They lie at multiples of
256 bytes, as CuPy's pool gives them, and new ones are filled with rubbish, so that what is read before it is written is
seen. Comes before `host`, which runs kernels on them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["STREAM", "HostArray", "HostModule", "on_host"]

STREAM = 7
"""The handle of the one stream there is."""

_ALIGNMENT, _RUBBISH = 256, 0xA5


class HostArray(np.ndarray[Any, Any]):
    """An array whose address can be asked for as CuPy's."""

    @property
    def data(self) -> Any:
        """Its first byte."""
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


def on_host(x: Any) -> Any:
    """A copy of an array as the device's would look, in the same order of axes; lists and what is absent pass."""
    if not isinstance(x, np.ndarray | np.generic):
        return x
    turned = x.flags.f_contiguous and not x.flags.c_contiguous
    made = _new(x.shape[::-1] if turned else x.shape, x.dtype)
    made = made.T if turned else made
    made[...] = x
    return made


def _new(shape: Any, dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.full(size + _ALIGNMENT, _RUBBISH, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape).view(HostArray)


def _held(value: Any) -> Any:
    if isinstance(value, np.generic):
        return np.asarray(value).view(HostArray)
    if isinstance(value, np.ndarray) and not isinstance(value, HostArray):
        return value.view(HostArray)
    if isinstance(value, tuple | list):
        return type(value)(_held(one) for one in value)
    return value


class _Function:
    """One of NumPy's, whose results are the stand-in's."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return _held(self._function(*args, **keywords))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class _Pinned(np.ndarray[Any, Any]):
    @property
    def ptr(self) -> int:
        return int(self.ctypes.data)


class HostModule:
    """The names of NumPy that CuPy has, and as much of `cuda` as kernels use."""

    def __init__(self) -> None:
        stream = SimpleNamespace(ptr=STREAM)
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: stream,
            alloc_pinned_memory=lambda size: np.zeros(size, np.uint8).view(_Pinned),
            runtime=SimpleNamespace(getDevice=lambda: 0),
            Device=lambda *_: SimpleNamespace(id=0, compute_capability="90", attributes={"MultiProcessorCount": 4}),
        )

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        return _Function(value) if callable(value) and not isinstance(value, type) else value

    def empty(self, shape: Any, dtype: Any = float) -> Any:
        """Filled with rubbish."""
        return _new(shape, dtype)

    @staticmethod
    def array(x: Any, dtype: Any = None, order: Any = "K") -> Any:
        """A copy."""
        return on_host(np.array(x, dtype, order=order))

    @staticmethod
    def asarray(x: Any, dtype: Any = None) -> Any:
        """The array itself where it is one of this type."""
        if isinstance(x, HostArray) and dtype in (None, x.dtype):
            return x
        return on_host(np.asarray(x, dtype))
