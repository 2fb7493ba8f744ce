"""Small models for the tests, and sessions of the provider that show what ran where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

import ort_py as ort

__all__ = ["MICROSOFT", "PROVIDER", "model", "node", "open_session", "run_here", "run_plain"]

MICROSOFT = "com.microsoft"
PROVIDER = "CoreMLExecutionProvider"
Arrays = Mapping[str, np.ndarray[Any, Any]]


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    """Make a node; names are separated by spaces, ``-`` stands for an absent input."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), **attributes)


def model(
    nodes: Sequence[NodeProto],
    feeds: Arrays,
    constants: Arrays | None = None,
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 20,
    dynamic: bool | frozenset[int] = False,
    kind: int = TensorProto.FLOAT,
) -> bytes:
    """Make a model.

    Args:
        nodes: Its nodes.
        feeds: Arrays of the types and shapes of its inputs.
        constants: Its initializers.
        outputs: Names of its outputs.
        opset: Version of ai.onnx.
        dynamic: Axes of inputs whose sizes the model leaves open; if True, all but the channels.
        kind: Type of its outputs.
    """
    known = frozenset(range(9)) - dynamic if isinstance(dynamic, frozenset) else frozenset({1} if dynamic else range(9))
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [size if axis in known else f"{name}{axis}" for axis, size in enumerate(array.shape)],
        )
        for name, array in feeds.items()
    ]
    results = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", inputs, results, initializers)
    opsets = [helper.make_opsetid("", opset)]
    if any(one.domain == MICROSOFT for one in nodes):
        opsets.append(helper.make_opsetid(MICROSOFT, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def open_session(data: bytes, threads: int = 1, **options: Any) -> ort.InferenceSession:
    """Open a session in which Core ML takes all it can."""
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = threads
    return ort.InferenceSession(
        data,
        chosen,
        providers=[PROVIDER, "CPUExecutionProvider"],
        provider_options=[{"claim_small": True, **options}, {}],
    )


def run_here(data: bytes, feeds: Arrays, threads: int = 1, **options: Any) -> list[Any]:
    """Return the outputs, after checking that Core ML ran every node and that a second run gives the same."""
    with open_session(data, threads, **options) as session:
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
    """Return the outputs of NumPy's kernels."""
    options = ort.SessionOptions()
    options.pin_cpu = True
    with ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]) as session:
        return list(session.run(None, dict(feeds)))
