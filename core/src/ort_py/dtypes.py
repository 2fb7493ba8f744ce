"""ONNX element types and ONNX value types, and their NumPy forms.

A leaf: imports nothing of ort-py but errors. `ml_dtypes` is imported only when a type that NumPy lacks is asked for.

A shape is a tuple of dimensions, or None where even the rank is unknown. A dimension is an int (known),
a str (symbolic: equal names are equal sizes), or None (unknown).
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass

Dim: TypeAlias = int | str | None
Shape: TypeAlias = tuple[Dim, ...]


class DataType(IntEnum):
    """Element types, numbered as ``onnx.TensorProto.DataType``."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26
    FLOAT6E2M3 = 27
    FLOAT6E3M2 = 28

    @property
    def onnx_name(self) -> str:
        """The name inside type strings: ``float``, ``int64``, ``bfloat16``."""
        return str(self.name).lower()

    @property
    def bits(self) -> int:
        """Bits one element takes in an ONNX file; 0 for strings, whose size the data decides."""
        return _BITS[self]


# ml_dtypes' name of each element type that NumPy does not have.
_ML_DTYPES = {
    DataType.BFLOAT16: "bfloat16",
    DataType.FLOAT8E4M3FN: "float8_e4m3fn",
    DataType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    DataType.FLOAT8E5M2: "float8_e5m2",
    DataType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    DataType.FLOAT8E8M0: "float8_e8m0fnu",
    DataType.FLOAT4E2M1: "float4_e2m1fn",
    DataType.FLOAT6E2M3: "float6_e2m3fn",
    DataType.FLOAT6E3M2: "float6_e3m2fn",
    DataType.UINT4: "uint4",
    DataType.INT4: "int4",
    DataType.UINT2: "uint2",
    DataType.INT2: "int2",
}

_NUMPY: dict[DataType, np.dtype[Any]] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.INT8: np.dtype(np.int8),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.INT16: np.dtype(np.int16),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.STRING: np.dtype(object),
    DataType.BOOL: np.dtype(np.bool_),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.COMPLEX64: np.dtype(np.complex64),
    DataType.COMPLEX128: np.dtype(np.complex128),
}

_BITS: dict[DataType, int] = {data_type: dtype.itemsize * 8 for data_type, dtype in _NUMPY.items()} | {
    DataType.UNDEFINED: 0,
    DataType.STRING: 0,
    DataType.BFLOAT16: 16,
    DataType.FLOAT8E4M3FN: 8,
    DataType.FLOAT8E4M3FNUZ: 8,
    DataType.FLOAT8E5M2: 8,
    DataType.FLOAT8E5M2FNUZ: 8,
    DataType.FLOAT8E8M0: 8,
    DataType.FLOAT4E2M1: 4,
    DataType.FLOAT6E2M3: 6,
    DataType.FLOAT6E3M2: 6,
    DataType.UINT4: 4,
    DataType.INT4: 4,
    DataType.UINT2: 2,
    DataType.INT2: 2,
}


@cache
def numpy_dtype(data_type: DataType | int) -> np.dtype[Any]:
    """The dtype a tensor of this element type has in a slot: NumPy's, else `ml_dtypes`'; object for strings."""
    try:
        data_type = DataType(data_type)
    except ValueError:
        raise InvalidArgument(f"{data_type} is not an ONNX element type.", fix="See ort_py.dtypes.DataType.") from None
    if data_type in _NUMPY:
        return _NUMPY[data_type]
    if data_type in _ML_DTYPES:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[data_type]))
        return found
    raise InvalidArgument(
        "A tensor cannot have the element type UNDEFINED.", fix="Use one of the others of ort_py.dtypes.DataType."
    )


@cache
def data_type_of(dtype: np.dtype[Any]) -> DataType:
    """The ONNX element type of a NumPy dtype, in any byte order; `U`, `S` and object arrays are strings.

    Raises:
        InvalidArgument: ONNX has no such element type (datetime64, longdouble, structured, …).
    """
    if dtype.kind in "OUS" or dtype.kind == "T":  # T is NumPy's StringDType
        return DataType.STRING
    native = dtype.newbyteorder("=")
    for data_type, candidate in _NUMPY.items():
        if candidate == native:
            return data_type
    for data_type, name in _ML_DTYPES.items():
        if native.name == name:
            return data_type
    raise InvalidArgument(
        f"NumPy dtype '{dtype}' has no ONNX element type.",
        fix="Convert the array with astype() to the dtype that the model's input declares.",
    )


