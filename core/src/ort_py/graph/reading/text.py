"""Text of a protobuf message, which need not be text.

ONNX is a proto2 format: a string field may hold any bytes, and protobuf hands them out as bytes where they are no
UTF-8. A name like that would be found out in odd places later, so everything that reads names asks here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ort_py.dtypes import DataType, OptionalType, SequenceType, SparseTensorType, TensorType, ValueType
from ort_py.errors import InconsistentGraph, InvalidProtobuf
from ort_py.graph.checking.domains import normalised
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


_ELEMENTS = frozenset(map(int, DataType))


def undefined_element(proto: Any) -> int:
    """The element type in a ``TypeProto`` that ONNX does not define; 0 where there is none."""
    while (kind := proto.WhichOneof("value")) in ("sequence_type", "optional_type", "map_type"):
        proto = proto.map_type.value_type if kind == "map_type" else getattr(proto, kind).elem_type
    number = getattr(getattr(proto, kind or "", None), "elem_type", 0)
    return 0 if number in _ELEMENTS else number


def read_opsets(entries: Iterable[Any]) -> dict[str, int]:
    """Opset imports, by domain.

    Raises:
        InconsistentGraph: A domain is imported with two versions.
    """
    imports: dict[str, int] = {}
    for entry in entries:
        domain, version = normalised(text(entry.domain)), int(entry.version)
        if imports.setdefault(domain, version) != version:
            what = f"Opsets {imports[domain]} and {version} of {domain or 'ai.onnx'} are imported side by side."
            raise InconsistentGraph(what, fix="Export the model again; a domain is imported with one version.")
    return imports
