"""The function in an operator's specification, run by onnxruntime under another name.

For operators that are defined by such a function it is the specification itself, and independent of any kernel for
the operator, onnxruntime's own included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import onnxruntime
from onnx import defs, helper

from ort_py.dtypes import data_type_of

__all__ = ["function_outputs"]

_DOMAIN = "specification"


def function_outputs(op_type: str, inputs: Sequence[Any], *, opset: int, **attributes: Any) -> list[Any]:
    """The outputs of the function body of `op_type` at `opset`.

    Attributes without a value get the schema's default: a function knows none.
    """
    schema = defs.get_schema(op_type, opset)
    body = onnx.FunctionProto()
    body.CopyFrom(schema.function_body)
    body.domain = _DOMAIN
    defaults = {
        name: helper.get_attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    names, results = [f"x{i}" for i in range(len(inputs))], list(body.output)
    node = helper.make_node(op_type, names, results, domain=_DOMAIN, **{**defaults, **attributes})
    graph = helper.make_graph(
        [node],
        "function",
        [
            helper.make_tensor_value_info(name, int(data_type_of(value.dtype)), list(value.shape))
            for name, value in zip(names, inputs, strict=True)
        ],
        [helper.make_empty_tensor_value_info(name) for name in results],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(_DOMAIN, 1)]
    model = helper.make_model(graph, functions=[body], opset_imports=imports, ir_version=min(10, onnx.IR_VERSION))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip(names, inputs, strict=True))))