def float_attribute(number: float) -> float:
    """A number as a float attribute holds it: rounded to float32.

    The defaults of ONNX's schemas are such numbers, though documents print 0.01 or 1e-5. In float64 they differ.
    """
    return float(np.float32(number))


def nbytes_of(data_type: DataType, shape: tuple[int, ...]) -> int:
    """Bytes a tensor takes in an ONNX file: sub-byte types are packed. Strings count eight bytes each."""
    count = 1
    for dim in shape:
        count *= dim
    bits = data_type.bits or 64
    return (count * bits + 7) // 8


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dense tensor. `shape` is None where the rank is unknown."""

    data_type: DataType
    shape: Shape | None = None

    def __str__(self) -> str:
        return f"tensor({self.data_type.onnx_name})"


@dataclass(frozen=True, slots=True)
class SparseTensorType:
    """A sparse tensor."""

    data_type: DataType
    shape: Shape | None = None

    def __str__(self) -> str:
        return f"sparse_tensor({self.data_type.onnx_name})"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence: in a slot, a Python list."""

    element: ValueType

    def __str__(self) -> str:
        return f"seq({self.element})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """An optional: in a slot, the element or None."""

    element: ValueType

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map: in a slot, a Python dict."""

    key: DataType
    value: ValueType

    def __str__(self) -> str:
        return f"map({self.key.onnx_name},{self.value})"


ValueType: TypeAlias = TensorType | SparseTensorType | SequenceType | OptionalType | MapType

_BY_NAME = {data_type.onnx_name: data_type for data_type in DataType}
_PATTERN = r"(tensor|sparse_tensor|seq|optional|map)\((.*)\)"


def parse_value_type(text: str) -> ValueType:
    """Read a type string of the ONNX schemas, e.g. ``seq(tensor(float))``; shapes are unknown."""
    match = re.fullmatch(_PATTERN, text.replace(" ", ""))
    if match is None:
        raise InvalidArgument(
            f"'{text}' is not an ONNX type string.", fix="Write e.g. tensor(float) or seq(tensor(int64))."
        )
    kind, inner = match.groups()
    if kind == "seq":
        return SequenceType(parse_value_type(inner))
    if kind == "optional":
        return OptionalType(parse_value_type(inner))
    key, _, value = inner.partition(",") if kind == "map" else (inner, "", "")
    if key not in _BY_NAME:
        raise InvalidArgument(
            f"'{text}' names the unknown element type '{key}'.",
            why=f"known: {', '.join(_BY_NAME)}",
            fix="Spell it as the ONNX specification does.",
        )
    if kind == "map":
        return MapType(_BY_NAME[key], parse_value_type(value))
    return TensorType(_BY_NAME[key]) if kind == "tensor" else SparseTensorType(_BY_NAME[key])


def value_type_of(value: Any) -> ValueType | None:
    """The type of an array, list or dict; None where it cannot be known: nothing, or an empty list."""
    if isinstance(value, np.ndarray | np.generic):
        return TensorType(data_type_of(value.dtype), tuple(value.shape))
    if isinstance(value, list | tuple):
        element = value_type_of(value[0]) if value else None
        # Elements of a sequence may differ in shape, so that of the first says nothing about the rest.
        held = TensorType(element.data_type) if isinstance(element, TensorType) else element
        return None if held is None else SequenceType(held)
    if isinstance(value, dict) and value:
        key, item = next(iter(value.items()))
        inner = value_type_of(item) or TensorType(_data_type_of_scalar(item))
        held = TensorType(inner.data_type) if isinstance(inner, TensorType) else inner
        return MapType(_data_type_of_scalar(key), held)
    return None


def _data_type_of_scalar(value: Any) -> DataType:
    if isinstance(value, np.generic):
        return data_type_of(value.dtype)
    # Python's float is what a map of float32 holds once it is a dict; ZipMap's maps are of that kind.
    return {int: DataType.INT64, float: DataType.FLOAT, bool: DataType.BOOL}.get(type(value), DataType.STRING)
