"""Attributes of a protobuf as Python values, and the constants that ``Constant`` nodes spell with them.

Graphs are left to `parse_graph`, which reads them without recursion. Strings become str where they are UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Weight
from ort_py.graph.reading.tensors import TensorReader, decoded
from ort_py.graph.reading.text import read_type
from ort_py.graph.weights.weight_store import WeightStore

FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, GRAPHS = range(1, 11)
SPARSE_TENSOR, SPARSE_TENSORS, TYPE_PROTO, TYPE_PROTOS = 11, 12, 13, 14

_CONSTANTS = (("int", np.int64), ("float", np.float32), ("string", object))
CONSTANT_ATTRIBUTES: Mapping[str, Any] = {f"value_{name}{s}": kind for name, kind in _CONSTANTS for s in ("", "s")}
"""Attributes of ``Constant`` that are not tensors, with the dtype of the tensor they mean."""

_ELEMENTS: Mapping[str, tuple[type, ...]] = {"value_int": (int,), "value_float": (float,), "value_string": (str, bytes)}
"""Python types that such attributes hold; a file may say that a number is a text."""

_FIELDS: dict[str, int] = {
    "t": TENSOR,
    "g": GRAPH,
    "sparse_tensor": SPARSE_TENSOR,
    "tp": TYPE_PROTO,
    "s": STRING,
    "f": FLOAT,
    "i": INT,
}
_LISTS: dict[str, int] = {"ints": INTS, "floats": FLOATS, "strings": STRINGS, "tensors": TENSORS, "graphs": GRAPHS}
_LISTS |= {"sparse_tensors": SPARSE_TENSORS, "type_protos": TYPE_PROTOS}
_VALUES = _FIELDS | _LISTS
"""The kind of attribute that each field of a message holds the value of."""


def attribute_kind(proto: Any) -> int:
    """The ``AttributeProto`` type; found from the field that is set where IR version 1 wrote no type."""
    kind: int = proto.type
    if kind:
        return kind
    for name, found in _LISTS.items():
        if len(getattr(proto, name)):
            return found
    return next((found for name, found in _FIELDS.items() if proto.HasField(name)), 0)


_READERS: dict[int, Callable[[Any, TensorReader], Any]] = {
    FLOAT: lambda proto, tensors: proto.f,
    INT: lambda proto, tensors: proto.i,
    STRING: lambda proto, tensors: decoded(proto.s),
    TENSOR: lambda proto, tensors: tensors.weight(proto.t, proto.name).array(),
    FLOATS: lambda proto, tensors: tuple(proto.floats),
    INTS: lambda proto, tensors: tuple(proto.ints),
    STRINGS: lambda proto, tensors: tuple([decoded(value) for value in proto.strings]),
    TENSORS: lambda proto, tensors: tuple([tensors.weight(item, proto.name).array() for item in proto.tensors]),
    SPARSE_TENSOR: lambda proto, tensors: tensors.sparse(proto.sparse_tensor, proto.name).array(),
    SPARSE_TENSORS: lambda proto, tensors: tuple(
        [tensors.sparse(item, proto.name).array() for item in proto.sparse_tensors]
    ),
    TYPE_PROTO: lambda proto, tensors: read_type(proto.tp),
    TYPE_PROTOS: lambda proto, tensors: tuple([read_type(item) for item in proto.type_protos]),
}


def read_attribute(proto: Any, kind: int, tensors: TensorReader) -> Any:
    """The value of an attribute that holds no graph.

    Raises:
        InvalidGraph: It has no type that ONNX defines, or a value of another type, or a tensor of it is wrong.
    """
    reader = _READERS.get(kind)
    if reader is None:
        raise InvalidGraph(
            f"Attribute '{proto.name}' has no value."
            if not kind
            else f"Attribute '{proto.name}' has the type {kind}, which ONNX does not define.",
            fix="Export the model again, or update onnx if the model is newer than it.",
        )
    for field, _ in proto.ListFields():
        if _VALUES.get(field.name, kind) != kind:
            raise InvalidGraph(f"Attribute '{proto.name}' has a value in '{field.name}', which its type contradicts.")
    return reader(proto, tensors)


def constant_weight(attributes: Mapping[str, Any], store: WeightStore) -> Weight | None:
    """The tensor that the attributes of a ``Constant`` define, or None if they do not define exactly one.

    Attributes that the operator does not have are notes that tools leave on the node: they go with it.

    Source: Constant, opsets 1 to 28: ``value``, ``sparse_value`` and, from 12 on, the ``value_…`` forms.
    """
    meant = [name for name in attributes if name in ("value", "sparse_value") or name in CONSTANT_ATTRIBUTES]
    if len(meant) != 1:
        return None
    name, value = meant[0], attributes[meant[0]]
    if name in ("value", "sparse_value"):
        return store.add(value) if isinstance(value, np.ndarray) else None
    dtype = CONSTANT_ATTRIBUTES.get(name)
    if dtype is None or isinstance(value, tuple) != name.endswith("s"):
        return None
    wanted = _ELEMENTS[name.removesuffix("s")]
    if not all(isinstance(one, wanted) for one in (value if isinstance(value, tuple) else (value,))):
        return None
    if dtype is not object:
        return store.add(np.array(value, dtype))
    if isinstance(value, tuple):
        return store.strings(value, (len(value),))
    return store.strings((value,), ())
