"""Inference of all types of a graph: by the rules where these cover it, else by ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ort_py.dtypes import ValueType
from ort_py.graph.ir import Graph, Value
from ort_py.graph.typing.rules.graphs import ruled_graph
from ort_py.lazy_dataclass import dataclass


@dataclass(slots=True)
class Inferred:
    """The result of inference.

    Attributes:
        errors: Contradictions, as ONNX words them.
    """

    types: dict[Value, ValueType] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


def infer_graph(graph: Graph, given_types: Mapping[Value, ValueType], *, strict: bool) -> Inferred:
    """Infer the types of all values of a graph, nested graphs included.

    ONNX does not look into graphs that operators of other domains hold; such a graph is asked about by itself.

    Args:
        graph: The main graph of a model, or a nested one.
        given_types: Types to start from: those of the graph's inputs, of captured values, and of others that are known.
        strict: Collect contradictions too; needs a second run of ONNX's inference if there are any.
    """
    types = ruled_graph(graph, given_types)
    if types is not None:
        return Inferred(types)
    from ort_py.graph.typing.inference import run_inference  # it needs onnx's native library

    return run_inference(graph, given_types, strict=strict)
