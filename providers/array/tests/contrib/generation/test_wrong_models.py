"""Inputs, attributes and graphs that do not fit: refused by name, with what would be right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, TensorProto, helper

import ort_py
from ort_py.errors import InvalidArgument, InvalidGraph, LimitError, Location
from ort_py_array.contrib.generation.arguments import number_of
from ort_py_array.contrib.generation.feeds import last_logits

from .graphs import VOCABULARY, decoder, encoder, gpt
from .sessions import generate, generation_model

MARKS: dict[str, Any] = {"eos_token_id": 7, "pad_token_id": 3}
TEXT: dict[str, Any] = {**MARKS, "model_type": 1, "decoder_start_token_id": 2}
PROMPT = np.random.default_rng(0).integers(4, VOCABULARY, (2, 5))
GREEDY: dict[str, Any] = {"input_ids": PROMPT, "max_length": 9}
BEAMS: dict[str, Any] = {**GREEDY, "num_beams": 3, "num_return_sequences": 2}
HERE = Location(node="n", op_type="GreedySearch", domain="com.microsoft")


def _flat(graph: GraphProto) -> GraphProto:
    """The graph without the last of its outputs, which are as many as its states and one."""
    result = GraphProto()
    result.CopyFrom(graph)
    del result.output[-1]
    return result


def _with(graph: GraphProto, *names: str) -> GraphProto:
    """The graph with further inputs that it does not use."""
    result = GraphProto()
    result.CopyFrom(graph)
    result.input.extend(helper.make_tensor_value_info(name, TensorProto.INT32, [1]) for name in names)
    return result


def _loose(graph: GraphProto) -> GraphProto:
    """The graph with states of unknown numbers of heads."""
    result = GraphProto()
    result.CopyFrom(graph)
    for value in result.input:
        if value.name.startswith("past"):
            value.type.tensor_type.shape.dim[2].dim_param = "heads"
    return result


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"max_length": 5}, "'max_length' is 5.*begin with 5 tokens.*at least 6"),
        ({"max_length": [9, 9]}, r"'max_length' has the shape \[2\].*one number"),
        ({"repetition_penalty": 0.0}, "'repetition_penalty' is 0.*greater than 0"),
        ({"repetition_penalty": float("nan")}, "'repetition_penalty' is nan.*greater than 0"),
        ({"vocab_mask": np.ones(5, int)}, r"'vocab_mask' has the shape \[5\].*\[24\]"),
        (
            {"prefix_vocab_mask": np.ones((1, VOCABULARY), int)},
            r"'prefix_vocab_mask' has the shape \[1, 24\].*\[2, 24\]",
        ),
        ({"attention_mask": np.ones((2, 4), int)}, r"'attention_mask' has the shape \[2, 4\].*\[2, 5\]"),
        ({"input_ids": PROMPT[0]}, r"'input_ids' has the shape \[5\].*\[batch\]\[tokens\]"),
        ({"input_ids": PROMPT[:, :0]}, r"'input_ids' has the shape \[2, 0\].*at least one token"),
    ],
)
def test_inputs_of_greedy_search(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"(?s){message}"):
        generate("GreedySearch", {**GREEDY, **inputs}, {"decoder": gpt()}, **MARKS)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"num_beams": 0}, "'num_beams' is 0.*at least 1"),
        ({"num_return_sequences": 0}, "'num_return_sequences' is 0.*at least 1"),
        ({"num_return_sequences": 4}, "'num_return_sequences' is 4, 'num_beams' is 3"),
        ({"logits_processor": 1}, "'logits_processor' is 1.*must be 0"),
        ({"decoder_input_ids": PROMPT}, "'decoder_input_ids' was fed to a model without an encoder"),
    ],
)
def test_inputs_of_beam_search(inputs: dict[str, Any], message: str) -> None:
    """Numbers of beams, and inputs that a decoder alone has no use for."""
    with pytest.raises(InvalidArgument, match=f"(?s){message}"):
        generate("BeamSearch", {**BEAMS, **inputs}, {"decoder": gpt()}, **MARKS)


def test_a_required_number() -> None:
    with pytest.raises(InvalidArgument, match="'max_length' is missing"):
        number_of("max_length", None, HERE)


@pytest.mark.parametrize("shape", [(2, 5), (3, 1, 9), (2, 0, 9), (2, 1, 1), (2, 1, 4)])
def test_logits_of_another_shape(shape: tuple[int, ...]) -> None:
    """The logits must have as many rows as the batch, at least one token and at least the node's vocabulary."""
    with pytest.raises(InvalidArgument, match=r"(?s)logits of the shape .* for 2 sequences.*\[vocabulary\]"):
        last_logits(np.zeros(shape, np.float32), 2, 5 if shape[-1] == 4 else 0, HERE)


