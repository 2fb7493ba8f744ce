"""Small models for the tests, and sessions of the provider that show what ran where, whatever the processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

import ort_py as ort
from ort_py_onednn.binding.features import NO_EXACT_INTEGERS, has_exact_integers

__all__ = ["PROVIDER", "model", "narrow_weights", "node", "open_session", "run_here", "run_plain"]

PROVIDER = "DnnlExecutionProvider"
Arrays = Mapping[str, np.ndarray[Any, Any]]


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """A node; names are separated by spaces, ``-`` stands for an absent input."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), **attributes)


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
    """A model with outputs of one kind, float32; with `dynamic` only the ranks of its inputs are known."""
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}{axis}" for axis in range(array.ndim)] if dynamic else array.shape,
        )
        for name, array in feeds.items()
    ]
    results = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", inputs, results, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def narrow_weights(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Weights of int8 that use 7 bits, for comparisons with onnxruntime.

    On processors with AVX2 only, onnxruntime adds pairs of products of uint8 and int8 in 16 bits, where they saturate.
    A pair of these stays within: 2 · 255 · 64 < 2¹⁵. Where the exact result is known in another way, use all 8 bits.
    """
    return rng.integers(-64, 64, tuple(shape)).astype(np.int8)


def open_session(
    data: bytes, threads: int = 1, precision: str = "float32", *, fast_math: bool = False
) -> ort.InferenceSession:
    """A session in which oneDNN takes all it can."""
    options = ort.SessionOptions()
    options.fast_math = fast_math
    options.intra_op_num_threads = threads
    return ort.InferenceSession(
        data,
        options,
        providers=[PROVIDER, "CPUExecutionProvider"],
        provider_options=[{"claim_small": True, "precision": precision}, {}],
    )


def run_here(data: bytes, feeds: Arrays, threads: int = 1, precision: str = "float32") -> list[Any]:
    """Outputs, after checking that oneDNN ran every node and that a second run gives the same.

    On a processor without exact products of integers, the provider leaves those products, and nothing else, to others.
    """
    with open_session(data, threads, precision) as session:
        others = [(one.op_type, one.refusals) for one in session.placement.nodes if one.provider != PROVIDER]
        assert all(_lacks_exact_integers(refusals) for _, refusals in others), others
        first = session.run(None, dict(feeds))
        second = session.run(None, dict(feeds))
        assert not session.fallback_report, session.fallback_report
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    return list(first)


def _lacks_exact_integers(refusals: Sequence[tuple[str, str]]) -> bool:
    reasons = {why for name, why in refusals if name == PROVIDER}
    return not has_exact_integers() and reasons == {NO_EXACT_INTEGERS}


def run_plain(data: bytes, feeds: Arrays) -> list[Any]:
    """Outputs of onnxruntime."""
    import onnxruntime

    return list(onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, dict(feeds)))
