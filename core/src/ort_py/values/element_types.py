"""Names of element types that callers use, and arrays over memory at a given address.

Before values and bindings, which both take types and addresses from users.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, data_type_of, numpy_dtype
from ort_py.errors import ArgumentTypeError, InvalidArgument, UsageError

SUB_BYTE = frozenset({DataType.INT4, DataType.UINT4, DataType.INT2, DataType.UINT2, DataType.FLOAT4E2M1})
"""Types that ONNX packs several to a byte; in slots each element has a byte of its own."""


def element_type_of(element_type: Any) -> DataType:
    """The element type that a caller names.

    Args:
        element_type: A number of ``TensorProto.DataType``, or what NumPy takes for a dtype: a dtype, its name, a NumPy
            or Python type.

    Raises:
        UsageError: The element type does not exist.
    """
    try:
        if isinstance(element_type, int | np.integer) and not isinstance(element_type, bool):
            found = DataType(int(element_type))
            numpy_dtype(found)  # refuses UNDEFINED
            return found
        return data_type_of(np.dtype(element_type))
    except InvalidArgument as error:
        raise UsageError(error.what, why=error.why, fix=error.fix) from None
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{element_type!r} is not an element type.",
            why=str(error),
            fix="Pass a NumPy dtype, e.g. numpy.float32, or a number of onnx.TensorProto.",
        ) from None


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape of known sizes.

    Args:
        shape: Sequence of non-negative integers.

    Raises:
        ArgumentTypeError: It is not a sequence of integers.
        UsageError: A size is negative, or no memory could hold so many elements.
    """
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError as error:
        raise ArgumentTypeError(f"{shape!r} is not a shape.", why=str(error), fix="Pass a list of integers.") from None
    if any(size < 0 for size in sizes):
        raise UsageError(f"The shape {list(sizes)} has a negative size.", fix="Pass the sizes the memory has.")
    if math.prod(size or 1 for size in sizes) > sys.maxsize // 16:  # NumPy does not count more bytes of any type
        raise UsageError(f"An array of shape {list(sizes)} is too large.", fix="Pass the sizes the memory has.")
    return sizes


class _Memory:
    """Memory at an address, in the form NumPy reads. Keeps its owner alive as long as an array over it."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False)}
        self.owner = owner


def array_at(address: int, data_type: DataType, shape: Sequence[int], owner: Any = None) -> np.ndarray[Any, Any]:
    """A writable array over memory at an address, without a copy.

    Args:
        address: First byte. The caller vouches that the memory holds this many elements and lives as long as the array,
            or as `owner`.
        data_type: Element type, one byte an element for the types ONNX packs.
        owner: Object that keeps the memory alive.
    """
    dtype = numpy_dtype(data_type)
    count = 1
    for size in shape:
        count *= size
    flat = np.asarray(_Memory(address, count * dtype.itemsize, owner))
    return flat.view(dtype).reshape(tuple(shape))


def writable_view(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A writable view of a C-contiguous array whose maker could not say whether it may be written to."""
    return array_at(array.ctypes.data, data_type_of(array.dtype), array.shape, array)
