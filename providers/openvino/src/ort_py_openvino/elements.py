"""Element types of ONNX and of OpenVINO, and tensors around arrays without copies.

Two traps: only the tensor object keeps the array behind a tensor alive, and a request does not, so the code that sets a
tensor holds it until the run is over. NumPy has no bfloat16 that OpenVINO knows, so such arrays are passed as 16 bits
with a type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, numpy_dtype
from ort_py_openvino.runtime import module

__all__ = ["COMPUTED", "data_type_of_port", "new_array", "tensor"]

COMPUTED = frozenset(
    {
        *(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.BOOL),
        *(DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16, DataType.INT32, DataType.INT64),
    }
)
"""Types that cross a region's border. The processor's plug-in computes float64 in float32 and 64-bit integers in 32
bits: the first is left out, the second is let in where that makes no difference (`integers`)."""

_NAMES = {
    "f32": DataType.FLOAT,
    "f16": DataType.FLOAT16,
    "bf16": DataType.BFLOAT16,
    "boolean": DataType.BOOL,
    "i8": DataType.INT8,
    "u8": DataType.UINT8,
    "i16": DataType.INT16,
    "u16": DataType.UINT16,
    "i32": DataType.INT32,
    "i64": DataType.INT64,
}


def data_type_of_port(port: Any) -> DataType | None:
    """The element type of an input or output of a model, None for types that no array here has."""
    return _NAMES.get(port.get_element_type().get_type_name())


def new_array(shape: Sequence[int], data_type: DataType) -> np.ndarray[Any, Any]:
    """Uninitialised memory for an output."""
    return np.empty(tuple(shape), numpy_dtype(data_type))


def tensor(array: np.ndarray[Any, Any], data_type: DataType) -> Any:
    """Create an OpenVINO tensor on the memory of an array, which it keeps alive.

    Args:
        array: C-contiguous.
        data_type: Its element type.
    """
    openvino = module_once()
    if data_type is DataType.BFLOAT16:
        return openvino.Tensor(array.view(np.int16), openvino.Shape(list(array.shape)), openvino.Type.bf16)
    return openvino.Tensor(array, shared_memory=True)


_module: list[Any] = []


def module_once() -> Any:
    """`runtime.module`, looked up once."""
    if not _module:
        _module.append(module())
    return _module[0]