@pytest.mark.parametrize(
    ("op_type", "graphs", "attributes", "message"),
    [
        ("GreedySearch", {"decoder": _flat(gpt())}, MARKS, "not a decoder as GreedySearch runs it.*past_0"),
        ("GreedySearch", {"decoder": _loose(gpt())}, MARKS, "known heads and size"),
        ("BeamSearch", {"decoder": _with(gpt(), "past_sequence_length")}, MARKS, "takes 'past_sequence_length'.*GPUs"),
        (
            "BeamSearch",
            {"encoder": encoder(), "decoder": _with(decoder(), "past_seq_len", "num_beams", "cache_indirection")},
            TEXT,
            "takes 'past_seq_len', '.*', 'cache_indirection'.*GPUs",
        ),
        ("BeamSearch", {"decoder": decoder()}, TEXT, "no graph 'encoder'.*'model_type' is 1"),
        (
            "BeamSearch",
            {"encoder": encoder(), "decoder": gpt()},
            TEXT,
            "'decoder' is not a decoder as BeamSearch runs it",
        ),
        ("BeamSearch", {"encoder": gpt(), "decoder": decoder()}, TEXT, "'encoder' is not an encoder.*has 2 layers"),
        (
            "BeamSearch",
            {"encoder": encoder(starts=False), "decoder": decoder(states=True)},
            TEXT,
            "'encoder' is not an encoder",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_graphs_of_another_layout(op_type: str, graphs: Any, attributes: dict[str, Any], message: str) -> None:
    """Are refused when the session is made, with what they look like."""
    inputs = BEAMS if op_type == "BeamSearch" else GREEDY
    model = generation_model(op_type, inputs, graphs, **attributes)
    with pytest.raises(InvalidGraph, match=f"(?s){message}"):
        ort_py.InferenceSession(model, providers=["CPUExecutionProvider"])


def test_two_decoders_that_do_not_fit() -> None:
    """The one that runs the prompt hands its states to the other."""
    graphs = {"decoder": gpt(), "init_decoder": gpt(dtype=np.float16)}
    with pytest.raises(InvalidArgument, match=r"(?s)states of different shapes or types.*one model"):
        generate("GreedySearch", GREEDY, graphs, **MARKS)


def test_an_unknown_kind_of_model() -> None:
    with pytest.raises(InvalidArgument, match=r"(?s)'model_type' is 2.*GreedySearch knows 0, 1"):
        generate("GreedySearch", GREEDY, {"decoder": gpt()}, **{**MARKS, "model_type": 2})


@pytest.mark.parametrize("inputs", [{"max_length": 2**30}, {"num_beams": 2**28}, {"num_beams": 5000}])
def test_what_is_too_large_is_refused(inputs: dict[str, Any]) -> None:
    """Sequences before the models run; states, which only the models tell the size of, before they are repeated."""
    options = ort_py.SessionOptions()
    options.limits = ort_py.Limits(single_allocation_bytes=1 << 20)
    given = {**BEAMS, **inputs}
    model = generation_model("BeamSearch", given, {"decoder": gpt()}, **MARKS)
    feeds = {name: np.atleast_1d(np.asarray(value, np.int32)) for name, value in given.items()}
    session = ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    with session, pytest.raises(LimitError, match="BeamSearch"):
        session.run(None, feeds)
