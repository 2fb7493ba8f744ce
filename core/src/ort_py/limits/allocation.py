"""The question before an array is made: would it pass the limits?

Shapes come from models and from data, so products are computed with Python's integers, which do not wrap.

`array_memory` counts the bytes of arrays, those of strings included: copies of an array of strings share the strings,
so callers that add up several arrays pass one set for all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ort_py.contracts.running_time import check_time
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import LimitError, Location
from ort_py.limits.limits import Limits

_ADDRESSABLE = int(np.iinfo(np.intp).max)

_WIDEST = 16
"""Bytes of an element of the widest type, complex128."""


def unquestioned_elements(limits: Limits) -> int:
    """Elements up to which an array passes the limits whatever its type: `check_allocation` need not be asked."""
    allowed = limits.single_allocation_bytes
    return (_ADDRESSABLE if allowed is None else min(allowed, _ADDRESSABLE)) // _WIDEST


def array_bytes(shape: Sequence[int], dtype: Any) -> int:
    """Bytes an array takes in memory; sub-byte types take a byte an element, strings a pointer.

    Args:
        shape: Its shape; negative dimensions count as 0.
        dtype: NumPy dtype, anything ``np.dtype`` takes, or a `DataType`.
    """
    itemsize = numpy_dtype(dtype).itemsize if isinstance(dtype, DataType) else np.dtype(dtype).itemsize
    return prod(max(int(dim), 0) for dim in shape) * itemsize


def check_allocation(limits: Limits, shape: Sequence[int], dtype: Any, location: Location | str = "") -> None:
    """Refuse an array that is larger than one allocation may be.

    Raises:
        LimitError: The array would be larger than `Limits.single_allocation_bytes`, or than an address can reach.
    """
    wanted = array_bytes(shape, dtype)
    allowed = limits.single_allocation_bytes
    if allowed is not None and wanted > allowed:
        what = f"An array of {human_bytes(wanted)} is larger than one allocation may be ({human_bytes(allowed)})."
        fix = "If the model is right, raise Limits.single_allocation_bytes."
    elif wanted > _ADDRESSABLE:
        what = f"An array of {human_bytes(wanted)} is larger than this machine can address."
        fix = "The model or its input asks for an impossible shape; check the sizes that lead to it."
    else:
        return
    name = dtype.onnx_name if isinstance(dtype, DataType) else np.dtype(dtype).name
    shown = "×".join(str(int(dim)) for dim in shape) or "scalar"
    raise LimitError(what, where=location, why=f"its shape is {shown}, its type {name}", fix=fix)


def human_bytes(count: int) -> str:
    """A size for people: ``1.5 GiB``."""
    if count >= 1 << 100:
        return f"2^{count.bit_length() - 1} bytes"  # no unit is left, and a float overflows at 2^1024
    for power, unit in ((60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count} bytes"


_STRETCH = 1 << 18
"""Strings that are counted at a time."""


_NUMBER = sys.getsizeof(0.5)


def map_memory(found: dict[Any, Any], seen: set[int]) -> int:
    """Bytes of a map of numbers and strings; those of strings are counted and noted as in `array_memory`."""
    texts = {id(one): one for one in (*found, *found.values()) if type(one) is str and id(one) not in seen}
    seen.update(texts)
    return sys.getsizeof(found) + _NUMBER * len(found) + sum(map(sys.getsizeof, texts.values()))


def array_memory(array: Any, seen: set[int] | None = None) -> int:
    """Bytes of an array or a map, those of its strings included.

    Args:
        seen: Identities of the strings that are counted already; gets those of this array. None: each element counts.
    """
    if isinstance(array, dict):
        return map_memory(array, set() if seen is None else seen)
    size = int(array.nbytes)
    if not getattr(getattr(array, "dtype", None), "hasobject", False):
        return size
    flat = array.reshape(-1)
    for start in range(0, flat.size, _STRETCH):
        check_time()  # to count a hundred million strings takes half a minute
        texts = flat[start : start + _STRETCH].tolist()
        if seen is None:
            size += sum(map(sys.getsizeof, texts))
            continue
        for text in texts:
            if id(text) not in seen:
                seen.add(id(text))
                size += sys.getsizeof(text)
    return size


def longest_text(array: Any) -> int:
    """Bytes of the largest string of an array; 0 where it holds no strings."""
    if array is None or not array.dtype.hasobject:
        return 0
    return max(map(sys.getsizeof, array.reshape(-1).tolist()), default=0)
