"""Tensors of PyTorch in and out of a run, without copies where the memory is the host's.

PyTorch is imported when it is needed and is not a dependency. A tensor of another device is brought to the host. Values
without a PyTorch type (strings, sub-byte elements) stay NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ort_py.errors import NotFound

# Types NumPy does not have, so tensors and arrays cannot change hands as they are: the same bytes as integers can.
_AS_INTEGERS: dict[str, tuple[Any, str]] = {
    "bfloat16": (ml_dtypes.bfloat16, "int16"),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, "uint8"),
    "float8_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, "uint8"),
    "float8_e5m2": (ml_dtypes.float8_e5m2, "uint8"),
    "float8_e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, "uint8"),
    "float8_e8m0fnu": (ml_dtypes.float8_e8m0fnu, "uint8"),
}
_NAME_OF = {np.dtype(kind): name for name, (kind, _) in _AS_INTEGERS.items()}


def from_torch(feed: Mapping[str, Any]) -> dict[str, Any]:
    """The feed with arrays over the memory of its tensors; everything else is left as it is.

    Args:
        feed: Values by input name: tensors, sequences of tensors, or whatever `InferenceSession.run` takes.

    Raises:
        NotFound: PyTorch is not installed.
    """
    torch = _torch()
    return {name: _array(torch, value) for name, value in feed.items()}


def to_torch(results: Any) -> Any:
    """Results of a run with tensors in the place of arrays, in lists and dicts too.

    Args:
        results: Arrays, lists, dicts, None; the tensors share the arrays' memory.

    Raises:
        NotFound: PyTorch is not installed.
    """
    return _tensors(_torch(), results)


def _array(torch: Any, value: Any) -> Any:
    if isinstance(value, list | tuple) and any(isinstance(item, torch.Tensor) for item in value):
        return [_array(torch, item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().cpu()
    for name, (kind, integers) in _AS_INTEGERS.items():
        if tensor.dtype == getattr(torch, name, None):
            return tensor.contiguous().view(getattr(torch, integers)).numpy().view(kind)
    return tensor.numpy()


def _tensors(torch: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_tensors(torch, item) for item in value]
    if isinstance(value, dict):
        return {key: _tensors(torch, item) for key, item in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    name = _NAME_OF.get(value.dtype)
    if name is not None:
        kind = getattr(torch, name, None)  # the rarer ones came with later releases
        return value if kind is None else torch.from_numpy(value.view(_AS_INTEGERS[name][1])).view(kind)
    try:
        return torch.from_numpy(value)
    except TypeError:  # no such element type there
        return value


def _torch() -> Any:
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]  # no dependency, here or in tests
    except Exception as error:  # a broken installation raises OSError
        raise NotFound(
            "PyTorch cannot be imported, so no tensors can be returned.",
            why=f"{type(error).__name__}: {error}",
            fix="Install torch, or use InferenceSession.run, which takes and returns NumPy arrays.",
        ) from error
    return torch
