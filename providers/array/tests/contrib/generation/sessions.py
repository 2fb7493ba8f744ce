"""Models of one generating node, and what onnxruntime and this provider give for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import GraphProto, helper

import ort_py
from ort_py.dtypes import data_type_of
from ort_py_kit.tolerances import assert_close

__all__ = ["agree_with_runtime", "generate", "generation_model", "run_graph", "runtime_generates"]

_SEARCH = (
    *("input_ids", "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty"),
    *("repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask", "decoder_input_ids"),
    "logits_processor",
)
_WHISPER = (*_SEARCH, "cross_qk_layer_head", "extra_decoding_ids", "temperature")
_GREEDY = (
    *("input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask"),
    *("attention_mask", "presence_mask", "seed"),
)
_BATCHED = ("input_ids", "prefix_vocab_mask", "attention_mask", "decoder_input_ids", "extra_decoding_ids")
_NAMES = {
    "GreedySearch": _GREEDY[:-2],
    "Sampling": _GREEDY,
    "BeamSearch": _SEARCH,
    "WhisperBeamSearch": _WHISPER,
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
    held: dict[str, Any] = {**attributes, **graphs}
    node = helper.make_node(op_type, given, list(outputs), "generation", domain="com.microsoft", **held)
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
    """Results of this provider in a session."""
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
    """Results of onnxruntime for the same model on one thread."""
    return _runtime(generation_model(op_type, inputs, graphs, outputs, **attributes), _fed(inputs))


def agree_with_runtime(
    op_type: str,
    inputs: Mapping[str, Any],
    graphs: Mapping[str, GraphProto],
    outputs: Sequence[str] = ("sequences",),
    **attributes: Any,
) -> list[Any]:
    """Assert that both give the same tokens, and scores within the tolerances; what this provider gives.

    For a beam search, entries of a batch are fed to onnxruntime one by one: it compares the finished sequences of entry
    i with continuations of entry i / 2 (they are twice as many an entry as it steps by), so that an entry may be done
    too early or too late where others are before it.

    Raises:
        AssertionError: They do not.
    """
    ours = generate(op_type, inputs, graphs, outputs, **attributes)
    parts = [dict(inputs)]
    if ours[0].ndim == 2:  # where all sequences end early, onnxruntime leaves what its memory held
        assert (ours[0][:, -1] != attributes["pad_token_id"]).any()
    if op_type.endswith("BeamSearch"):
        parts = [
            {name: value[entry : entry + 1] if name in _BATCHED else value for name, value in inputs.items()}
            for entry in range(len(inputs["input_ids"]))
        ]
    found = [runtime_generates(op_type, part, graphs, outputs, **attributes) for part in parts]
    theirs = [
        np.concatenate(values, axis=1 if name == "scores" else 0)
        for name, values in zip(outputs, zip(*found, strict=True), strict=True)
    ]
    np.testing.assert_array_equal(ours[0], theirs[0])
    for name, left, right in zip(outputs[1:], ours[1:], theirs[1:], strict=True):
        assert_close(left, right, context=f"{op_type} output {name}")
    return ours


def run_graph(graph: GraphProto, inputs: Sequence[Any]) -> list[Any]:
    """Results of onnxruntime for a graph alone."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {value.name: array for value, array in zip(graph.input, inputs, strict=True)}
    return _runtime(model.SerializeToString(), feeds)


def _runtime(model: bytes, feeds: Mapping[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))
