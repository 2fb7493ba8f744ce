"""Enumerations of quantisation: element types, and how a quantised model is written."""

from __future__ import annotations

from enum import Enum
from typing import Self

from ort_py.compat.not_yet import missing_function
from ort_py.dtypes import DataType, numpy_dtype

__all__ = [
    "FLOAT8_TYPES",
    "ONNX_TYPE_TO_NP_TYPE",
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "write_calibration_table",
]

FLOAT8_TYPES = tuple(
    int(kind) for kind in (DataType.FLOAT8E4M3FN, DataType.FLOAT8E4M3FNUZ, DataType.FLOAT8E5M2, DataType.FLOAT8E5M2FNUZ)
)
"""Numbers of the element types that have eight bits and a point."""

write_calibration_table = missing_function(
    "quantization.write_calibration_table", "Save ranges with save_tensors_data(), which writes JSON."
)


class _ByName(Enum):
    """Members that print as their name and are found by it."""

    def __str__(self) -> str:
        return self.name

    @classmethod
    def from_string(cls, name: str, /) -> Self:
        """The member of a name.

        Raises:
            ValueError: There is none.
        """
        if name not in cls.__members__:
            raise ValueError(f"{cls.__name__} has no {name!r}; there are {', '.join(cls.__members__)}.")
        return cls[name]


class QuantizationMode(_ByName):
    """The family of operators that older quantised models use."""

    IntegerOps = 0
    QLinearOps = 1


class QuantType(_ByName):
    """Element type of quantised tensors."""

    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6

    @property
    def tensor_type(self) -> int:
        """Number of the element type in ``TensorProto.DataType``."""
        return int(DataType[self.name.removeprefix("Q").upper()])


ONNX_TYPE_TO_NP_TYPE = {kind.tensor_type: numpy_dtype(kind.tensor_type) for kind in QuantType}
"""NumPy type of each element type that tensors are quantised to, by its number."""


class QuantFormat(_ByName):
    """The form of a quantised model: with quantised operators, or with pairs around ordinary ones."""

    QOperator = 0
    QDQ = 1
