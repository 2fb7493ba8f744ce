"""A region as an ONNX model in the form that the parser takes, whose large weights stay where they are.

The engine writes large constants as inputs. Here they become initializers again, whose data is said to be in a file;
the parser gets the addresses of the arrays. Comes after `variants`, before `parsing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ort_py.contracts import GraphView, RegionView
from ort_py.lazy_dataclass import dataclass

__all__ = ["RegionModel", "declare_weight", "model_of", "nodes_of"]

_IR_VERSION = 10
"""The IR version of the models that the parser gets: they need no later one."""


@dataclass(frozen=True, slots=True)
class RegionModel:
    """A region as the parser gets it.

    Attributes:
        proto: The model; the data of large constants is said to be in a file.
        weights: These constants by name.
    """

    proto: onnx.ModelProto
    weights: Mapping[str, np.ndarray[Any, Any]]


def model_of(region: RegionView) -> RegionModel:
    """Return a region as a model. No weight is copied."""
    model = onnx.ModelProto.FromString(region.to_model("reference", standard=True))
    constants = {value.name for value in region.initializers}
    fed = [value for value in model.graph.input if value.name not in constants]
    weights: dict[str, np.ndarray[Any, Any]] = {}
    for value in model.graph.input:
        array = region.constant(value.name) if value.name in constants else None
        if array is not None:
            weights[value.name] = np.ascontiguousarray(array).reshape(array.shape)
            declare_weight(model.graph, value.name, value.type.tensor_type.elem_type, array.shape)
    del model.graph.input[:]
    model.graph.input.extend(fed)
    model.ir_version = min(model.ir_version, _IR_VERSION)
    return RegionModel(model, weights)


def declare_weight(graph: onnx.GraphProto, name: str, kind: int, shape: Sequence[int]) -> None:
    """Add an initializer whose data comes from elsewhere."""
    tensor = graph.initializer.add(name=name, data_type=kind)
    tensor.dims.extend(shape)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")


def nodes_of(model: onnx.ModelProto, graph: GraphView, nodes: Sequence[int]) -> list[int]:
    """Return the node of the graph that each node of the model belongs to.

    A fused node is written as the nodes of its body, of which the last one makes its output.

    Args:
        model: Model of a region.
        graph: The graph.
        nodes: The region's nodes.
    """
    made_by = {
        value.name: index for index in nodes for value in graph.nodes[index].outputs if value is not None and value.name
    }
    owners: list[int] = []
    last = nodes[-1]
    for node in reversed(model.graph.node):
        last = next((made_by[name] for name in node.output if name in made_by), last)
        owners.append(last)
    return owners[::-1]
