"""Device arrays of other libraries, taken and given without a copy: DLPack, `__cuda_array_interface__`, addresses.

What CuPy makes has both protocols, so results need nothing. It uses CuPy through `modules`, and does not depend on
sessions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.devices import Device
from ort_py.errors import ArgumentTypeError, UsageError
from ort_py_cuda.availability import DEVICE_KIND
from ort_py_cuda.modules import cupy

__all__ = ["at_address", "device_of", "is_device_array", "taken"]

_DLPACK_CUDA = (2, 13)
"""kDLCUDA and kDLCUDAManaged."""


def is_device_array(value: Any) -> bool:
    """Return whether a value is an array on a GPU, of whatever library; looks at its protocols, and waits for
    nothing.
    """
    if isinstance(value, np.ndarray):
        return False
    if hasattr(type(value), "__cuda_array_interface__") or _has_interface(value):
        return True
    ask = getattr(value, "__dlpack_device__", None)
    return ask is not None and int(ask()[0]) in _DLPACK_CUDA


def device_of(value: Any) -> Device:
    """The GPU that an array is on.

    Raises:
        ArgumentTypeError: It is not an array on a GPU.
    """
    number = getattr(getattr(value, "device", None), "id", None)  # CuPy's
    if number is None:
        ask = getattr(value, "__dlpack_device__", None)
        number = ask()[1] if ask is not None and int(ask()[0]) in _DLPACK_CUDA else None
    if number is None and _has_interface(value):
        attributes = cupy().cuda.runtime.pointerGetAttributes(value.__cuda_array_interface__["data"][0])
        number = attributes.device
    if number is None:
        raise _no_array(value)
    return Device(DEVICE_KIND, int(number))


def taken(value: Any) -> Array:
    """CuPy's array over the memory of another library's, which it keeps alive; CuPy's own as they are.

    Work that the other library has queued for the array is waited for on the device, by the current stream, as both
    protocols have it.

    Raises:
        ArgumentTypeError: It has neither protocol, or is not on a GPU.
        UsageError: CuPy has no such type.
    """
    module = cupy()
    if isinstance(value, module.ndarray):
        return value
    if not is_device_array(value):
        raise _no_array(value)
    try:
        if hasattr(value, "__dlpack__"):
            return module.from_dlpack(value)
        return module.asarray(value)
    except (TypeError, ValueError, NotImplementedError, RuntimeError) as error:
        raise UsageError(
            f"The memory of a {type(value).__name__} cannot be taken.",
            why=str(error),
            fix="Pass a dense array of a type that CuPy has.",
        ) from error


def at_address(address: int, shape: Sequence[int], dtype: Any, device: Device, owner: Any = None) -> Array:
    """CuPy's array over C-contiguous memory of a GPU at an address.

    Args:
        address: Of the first byte; the caller keeps the memory alive, or gives its owner.
        shape: Shape.
        dtype: NumPy dtype.
        device: The GPU.
        owner: Kept alive as long as the array.

    Raises:
        UsageError: The address is null, and there are elements.
    """
    module, form = cupy(), np.dtype(dtype)
    nbytes = math.prod(shape) * form.itemsize
    if not address and nbytes:
        raise UsageError("The address is null.", fix="Pass the address of the first byte, e.g. array.data.ptr.")
    memory = module.cuda.UnownedMemory(address, nbytes, owner, device.index)
    with module.cuda.Device(device.index):
        made: Array = module.ndarray(tuple(shape), form, module.cuda.MemoryPointer(memory, 0))
    return made


def _has_interface(value: Any) -> bool:
    """Return whether it says where it is on a GPU: torch's tensors raise AttributeError where they are not."""
    return getattr(value, "__cuda_array_interface__", None) is not None


def _no_array(value: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"A {type(value).__name__} is not an array on a GPU.",
        why="it has neither __cuda_array_interface__ nor __dlpack__ on a CUDA device",
        fix="Pass an array of CuPy, torch or another library on a GPU, or a NumPy array.",
    )
