"""Small models from ONNX's text form, and the reference to compare with: what tests of graph changes need.

Plug-in authors use it to test transforms: write the graph as text, change it, look at the nodes, and let
`onnx.reference` compute both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ort_py.contracts import Array, GraphView, KernelContext, NodeSpec, TransformContext
from ort_py.contracts.schema import OperatorSchema
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import check_types, validate
from ort_py.graph.ir import Model
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing.shapes import infer_types
from ort_py.graph.view import ModelGraphView
from ort_py.graph.writing.protos import fill_attribute, type_from_proto
from ort_py.graph.writing.serialize import model_to_proto
from ort_py_kit.kernel_runner import LocalKernelContext


def model_from_text(text: str, opset: int = 21) -> onnx.ModelProto:
    """A model from ONNX's text form.

    Args:
        text: One graph, e.g. ``g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }``, or a whole model that starts
            with ``<ir_version: …>``.
        opset: Opset of the default domain, where the text is a graph only.
    """
    header = "" if text.lstrip().startswith("<") else f'<ir_version: 10, opset_import: ["" : {opset}]>\n'
    return onnx.parser.parse_model(header + text)


def typed_model(model: str | onnx.ModelProto, opset: int = 21, schemas: SchemaRegistry | None = None) -> Model:
    """The model in memory: loaded, validated and typed.

    Args:
        model: A message, or text as in `model_from_text`.
        opset: Opset of the default domain, where the text is a graph only.
        schemas: Operators; those of ONNX where None.
    """
    schemas = schemas or SchemaRegistry()
    loaded = load_model(model_from_text(model, opset) if isinstance(model, str) else model)
    validate(loaded, schemas)
    infer_types(loaded, schemas)
    check_types(loaded, schemas)
    return loaded


def graph_view(model: str | onnx.ModelProto, opset: int = 21, schemas: Iterable[OperatorSchema] = ()) -> GraphView:
    """A model as providers see it.

    Args:
        model: A message, or text as in `model_from_text`.
        opset: Opset of the default domain, where the text is a graph only.
        schemas: Operators beside those of ONNX.
    """
    return ModelGraphView(typed_model(model, opset, SchemaRegistry(schemas)).graph)


def written(model: Model) -> onnx.ModelProto:
    """A model in memory as a message."""
    return model_to_proto(model)


def type_text(proto: onnx.TypeProto) -> str:
    """A type as schemas spell it, e.g. ``tensor(float)``; ``"None"`` where it is not known."""
    return str(type_from_proto(proto))


def reference_run(model: Model | onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Run a model, possibly one in memory, with `onnx.reference`."""
    proto = model if isinstance(model, onnx.ModelProto) else written(model)
    return list(ReferenceEvaluator(proto).run(None, dict(feeds)))


class ReferenceContext(TransformContext):
    """Evaluates nodes with `onnx.reference` instead of a session's kernels.

    Args:
        reserved: Bytes that constants may take beyond what they replace.
    """

    def __init__(self, reserved: int = 0) -> None:
        self._left = reserved

    def evaluate(self, node: NodeSpec, inputs: Sequence[Array | None]) -> Sequence[Array] | None:
        message = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
        message.input.extend("" if array is None else f"x{index}" for index, array in enumerate(inputs))
        message.output.extend("" if value is None else f"y{index}" for index, value in enumerate(node.outputs))
        for name, value in node.attributes.items():
            fill_attribute(message.attribute.add(), name, value)
        feeds = {f"x{index}": np.asarray(array) for index, array in enumerate(inputs) if array is not None}
        graph = helper.make_graph(
            [message],
            "node",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in feeds.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in message.output if name],
        )
        imports = [helper.make_opsetid(node.domain, node.opset_version)]
        results = iter(ReferenceEvaluator(helper.make_model(graph, opset_imports=imports)).run(None, feeds))
        return [None if value is None else next(results) for value in node.outputs]

    def kernel_context(self, node: NodeSpec) -> KernelContext:
        return LocalKernelContext(node)

    def reserve(self, nbytes: int) -> bool:
        allowed = nbytes <= self._left
        self._left -= nbytes if allowed else 0
        return allowed
