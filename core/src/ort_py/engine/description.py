"""The description of a model: its title, its inputs and outputs, and its metadata, as a session reports them.

Made once, when a model has been loaded or restored, and before anything optimises it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ort_py.engine.metadata import ModelMetadata, NodeArg, metadata_of, node_arg
from ort_py.engine.replaced_values import report_negative_sizes
from ort_py.graph.ir import Model
from ort_py.graph.reading.fingerprint import ContentHash
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """The description that a model's file contains.

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
    declared = model.declared_outputs
    outputs = [node_arg(value, said) for value, said in zip(graph.outputs, declared, strict=True)]
    report_negative_sizes([*inputs, *outputs], sizes)
    return ModelDescription(
        title=Path(model.source).name if model.source else graph.name or "model",
        fingerprint=model.fingerprint,
        inputs=inputs,
        outputs=outputs,
        overridable=[node_arg(value) for value in graph.initializers.values() if value.overridable],
        metadata=metadata_of(model),
    )
