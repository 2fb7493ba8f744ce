"""Description of a model as a session reports it: its title, its inputs and outputs, and its metadata.

It is made when a model has been loaded or restored, before anything optimises it. `NodeArg` and `ModelMetadata` are as
in onnxruntime.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field

from ort_py.dtypes import OptionalType, Shape, SparseTensorType, TensorType, ValueType
from ort_py.engine.replaced_values import report_negative_sizes
from ort_py.graph.ir import Model, Value
from ort_py.graph.reading.fingerprint import ContentHash
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a model.

    Attributes:
        type: Type string, e.g. ``tensor(float)``, ``seq(tensor(int64))``.
        shape: int for a fixed dimension, str for a symbolic one, None for an unknown one. Empty for a scalar, and
            also where the rank is unknown, as in onnxruntime; `rank_known` tells the two apart.
        rank_known: Whether an empty `shape` means a scalar.
    """

    name: str
    type: str
    shape: list[int | str | None]
    rank_known: bool = field(default=True, repr=False)

    def __hash__(self) -> int:
        return hash((self.name, self.type))  # the shape is a list, as in onnxruntime, where NodeArgs can be hashed


def node_arg(value: Value, declared: ValueType | None = None) -> NodeArg:
    """Make the NodeArg of a graph input or output.

    Args:
        value: The input or output, with what is known of it.
        declared: Type that the model declares for an output. Its names and sizes are shown wherever inference found no
            size of its own: a caller knows the output by the names its model gives.
    """
    shape = _shown(_shape_in(value.type), _shape_in(declared))
    return NodeArg(value.name, str(value.type or ""), list(shape or ()), shape is not None)


def _shape_in(value_type: ValueType | None) -> Shape | None:
    # An optional tensor reports the shape of what is in it.
    inner = value_type.element if isinstance(value_type, OptionalType) else value_type
    return inner.shape if isinstance(inner, TensorType | SparseTensorType) else None


def _shown(inferred: Shape | None, declared: Shape | None) -> Shape | None:
    if inferred is None or declared is None or len(inferred) != len(declared):
        return declared if inferred is None else inferred
    pairs = zip(inferred, declared, strict=True)
    return tuple([found if isinstance(found, int) or said is None else said for found, said in pairs])


@dataclass(slots=True)
class ModelMetadata:
    """The metadata in the model's file.

    Attributes:
        producer_name: Tool that wrote the model.
        graph_name: Name of the main graph.
        domain: Reverse-DNS name of the model's origin.
        graph_description: Documentation of the main graph.
        version: The model's own version; the largest int64 where it has none, as in onnxruntime.
        custom_metadata_map: Its metadata properties; a copy each time it is read, as in onnxruntime.
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    _properties: Mapping[str, str]

    def __post_init__(self) -> None:
        self._properties = dict(self._properties)

    def __repr__(self) -> str:
        names = (*(name for name in self.__slots__ if name != "_properties"), "custom_metadata_map")
        return f"ModelMetadata({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def custom_metadata_map(self) -> dict[str, str]:
        return dict(self._properties)

    @custom_metadata_map.setter
    def custom_metadata_map(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)


_NO_VERSION = 2**63 - 1
"""The version that onnxruntime reports for a model without one."""


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """The description of a model.

    Attributes:
        title: Name of the model's file, else of its graph; for messages.
    """

    title: str
    fingerprint: ContentHash
    inputs: list[NodeArg]
    outputs: list[NodeArg]
    overridable: list[NodeArg]
    metadata: ModelMetadata


def describe(model: Model, sizes: Mapping[str, int]) -> ModelDescription:
    """Describe a model.

    Args:
        sizes: Sizes of symbolic dimensions that the options give.
    """
    graph = model.graph
    inputs = [node_arg(value) for value in graph.inputs]
    outputs = [node_arg(value, said) for value, said in zip(graph.outputs, graph.declared_outputs, strict=True)]
    report_negative_sizes([*inputs, *outputs], sizes)
    return ModelDescription(
        title=os.path.basename(model.source) or graph.name or "model",
        fingerprint=model.fingerprint,
        inputs=inputs,
        outputs=outputs,
        overridable=[node_arg(value) for value in graph.initializers.values() if value.overridable],
        metadata=ModelMetadata(
            producer_name=model.producer_name,
            graph_name=graph.name,
            domain=model.domain,
            description=model.doc_string,
            graph_description=model.graph_doc_string,
            version=_NO_VERSION if model.model_version is None else model.model_version,
            _properties=model.metadata,
        ),
    )
