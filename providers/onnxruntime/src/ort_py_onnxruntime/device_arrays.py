"""Arrays on a device of onnxruntime's: OrtValues with what the engine asks an array for, and what makes them.

Comes after `native`, before `device_values`. Nothing leaves the device unless it is asked to: such an array refuses
NumPy. onnxruntime's Python package has no arithmetic and no views of OrtValues; where control flow needs them (the
results of a loop are stacked, inputs of a scan are cut), they are made on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ort_py.dtypes import DataType, numpy_dtype
from ort_py.lazy_dataclass import dataclass
from ort_py_onnxruntime.native import native

__all__ = ["DeviceArrays", "OrtArray", "empty", "from_host", "to_host"]


@dataclass(frozen=True, slots=True)
class _Flags:
    """The layout of all OrtValues."""

    c_contiguous: bool = True
    writeable: bool = True


_FLAGS = _Flags()


def _refused(*_arguments: Any, **_keywords: Any) -> NoReturn:
    raise TypeError("A value on a device is not a NumPy array: it would be copied to the host.")


class OrtArray:
    """A dense array in memory of a device.

    Args:
        value: onnxruntime's value.
        place: onnxruntime's device.
        owner: Kept alive as long as the array: what the value is part of.

    Attributes:
        value: onnxruntime's value.
        place: onnxruntime's device.
        shape: Its shape.
        dtype: Its element type.
        wait: Waits for the work that fills it; None where that is done.
    """

    __slots__ = ("__weakref__", "_owner", "dtype", "place", "shape", "value", "wait")

    __array_ufunc__ = None

    def __init__(self, value: Any, place: Any, owner: Any = None) -> None:
        self._owner = owner
        self.value = value
        self.place = place
        self.wait: Callable[[], None] | None = None
        self.shape: tuple[int, ...] = tuple(value.shape())
        self.dtype: np.dtype[Any] = numpy_dtype(DataType(value.element_type()))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.size * self.dtype.itemsize

    @property
    def flags(self) -> _Flags:
        """Its layout, which is always the same."""
        return _FLAGS

    @property
    def address(self) -> int:
        """Address of the first byte; 0 where there is none."""
        return int(self.value.data_ptr())

    def copy(self) -> OrtArray:
        """A copy on the device."""
        made = empty(self.shape, self.dtype, self.place)
        made[...] = self
        return made

    def __setitem__(self, index: Any, other: OrtArray) -> None:
        assert index is Ellipsis, "only whole arrays are written"
        if other.wait is not None:
            other.wait()
        if self.size:
            self.value.update_inplace(other.value)

    def __getitem__(self, index: Any) -> OrtArray:
        return from_host(to_host(self)[index], self.place)

    def transpose(self, *axes: int) -> _Cut:
        """The array with another order of axes, on the host, whose parts go back to the device."""
        return _Cut(to_host(self).transpose(axes), self.place)

    def reshape(self, shape: Sequence[int]) -> OrtArray:
        """A copy of another shape."""
        return from_host(to_host(self).reshape(shape), self.place)

    def __dlpack__(self, **_options: Any) -> Any:
        return self.value.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.value.__dlpack_device__()
        return int(kind), int(number)

    def __repr__(self) -> str:
        return f"OrtArray({self.dtype} {self.shape} on {self.value.device_name()})"

    __array__ = _refused
    __bool__ = _refused
    __float__ = _refused
    __index__ = _refused
    __int__ = _refused
    __iter__ = _refused
    __len__ = _refused


def empty(shape: Sequence[int], dtype: Any, place: Any) -> OrtArray:
    """An uninitialised array on onnxruntime's device."""
    return OrtArray(native().OrtValue.ortvalue_from_shape_and_type(list(shape), np.dtype(dtype), place), place)


def from_host(array: np.ndarray[Any, Any], place: Any) -> OrtArray:
    """A copy of an array of the host; it is made when this returns."""
    whole = np.asarray(array, order="C")
    made = empty(whole.shape, whole.dtype, place)
    if made.size:
        made.value.update_inplace(whole)
    return made


class _Cut:
    """An array that control flow takes parts of: copied to the host once, not for each part."""

    def __init__(self, array: np.ndarray[Any, Any], place: Any) -> None:
        self._array = array
        self._place = place
        self.shape = array.shape
        self.ndim = array.ndim

    def __getitem__(self, index: Any) -> OrtArray:
        return from_host(self._array[index], self._place)


def to_host(array: OrtArray) -> np.ndarray[Any, Any]:
    """A copy on the host, of what is done."""
    if array.wait is not None:
        array.wait()
    found: np.ndarray[Any, Any] = array.value.numpy()
    return found if found.flags.owndata else found.copy()  # memory that the host can read is not copied by onnxruntime


class DeviceArrays:
    """The functions of an array module that control flow calls with values of a device. They work on the host.

    Args:
        place: onnxruntime's device.
    """

    def __init__(self, place: Any) -> None:
        self._place = place

    def ascontiguousarray(self, array: OrtArray) -> OrtArray:
        """The array itself: none is strided."""
        return array

    def __getattr__(self, name: str) -> Callable[..., OrtArray]:
        function = getattr(np, name)

        def on_host(*arguments: Any, **keywords: Any) -> OrtArray:
            return from_host(function(*map(_brought, arguments), **keywords), self._place)

        return on_host


def _brought(argument: Any) -> Any:
    if type(argument) is list:
        return [_brought(one) for one in argument]
    return to_host(argument) if isinstance(argument, OrtArray) else argument
