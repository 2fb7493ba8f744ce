"""Formulas in float64 for types and options that onnxruntime's CPU lacks, and a model of one node with initializers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from ort_py.dtypes import data_type_of
from ort_py_kit.tolerances import assert_close

from ..oracle import run

__all__ = ["DOMAIN", "contrib", "model_of", "rounded_once", "runtime_with_initializers"]

DOMAIN = "com.microsoft"


def contrib(op_type: str, inputs: Sequence[Any], **arguments: Any) -> list[Any]:
    """`run` in the contributed domain."""
    return run(op_type, inputs, **{"domain": DOMAIN, "opset": 1, **arguments})


def rounded_once(actual: Any, exact: Any, dtype: Any) -> None:
    """Assert that `actual` is a float64 result, rounded to a narrow type (within the type's tolerance)."""
    assert_close(actual, np.asarray(exact, np.float64).astype(dtype))


def model_of(
    op_type: str,
    inputs: Sequence[Any],
    constants: Sequence[int],
    *,
    domain: str = DOMAIN,
    outputs: int = 1,
    attributes: Mapping[str, Any],
) -> tuple[bytes, dict[str, Any]]:
    """A model of one node, some of whose inputs are initializers, and the feeds of the others."""
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None and i not in constants}
    graph = helper.make_graph(
        [helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)],
        "one_node",
        [helper.make_tensor_value_info(n, int(data_type_of(v.dtype)), list(v.shape)) for n, v in feeds.items()],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)],
        [numpy_helper.from_array(inputs[i], f"x{i}") for i in constants],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=11).SerializeToString(), feeds


def runtime_with_initializers(
    op_type: str, inputs: Sequence[Any], constants: Sequence[int], **attributes: Any
) -> list[Any]:
    """Run a node with onnxruntime; values of types that it takes from no NumPy array become initializers."""
    model, feeds = model_of(op_type, inputs, constants, attributes=attributes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))
