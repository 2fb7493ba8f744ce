"""Models of one generating node, and what onnxruntime and this provider give for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import GraphProto, helper

import ort_py
from ort_py.dtypes import data_type_of

__all__ = ["GREEDY_INPUTS", "SEARCH_INPUTS", "WHISPER_INPUTS", "generate", "generation_model", "runtime_generates"]

SEARCH_INPUTS = (
    *("input_ids", "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty"),
    *("repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask", "decoder_input_ids"),
    "logits_processor",
)
WHISPER_INPUTS = (*SEARCH_INPUTS, "cross_qk_layer_head", "extra_decoding_ids", "temperature")
GREEDY_INPUTS = (
    *("input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask"),
    *("attention_mask", "presence_mask", "seed"),
)
_NAMES = {
    "GreedySearch": GREEDY_INPUTS[:-2],
    "Sampling": GREEDY_INPUTS,
    "BeamSearch": SEARCH_INPUTS,
    "WhisperBeamSearch": WHISPER_INPUTS,
}


def _fed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as arrays: whole numbers are int32, other numbers float32, and numbers alone have one axis."""
    arrays = {}
    for name, value in inputs.items():
        array = np.asarray(value)
        if array.dtype.kind in "iu":
            array = array.astype(np.int32)
        elif array.dtype == np.float64:
            array = array.astype(np.float32)
        arrays[name] = array if array.ndim else array.reshape(1)
    return arrays


def generation_model(
    op_type: str,
    inputs: Mapping[str, Any],
    graphs: Mapping[str, GraphProto],
    outputs: Sequence[str] = ("sequences",),
    **attributes: Any,
) -> bytes:
    """A model of one node whose inputs are those given, by the operator's names."""
    fed = _fed(inputs)
    given = [name if name in fed else "" for name in _NAMES[op_type]]
    while not given[-1]:
        given.pop()
    node = helper.make_node(
        op_type, given, list(outputs), "generation", domain="com.microsoft", **attributes, **dict(graphs)
    )
    graph = helper.make_graph(
        [node],
        "one_node",
        [helper.make_tensor_value_info(n, int(data_type_of(v.dtype)), [None] * v.ndim) for n, v in fed.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs if name],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def generate(
    op_type: str,
    inputs: Mapping[str, Any],
    graphs: Mapping[str, GraphProto],
    outputs: Sequence[str] = ("sequences",),
    **attributes: Any,
) -> list[Any]:
    """What this provider gives in a session."""
    model = generation_model(op_type, inputs, graphs, outputs, **attributes)
    with ort_py.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        return list(session.run(None, _fed(inputs)))


def runtime_generates(
    op_type: str,
    inputs: Mapping[str, Any],
    graphs: Mapping[str, GraphProto],
    outputs: Sequence[str] = ("sequences",),
    **attributes: Any,
) -> list[Any]:
    """What onnxruntime gives for the same model on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    model = generation_model(op_type, inputs, graphs, outputs, **attributes)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, _fed(inputs)))
