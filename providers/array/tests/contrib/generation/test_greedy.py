"""GreedySearch in sessions, against onnxruntime with the same random models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py

from .graphs import VOCABULARY, decoder, encoder, gpt
from .sessions import agree_with_runtime, generate, generation_model, run_graph

PAD, END = 3, 7
MARKS: dict[str, Any] = {"eos_token_id": END, "pad_token_id": PAD}
_RANDOM = np.random.default_rng(5)
PROMPT = _RANDOM.integers(4, VOCABULARY, (4, 5))
PADDED = np.where(np.arange(5) < np.array([[0], [1], [3], [0]]), PAD, PROMPT)
HALF = _RANDOM.integers(0, 2, VOCABULARY)
HALVES = _RANDOM.integers(0, 2, (4, VOCABULARY))
HIDING = np.array([[0, 0, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])


@pytest.mark.parametrize("seed", range(4))
def test_the_likeliest_tokens(seed: int) -> None:
    """Several models are used; their sequences end at different steps, or not at all."""
    graphs = {"decoder": gpt(seed)}
    inputs = {"input_ids": PROMPT, "max_length": 16}
    (whole,) = generate("GreedySearch", inputs, graphs, eos_token_id=VOCABULARY, pad_token_id=PAD)
    said = [set(row[5:].tolist()) for row in whole]
    end = min(set.union(*said) - set.intersection(*said))
    agree_with_runtime("GreedySearch", inputs, graphs, eos_token_id=end, pad_token_id=PAD)


@pytest.mark.parametrize(
    "inputs",
    [
        {"input_ids": PADDED},
        {"min_length": 12},
        {"min_length": 99},
        {"repetition_penalty": 3.0},
        {"repetition_penalty": 0.3, "input_ids": PADDED},
        {"vocab_mask": HALF},
        {"prefix_vocab_mask": HALVES},
        {"vocab_mask": HALF, "prefix_vocab_mask": HALVES, "min_length": 9, "repetition_penalty": 1.5},
        {"attention_mask": HIDING},
        {"attention_mask": HIDING, "input_ids": PADDED},
        {"max_length": 6},
    ],
    ids="-".join,
)
def test_inputs(inputs: dict[str, Any]) -> None:
    """Each does what onnxruntime does with it, and so do several at once."""
    given = {"input_ids": PROMPT, "max_length": 14, **inputs}
    agree_with_runtime("GreedySearch", given, {"decoder": gpt(29)}, eos_token_id=0, pad_token_id=PAD)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeated_groups(size: int) -> None:
    """Groups of so many tokens come once."""
    inputs = {"input_ids": PROMPT, "max_length": 20}
    agree_with_runtime(
        "GreedySearch", inputs, {"decoder": gpt(2)}, **{**MARKS, "eos_token_id": VOCABULARY}, no_repeat_ngram_size=size
    )


def test_another_graph_for_the_prompt() -> None:
    graphs = {"decoder": gpt(0), "init_decoder": gpt(1)}
    agree_with_runtime("GreedySearch", {"input_ids": PROMPT, "max_length": 12}, graphs, **MARKS)


def test_weights_outside_of_the_graph() -> None:
    """Exporters keep weights in the graph around, from where the decoder captures them."""
    inputs = {"input_ids": PROMPT, "max_length": 12}
    model = onnx.load_from_string(generation_model("GreedySearch", inputs, {"decoder": gpt(0)}, **MARKS))
    inner = next(attribute.g for attribute in model.graph.node[0].attribute if attribute.name == "decoder")
    model.graph.initializer.extend(inner.initializer)
    del inner.initializer[:]
    with ort_py.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]) as session:
        (moved,) = session.run(None, {"input_ids": PROMPT.astype(np.int32), "max_length": np.array([12], np.int32)})
    np.testing.assert_array_equal(moved, generate("GreedySearch", inputs, {"decoder": gpt(0)}, **MARKS)[0])


def _plain(graph: Any, prompt: Any, most: int, dtype: Any) -> Any:
    """A loop that runs the whole sequence again for every token, on onnxruntime."""
    said = prompt.astype(np.int32)
    empty = [np.zeros((2, len(said), 2, 0, 4), dtype)] * 2
    while said.shape[1] < most:
        places = np.broadcast_to(np.arange(said.shape[1], dtype=np.int32), said.shape)
        logits = run_graph(graph, [said, places, np.ones_like(said), *empty])[0]
        said = np.concatenate((said, logits[:, -1].argmax(axis=1, keepdims=True).astype(np.int32)), axis=1)
    return said


def _until_end(said: Any, prompt: int) -> Any:
    """Replace the first end and the tokens after it by padding."""
    ended = np.logical_or.accumulate(said[:, prompt:] == END, axis=1)
    return np.concatenate((said[:, :prompt], np.where(ended, PAD, said[:, prompt:])), axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_states_give_what_the_whole_sequence_gives(dtype: Any) -> None:
    """Also in float16, which onnxruntime's own search does not support on the CPU."""
    graph = gpt(4, dtype)
    (found,) = generate("GreedySearch", {"input_ids": PROMPT, "max_length": 13}, {"decoder": graph}, **MARKS)
    np.testing.assert_array_equal(found, _until_end(_plain(graph, PROMPT, 13, dtype), 5))


