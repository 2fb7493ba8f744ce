"""Models with Gradient nodes, as text, lowered and computed by `onnx.reference`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.verify import verify
from ort_py.graph.ir import Model, walk
from ort_py.limits import Limits
from ort_py.transforms.gradient.lowering import lower_gradients
from ort_py_kit.graphs import reference_run, typed_model

__all__ = ["DOMAIN", "computed", "lowered", "operators", "with_gradient"]

DOMAIN = "ai.onnx.preview.training"


def with_gradient(graph: str, opset: int = 21, more: str = "") -> str:
    """A model as text: one graph, in which ``Gradient`` means that of ONNX's preview domain."""
    graph = graph.replace("Gradient<", f"{DOMAIN}.Gradient<")
    return f'<ir_version: 10, opset_import: ["" : {opset}, "{DOMAIN}" : 1, "local" : 1]>\n{graph}\n{more}'


def lowered(graph: str, opset: int = 21, limits: Limits | None = None, more: str = "") -> Model:
    """The model without Gradient nodes, its invariants checked."""
    model = typed_model(with_gradient(graph, opset, more))
    lower_gradients(model, SchemaRegistry(), limits or Limits())
    verify(model.graph)
    assert "Gradient" not in operators(model)
    return model


def operators(model: Model) -> Counter[str]:
    """Number of nodes of each operator, nested graphs included."""
    return Counter(node.op_type for graph in walk(model.graph) for node in graph.nodes)


def computed(graph: str, opset: int = 21, more: str = "", **feeds: Any) -> list[Any]:
    """Results of the lowered model, as lists; feeds are float32 unless they are arrays."""
    given = {
        name: value if isinstance(value, np.ndarray) else np.array(value, np.float32) for name, value in feeds.items()
    }
    return [np.asarray(result).tolist() for result in reference_run(lowered(graph, opset, more=more), given)]
