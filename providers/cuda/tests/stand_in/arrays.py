"""Arrays on the stand-in machine, and NumPy's functions over them.

Functions compute at once, after what their stream had queued before: so what they read must have been copied on the
same stream, or waited for. Fresh results lie in memory of the current allocator; views share that of their array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .machine import Machine
from .pools import MemoryPointer

__all__ = ["ArrayFunctions", "DeviceArray"]

_METHODS = frozenset(
    (
        *("astype", "copy", "max", "mean", "min", "prod", "ravel", "reshape", "squeeze", "sum", "swapaxes", "take"),
        *("transpose", "view", "argmax", "argmin", "all", "any", "fill", "clip", "cumsum"),
    )
)
_ATTRIBUTES = frozenset(("dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"))
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")
_OPERATORS = (
    *_BINARY,
    *(f"r{name}" for name in _BINARY),
    *("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"),
)


class DeviceArray:
    """An array of a device: no way to NumPy but `get`."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # as arrays are

    def __init__(self, owner: ArrayFunctions, raw: np.ndarray[Any, Any], data: MemoryPointer) -> None:
        self._owner = owner
        self.raw = raw
        self.data = data

    @property
    def device(self) -> Any:
        return self._owner.device_named(self.data.device_id)

    @property
    def T(self) -> DeviceArray:  # noqa: N802 - NumPy's name
        return self._owner.view(self, self.raw.T)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.raw.dtype.str, "data": (self.data.ptr, False), "version": 3}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.device_id

    def __dlpack__(self, **_keywords: Any) -> DeviceArray:
        return self

    def __getattr__(self, name: str) -> Any:
        if name in _ATTRIBUTES:
            return getattr(self.raw, name)
        if name in _METHODS:
            return self._owner.wrapped(getattr(np.ndarray, name), self)
        raise AttributeError(f"a device array has no '{name}'")

    def get(self) -> Any:
        """A NumPy copy: waits."""
        self._owner.settle(self)
        return self.raw.copy()

    def item(self) -> Any:
        return self.get().item()

    def __getitem__(self, index: Any) -> DeviceArray:
        made: DeviceArray = self._owner.wrapped(np.ndarray.__getitem__, self)(index)
        return made

    def __setitem__(self, index: Any, value: Any) -> None:
        self._owner.wrapped(np.ndarray.__setitem__, self)(index, value)

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __len__(self) -> int:
        return len(self.raw)

    def __array__(self, *_args: Any, **_keywords: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __repr__(self) -> str:
        return f"DeviceArray({self.raw!r})"


def _add_operators() -> None:
    for name in _OPERATORS:
        special = f"__{name}__"

        def apply(self: DeviceArray, *others: Any, special: str = special) -> Any:
            return self._owner.wrapped(getattr(np.ndarray, special), self)(*others)

        setattr(DeviceArray, special, apply)


_add_operators()


class ArrayFunctions:
    """Makes arrays, and functions over them.

    Args:
        machine: The machine.
        malloc: The current allocator.
        device_named: CuPy's `Device` of a number.
    """

    def __init__(
        self, machine: Machine, malloc: Callable[[int], MemoryPointer], device_named: Callable[[int], Any]
    ) -> None:
        self.machine = machine
        self.device_named = device_named
        self._malloc = malloc

    def empty(self, shape: Any, dtype: Any = float, **_keywords: Any) -> DeviceArray:
        """Uninitialised memory of the current allocator, on the current stream."""
        form = np.dtype(dtype)
        if form.kind not in "biufc" and form.name != "bfloat16":
            raise ValueError(f"Unsupported dtype {form}")
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (int(shape),)
        return self.over(self._malloc(math.prod(sizes) * form.itemsize), sizes, form)

    def over(self, pointer: Any, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        """An array over memory that is there: CuPy's ``ndarray(shape, dtype, memptr)``."""
        form = np.dtype(dtype)
        nbytes = math.prod(shape) * form.itemsize
        if nbytes:
            raw, device = self.machine.at(pointer.ptr, nbytes)
            assert device == pointer.device_id, f"memory of device {device} said to be of {pointer.device_id}"
            return DeviceArray(self, raw.view(form).reshape(shape), pointer)
        return DeviceArray(self, np.empty(shape, form), pointer)

    def view(self, array: DeviceArray, raw: np.ndarray[Any, Any]) -> DeviceArray:
        """Other shape or strides over the memory of an array."""
        pointer = MemoryPointer(array.data, raw.__array_interface__["data"][0] - array.data.ptr if raw.size else 0)
        return DeviceArray(self, raw, pointer)

    def settle(self, *arrays: DeviceArray) -> None:
        """Finish the work queued on the current stream, so that arrays are up to date."""
        here = self.machine.device
        self.machine.check(here)
        for array in arrays:
            if array.data.device_id != here:
                raise ValueError(f"Array device must be same as the current device: {array.data.device_id} != {here}")
        self.machine.stream.drain()

    def wrapped(self, function: Callable[..., Any], *bound: DeviceArray) -> Callable[..., Any]:
        """A function of NumPy's over these arrays."""

        def call(*args: Any, **keywords: Any) -> Any:
            given: list[DeviceArray] = []
            inside = [self._inside(value, given) for value in (*bound, *args)]
            named = {name: self._inside(value, given) for name, value in keywords.items()}
            self.settle(*given)
            result = function(*inside, **named)
            outputs = keywords.get("out")
            return outputs if outputs is not None else self._outside(result, given)

        return call

    def _inside(self, value: Any, given: list[DeviceArray]) -> Any:
        if isinstance(value, DeviceArray):
            given.append(value)
            return value.raw
        if isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {type(value)}: a NumPy array was mixed with device arrays")
        if isinstance(value, tuple | list):
            return type(value)(self._inside(item, given) for item in value)
        return value

    def _outside(self, value: Any, given: list[DeviceArray]) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(self._outside(item, given) for item in value)
        if not isinstance(value, np.ndarray | np.generic):
            return value
        raw = np.asarray(value)
        for array in given:
            if raw.size and np.may_share_memory(raw, array.raw):
                return self.view(array, raw)
        made = self.empty(raw.shape, raw.dtype)
        self.machine.stream.drain()  # memory that is used again: its poison is before what is written now
        made.raw[...] = raw
        self.machine.log.append(("kernel", self.machine.stream.ptr, raw.nbytes))
        return made
