"""What a session says about its model: NodeArg and ModelMetadata, as in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ort_py.dtypes import OptionalType, TensorType, ValueType
from ort_py.graph.ir import Model, Value

__all__ = ["ModelMetadata", "NodeArg", "metadata_of", "node_arg"]


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a model.

    Attributes:
        name: Name.
        type: Type string, e.g. ``tensor(float)``, ``seq(tensor(int64))``.
        shape: int for a fixed dimension, str for a symbolic one, None for an unknown one. Empty for a scalar, and
            also where the rank is unknown, as in onnxruntime; `rank_known` tells the two apart.
        rank_known: Whether an empty `shape` means a scalar.
    """

    name: str
    type: str
    shape: list[int | str | None]
    rank_known: bool = field(default=True, repr=False)


def node_arg(value: Value) -> NodeArg:
    """The NodeArg of a graph input or output."""
    described = _tensor_in(value.type)
    shape = None if described is None else described.shape
    return NodeArg(value.name, str(value.type or ""), list(shape or ()), shape is not None)


def _tensor_in(value_type: ValueType | None) -> TensorType | None:
    # An optional tensor reports the shape of what is in it.
    inner = value_type.element if isinstance(value_type, OptionalType) else value_type
    return inner if isinstance(inner, TensorType) else None


@dataclass(slots=True)
class ModelMetadata:
    """What the model's file says about itself.

    Attributes:
        producer_name: Tool that wrote the model.
        graph_name: Name of the main graph.
        domain: Reverse-DNS name of the model's origin.
        description: Documentation of the model.
        graph_description: Documentation of the main graph.
        version: The model's own version; the largest int64 where it has none, as in onnxruntime.
        custom_metadata_map: Its metadata properties.
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: Mapping[str, str]


_NO_VERSION = 2**63 - 1


def metadata_of(model: Model) -> ModelMetadata:
    """The metadata of a loaded model."""
    return ModelMetadata(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph_doc_string,
        version=model.model_version or _NO_VERSION,
        custom_metadata_map=dict(model.metadata),
    )
