"""Comparing kernels with onnxruntime on a model of one node: the oracle where `onnx.reference` is wrong or silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from ort_py.dtypes import data_type_of
from ort_py_kit.tolerances import assert_close

from .oracle import run

__all__ = ["addable", "agree_with_runtime", "runtime_outputs"]


def runtime_outputs(
    op_type: str, inputs: Sequence[Any], *, opset: int, outputs: int = 1, domain: str = "", **attributes: Any
) -> list[Any]:
    """Run one node with onnxruntime on one thread; absent optional inputs are None."""
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if name}
    graph = helper.make_graph(
        [node],
        "one_node",
        [helper.make_tensor_value_info(n, int(data_type_of(v.dtype)), list(v.shape)) for n, v in feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in results],
    )
    imports = [helper.make_opsetid("", 17 if domain else opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, opset))
    model = helper.make_model(graph, opset_imports=imports, ir_version=min(10, onnx.IR_VERSION))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def addable(weights: Any, left: Any = np.uint8) -> Any:
    """Weights whose products with integers of another type onnxruntime adds exactly on every processor.

    With AVX2 only, it adds pairs of products of uint8 and int8 in 16 bits, where they saturate. A pair of products with
    int8 weights of 7 bits stays within them: 2 · 255 · 64 < 2¹⁵. Other pairs of types are always added in 32 bits.

    Args:
        weights: Integers of 8 bits, the right operand.
        left: Type of the left operand.
    """
    return weights // 2 if weights.dtype == np.int8 and left == np.uint8 else weights


def agree_with_runtime(
    op_type: str,
    inputs: Sequence[Any],
    *,
    opset: int,
    outputs: int = 1,
    domain: str = "",
    constants: Sequence[int] = (),
    **attributes: Any,
) -> None:
    """Assert that the kernel and onnxruntime give the same.

    Raises:
        AssertionError: They do not.
    """
    arguments: dict[str, Any] = {"opset": opset, "outputs": outputs, "domain": domain, **attributes}
    actual = run(op_type, inputs, constants=constants, **arguments)
    expected = runtime_outputs(op_type, inputs, **arguments)
    for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
        wanted = right if isinstance(right, list | dict) else np.asarray(right)
        assert_close(left, wanted, context=f"{op_type} output {index}")