def test_all_sequences_end_early() -> None:
    """The rest is padding. (onnxruntime stops too, and leaves what its memory held.)"""
    graph = gpt(0)
    whole = _plain(graph, PROMPT[:1], 12, np.float32)
    end = int(whole[0, 7])
    inputs = {"input_ids": PROMPT[:1], "max_length": 12}
    (found,) = generate("GreedySearch", inputs, {"decoder": graph}, eos_token_id=end, pad_token_id=PAD)
    first = int(np.flatnonzero(whole[0, 5:] == end)[0]) + 5
    assert found[0].tolist() == [*whole[0, :first].tolist(), *[PAD] * (12 - first)]


def test_a_model_with_an_encoder() -> None:
    """onnxruntime's GreedySearch refuses it. It is a beam search of one beam that returns the likeliest tokens."""
    graphs = {"encoder": encoder(1), "decoder": decoder(1)}
    attributes: dict[str, Any] = {"model_type": 1, "decoder_start_token_id": 2, "eos_token_id": 0, "pad_token_id": PAD}
    (found,) = generate("GreedySearch", {"input_ids": PROMPT, "max_length": 9}, graphs, **attributes)
    said = np.full((4, 1), 2, np.int32)
    source, mask = PROMPT.astype(np.int32), np.ones(PROMPT.shape, np.int32)
    ended = np.zeros(4, np.bool_)
    while said.shape[1] < 9:
        logits = run_graph(encoder(1), [source, mask, said])[0]  # its first step takes any number of tokens
        tokens = logits[:, -1].argmax(axis=1).astype(np.int32)
        ended |= tokens == 0
        said = np.concatenate((said, np.where(ended, PAD, tokens).astype(np.int32)[:, None]), axis=1)
    np.testing.assert_array_equal(found, said)


def test_a_smaller_vocabulary() -> None:
    """Logits beyond `vocab_size` are not looked at, as if they were masked."""
    inputs = {"input_ids": PROMPT, "max_length": 12}
    mask = (np.arange(VOCABULARY) < 16).astype(int)
    (masked,) = generate("GreedySearch", {**inputs, "vocab_mask": mask}, {"decoder": gpt(3)}, **MARKS)
    (cut,) = generate("GreedySearch", inputs, {"decoder": gpt(3)}, vocab_size=16, **MARKS)
    np.testing.assert_array_equal(cut, masked)


def test_nothing_to_generate() -> None:
    """A batch without entries gives none, and runs no graph."""
    (found,) = generate(
        "GreedySearch", {"input_ids": np.zeros((0, 3), int), "max_length": 5}, {"decoder": gpt()}, **MARKS
    )
    assert found.shape == (0, 5)
    assert found.dtype == np.int32


def test_many_threads_call_one_session() -> None:
    """Each gets what belongs to its own prompt: a call's states are its own."""
    model = generation_model("GreedySearch", {"input_ids": PROMPT, "max_length": 9}, {"decoder": gpt(11)}, **MARKS)
    feeds = [{"input_ids": (PROMPT + i).astype(np.int32) % 24, "max_length": np.array([9], np.int32)} for i in range(8)]
    with ort_py.InferenceSession(model, providers=["CPUExecutionProvider"]) as session, ThreadPoolExecutor(8) as pool:
        alone = [session.run(None, feed)[0] for feed in feeds]
        together = list(pool.map(lambda feed: session.run(None, feed)[0], feeds * 4))
    for i, found in enumerate(together):
        np.testing.assert_array_equal(found, alone[i % 8])


def test_schema_is_known() -> None:
    """The model is typed: tokens are int32."""
    model = generation_model("GreedySearch", {"input_ids": PROMPT, "max_length": 9}, {"decoder": gpt()}, **MARKS)
    with ort_py.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        assert session.get_outputs()[0].type == "tensor(int32)"
