"""The messages of ONNX that a model is read from, for `wire`.

They have the names and fields of those that the onnx package has, and are read alike. Fields that no session asks for,
such as the documentation of nodes and what training needs, are left out and skipped.

Source: onnx.proto, IR version 13.
"""

from __future__ import annotations

import numpy as np

from ort_py.graph.reading.wire import (
    ARRAY,
    BYTES,
    BYTES_LIST,
    ENUM,
    FLOAT,
    INT,
    INT32,
    MESSAGE,
    MESSAGES,
    NUMBERS,
    RAW,
    TEXT,
    TEXTS,
    Message,
    define,
)

_INT64, _FLOAT = np.dtype(np.int64), np.dtype(np.float32)

_ATTRIBUTE_TYPES = 15
"""Constants of ``AttributeProto.AttributeType``, which are numbered from 0."""

_DATA_LOCATIONS = 2
"""Constants of ``TensorProto.DataLocation``."""


class StringStringEntryProto(Message): ...


class OperatorSetIdProto(Message): ...


class Dimension(Message): ...


class TensorShapeProto(Message): ...


class Tensor(Message): ...


class Sequence(Message): ...


class Map(Message): ...


class TypeProto(Message): ...


class ValueInfoProto(Message): ...


class TensorProto(Message): ...


class SparseTensorProto(Message): ...


class AttributeProto(Message): ...


class NodeProto(Message): ...


class GraphProto(Message): ...


class FunctionProto(Message): ...


class ModelProto(Message): ...


define(StringStringEntryProto, [(1, "key", TEXT), (2, "value", TEXT)])
define(OperatorSetIdProto, [(1, "domain", TEXT), (2, "version", INT)])
define(
    Dimension,
    [(1, "dim_value", INT), (2, "dim_param", TEXT), (3, "denotation", TEXT)],
    value=("dim_value", "dim_param"),
)
define(TensorShapeProto, [(1, "dim", MESSAGES, Dimension)])
define(Tensor, [(1, "elem_type", INT32), (2, "shape", MESSAGE, TensorShapeProto)])
define(Sequence, [(1, "elem_type", MESSAGE, TypeProto)])
define(Map, [(1, "key_type", INT32), (2, "value_type", MESSAGE, TypeProto)])
define(
    TypeProto,
    [
        (1, "tensor_type", MESSAGE, Tensor),
        (4, "sequence_type", MESSAGE, Sequence),
        (5, "map_type", MESSAGE, Map),
        (6, "denotation", TEXT),
        (7, "opaque_type", BYTES),  # nothing is asked of it but whether it is there
        (8, "sparse_tensor_type", MESSAGE, Tensor),
        (9, "optional_type", MESSAGE, Sequence),
    ],
    value=("tensor_type", "sequence_type", "map_type", "opaque_type", "sparse_tensor_type", "optional_type"),
)
define(ValueInfoProto, [(1, "name", TEXT), (2, "type", MESSAGE, TypeProto)])
define(
    TensorProto,
    [
        (1, "dims", NUMBERS, _INT64),
        (2, "data_type", INT32),
        (3, "segment", BYTES),  # refused wherever it is
        (4, "float_data", ARRAY, _FLOAT),
        (5, "int32_data", ARRAY, np.dtype(np.int32)),
        (6, "string_data", BYTES_LIST),
        (7, "int64_data", ARRAY, _INT64),
        (8, "name", TEXT),
        (9, "raw_data", RAW),
        (10, "double_data", ARRAY, np.dtype(np.float64)),
        (11, "uint64_data", ARRAY, np.dtype(np.uint64)),
        (13, "external_data", MESSAGES, StringStringEntryProto),
        (14, "data_location", ENUM, _DATA_LOCATIONS),
    ],
)
define(
    SparseTensorProto,
    [(1, "values", MESSAGE, TensorProto), (2, "indices", MESSAGE, TensorProto), (3, "dims", NUMBERS, _INT64)],
)
define(
    AttributeProto,
    [
        (1, "name", TEXT),
        (2, "f", FLOAT),
        (3, "i", INT),
        (4, "s", BYTES),
        (5, "t", MESSAGE, TensorProto),
        (6, "g", MESSAGE, GraphProto),
        (7, "floats", NUMBERS, _FLOAT),
        (8, "ints", NUMBERS, _INT64),
        (9, "strings", BYTES_LIST),
        (10, "tensors", MESSAGES, TensorProto),
        (11, "graphs", MESSAGES, GraphProto),
        (14, "tp", MESSAGE, TypeProto),
        (15, "type_protos", MESSAGES, TypeProto),
        (20, "type", ENUM, _ATTRIBUTE_TYPES),
        (21, "ref_attr_name", TEXT),
        (22, "sparse_tensor", MESSAGE, SparseTensorProto),
        (23, "sparse_tensors", MESSAGES, SparseTensorProto),
    ],
)
define(
    NodeProto,
    [
        (1, "input", TEXTS),
        (2, "output", TEXTS),
        (3, "name", TEXT),
        (4, "op_type", TEXT),
        (5, "attribute", MESSAGES, AttributeProto),
        (7, "domain", TEXT),
        (8, "overload", TEXT),
    ],
)
define(
    GraphProto,
    [
        (1, "node", MESSAGES, NodeProto),
        (2, "name", TEXT),
        (5, "initializer", MESSAGES, TensorProto),
        (10, "doc_string", TEXT),
        (11, "input", MESSAGES, ValueInfoProto),
        (12, "output", MESSAGES, ValueInfoProto),
        (13, "value_info", MESSAGES, ValueInfoProto),
        (15, "sparse_initializer", MESSAGES, SparseTensorProto),
    ],
)
define(
    FunctionProto,
    [
        (1, "name", TEXT),
        (4, "input", TEXTS),
        (5, "output", TEXTS),
        (7, "node", MESSAGES, NodeProto),
        (9, "opset_import", MESSAGES, OperatorSetIdProto),
        (10, "domain", TEXT),
        (11, "attribute_proto", MESSAGES, AttributeProto),
        (12, "value_info", MESSAGES, ValueInfoProto),
        (13, "overload", TEXT),
    ],
)
define(
    ModelProto,
    [
        (1, "ir_version", INT),
        (2, "producer_name", TEXT),
        (3, "producer_version", TEXT),
        (4, "domain", TEXT),
        (5, "model_version", INT),
        (6, "doc_string", TEXT),
        (7, "graph", MESSAGE, GraphProto),
        (8, "opset_import", MESSAGES, OperatorSetIdProto),
        (14, "metadata_props", MESSAGES, StringStringEntryProto),
        (25, "functions", MESSAGES, FunctionProto),
    ],
)
