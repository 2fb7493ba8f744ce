"""Small models for the tests, and sessions of the provider that show what ran where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

import ort_py as ort

__all__ = ["PROVIDER", "model", "node", "open_session", "run_here", "run_plain"]

PROVIDER = "XnnpackExecutionProvider"
Arrays = Mapping[str, np.ndarray[Any, Any]]


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    """A node; names are separated by spaces, ``-`` stands for an absent input."""
    names, made = (["" if name == "-" else name for name in text.split()] for text in (inputs, outputs))
    return helper.make_node(op_type, names, made, **attributes)


def model(
    nodes: Sequence[NodeProto],
    feeds: Arrays,
    constants: Arrays | None = None,
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 20,
    dynamic: bool = False,
    kind: int = TensorProto.FLOAT,
) -> bytes:
    """A model; with `dynamic` only the ranks of its inputs are known, and the sizes of their channels."""
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [size if axis == 1 or not dynamic else f"{name}{axis}" for axis, size in enumerate(array.shape)],
        )
        for name, array in feeds.items()
    ]
    results = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", inputs, results, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def open_session(data: bytes, threads: int = 1, **options: Any) -> ort.InferenceSession:
    """A session in which XNNPACK takes all it can."""
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = threads
    return ort.InferenceSession(
        data,
        chosen,
        providers=[PROVIDER, "CPUExecutionProvider"],
        provider_options=[{"claim_small": True, **options}, {}],
    )


def run_here(data: bytes, feeds: Arrays, threads: int = 1) -> list[Any]:
    """Outputs, after checking that XNNPACK ran every node and that a second run gives the same."""
    with open_session(data, threads) as session:
        others = [(one.op_type, one.refusals) for one in session.placement.nodes if one.provider != PROVIDER]
        assert not others, others
        first = session.run(None, dict(feeds))
        second = session.run(None, dict(feeds))
        assert not session.fallback_report, session.fallback_report
        assert "declined" not in session.plan, session.plan
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    return list(first)


def run_plain(data: bytes, feeds: Arrays) -> list[Any]:
    """Outputs of NumPy's kernels."""
    options = ort.SessionOptions()
    options.pin_cpu = True
    with ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]) as session:
        return list(session.run(None, dict(feeds)))
