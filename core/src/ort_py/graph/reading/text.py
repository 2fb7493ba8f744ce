"""Text of a protobuf message, which need not be text.

ONNX is a proto2 format: a string field may hold any bytes, and protobuf hands them out as bytes where they are no
UTF-8. A name like that would be found out in odd places later, so everything that reads names asks here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ort_py.dtypes import OptionalType, SequenceType, SparseTensorType, TensorType, ValueType
from ort_py.errors import InvalidProtobuf
from ort_py.graph.writing.protos import type_from_proto


def text(value: Any) -> str:
    """Decode a string field."""
    if isinstance(value, str):
        return value
    raise InvalidProtobuf(
        "The model has a name or a description that is not UTF-8 text.",
        why=f"it is {bytes(value)[:80]!r}",
        fix="The file is damaged or was written incorrectly; download or export it again.",
    )


def texts(values: Iterable[Any]) -> list[str]:
    """A repeated string field. Raises as `text`."""
    found = list(values)
    try:
        "".join(found)  # the quickest way to learn whether one of them is bytes
    except TypeError:
        return [text(value) for value in found]
    return found


def read_type(proto: Any) -> ValueType | None:
    """Read a ``TypeProto``. Returns None if it is empty or of a kind that this version does not support. Raises like
    `text`.
    """
    found = type_from_proto(proto)
    inner = found
    while isinstance(inner, SequenceType | OptionalType):
        inner = inner.element
    if isinstance(inner, TensorType | SparseTensorType):
        for dim in inner.shape or ():
            if isinstance(dim, bytes):
                text(dim)
    return found
