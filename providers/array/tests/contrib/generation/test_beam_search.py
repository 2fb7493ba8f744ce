"""BeamSearch in sessions, against onnxruntime with the same random models: tokens exactly, scores within tolerances.

onnxruntime demands ``min_length`` and ``length_penalty``, which are optional by its own schema; tests feed them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close

from .graphs import VOCABULARY, decoder, encoder, gpt
from .sessions import agree_with_runtime, generate, run_graph

PAD, END = 3, 7
ALL = ("sequences", "sequences_scores", "scores")
TEXT: dict[str, Any] = {
    "eos_token_id": END,
    "pad_token_id": PAD,
    "model_type": 1,
    "decoder_start_token_id": 2,
}
_RANDOM = np.random.default_rng(8)
PROMPT = _RANDOM.integers(4, VOCABULARY, (3, 4))
PADDED = np.where(np.arange(4) < np.array([[2], [0], [1]]), PAD, PROMPT)
HALF = _RANDOM.integers(0, 2, VOCABULARY)
HALVES = _RANDOM.integers(0, 2, (3, VOCABULARY))
HIDING = np.array([[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]])
BASE: dict[str, Any] = {
    "input_ids": PROMPT,
    "max_length": 12,
    "min_length": 0,
    "num_beams": 4,
    "num_return_sequences": 3,
    "length_penalty": 1.0,
}
PAIRS = {
    "first step in the encoder": lambda: {"encoder": encoder(1), "decoder": decoder(1)},
    "states of the encoder": lambda: {"encoder": encoder(1), "decoder": decoder(1, states=True)},
    "encoder alone": lambda: {"encoder": encoder(1, starts=False), "decoder": decoder(1)},
}

VARIANTS: list[dict[str, Any]] = [
    {"input_ids": PADDED},
    {"num_beams": 1, "num_return_sequences": 1},
    {"num_return_sequences": 1},
    {"num_beams": 11, "num_return_sequences": 11},
    {"length_penalty": 0.0},
    {"length_penalty": 3.0},
    {"length_penalty": -1.5},
    {"min_length": 9},
    {"repetition_penalty": 2.0},
    {"vocab_mask": HALF, "prefix_vocab_mask": HALVES},
    {"attention_mask": HIDING},
    {"attention_mask": HIDING, "input_ids": PADDED, "repetition_penalty": 0.5, "min_length": 7},
]


def _named(inputs: dict[str, Any]) -> str:
    return "-".join(inputs)


@pytest.mark.parametrize("inputs", VARIANTS, ids=_named)
@pytest.mark.parametrize("early", [0, 1])
def test_inputs_with_a_decoder_alone(inputs: dict[str, Any], early: int) -> None:
    """Each does what onnxruntime does with it."""
    agree_with_runtime(
        "BeamSearch",
        {**BASE, **inputs},
        {"decoder": gpt(6)},
        ALL[:2],
        eos_token_id=END,
        pad_token_id=PAD,
        early_stopping=early,
    )


@pytest.mark.parametrize("inputs", VARIANTS, ids=_named)
def test_inputs_with_an_encoder(inputs: dict[str, Any]) -> None:
    """Each does what onnxruntime does with it."""
    agree_with_runtime("BeamSearch", {**BASE, **inputs}, PAIRS["first step in the encoder"](), ALL[:2], **TEXT)


@pytest.mark.parametrize("form", PAIRS)
@pytest.mark.parametrize("early", [0, 1])
def test_forms_of_a_pair(form: str, early: int) -> None:
    """Older and newer exports, in which the encoder runs the decoder's first step or does not."""
    agree_with_runtime("BeamSearch", BASE, PAIRS[form](), ALL[:2], early_stopping=early, **TEXT)


def test_a_decoder_that_is_fed_the_whole_sequence() -> None:
    """Where its tokens are declared to be many, it gets all of them at every step."""
    graphs = {"encoder": encoder(1), "decoder": decoder(1, tokens="tokens")}
    agree_with_runtime("BeamSearch", {**BASE, "max_length": 8}, graphs, ALL[:2], **TEXT)


@pytest.mark.parametrize("seed", range(6))
def test_many_models(seed: int) -> None:
    """Batch entries end at different steps, without an effect on the others."""
    inputs = {**BASE, "num_beams": 2 + seed % 3, "num_return_sequences": 2, "max_length": 20}
    agree_with_runtime("BeamSearch", inputs, {"decoder": gpt(20 + seed)}, ALL[:2], eos_token_id=seed, pad_token_id=PAD)
    graphs = {"encoder": encoder(20 + seed), "decoder": decoder(20 + seed)}
    agree_with_runtime("BeamSearch", inputs, graphs, ALL[:2], **{**TEXT, "eos_token_id": seed})


@pytest.mark.parametrize("graphs", [{"decoder": gpt(6)}, PAIRS["first step in the encoder"]()], ids=["alone", "pair"])
def test_scores_of_all_steps(graphs: dict[str, Any]) -> None:
    """Scores of all tokens are returned; the end is masked, so that no step is left out."""
    mask = np.arange(VOCABULARY) != END
    kind = TEXT if "encoder" in graphs else {"eos_token_id": END, "pad_token_id": PAD}
    agree_with_runtime("BeamSearch", {**BASE, "vocab_mask": mask.astype(int)}, graphs, ALL, **kind)


def test_steps_that_were_not_needed_have_no_scores() -> None:
    """They are 0. (onnxruntime leaves what its memory held.)"""
    inputs = {**BASE, "num_beams": 1, "num_return_sequences": 1, "input_ids": PROMPT[:1], "max_length": 9}
    plain = generate("BeamSearch", inputs, {"decoder": gpt(6)}, eos_token_id=VOCABULARY, pad_token_id=PAD)[0]
    end = int(plain[0, 0, 4])  # what it would say first
    found = generate(
        "BeamSearch", inputs, {"decoder": gpt(6)}, ALL, eos_token_id=end, pad_token_id=PAD, early_stopping=1
    )
    assert found[0].tolist() == [[[*PROMPT[0].tolist(), *[PAD] * 5]]]
    assert found[2].shape == (5, 1, 1, VOCABULARY)
    assert found[2][0].all()
    assert not found[2][1:].any()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeated_groups(size: int) -> None:
    """Groups of so many tokens come once in a beam."""
    agree_with_runtime(
        "BeamSearch", BASE, {"decoder": gpt(6)}, ALL[:2], **{**TEXT, "model_type": 0}, no_repeat_ngram_size=size
    )


def test_another_graph_for_the_prompt() -> None:
    graphs = {"decoder": gpt(0), "init_decoder": gpt(1)}
    agree_with_runtime("BeamSearch", BASE, graphs, ALL[:2], eos_token_id=END, pad_token_id=PAD)


def test_optional_numbers() -> None:
    """Without them: no least length, and scores divided by the length."""
    given = {name: value for name, value in BASE.items() if name not in ("min_length", "length_penalty")}
    for left, right in zip(
        generate("BeamSearch", given, {"decoder": gpt(6)}, ALL, eos_token_id=END, pad_token_id=PAD),
        generate("BeamSearch", BASE, {"decoder": gpt(6)}, ALL, eos_token_id=END, pad_token_id=PAD),
        strict=True,
    ):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("alone", [True, False])
def test_float16(alone: bool) -> None:
    """States and logits in float16, which onnxruntime has on GPUs only: nearly what float32 gives, in float16."""
    half, single = (
        {"decoder": gpt(6, dtype)} if alone else {"encoder": encoder(8, dtype), "decoder": decoder(8, dtype)}
        for dtype in (np.float16, np.float32)
    )
    kind = {**TEXT, "model_type": 0 if alone else 1}
    inputs = {**BASE, "length_penalty": np.float16(1.0)}
    found = generate("BeamSearch", inputs, half, ALL, **kind)
    wanted = generate("BeamSearch", BASE, single, ALL, **kind)
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[1].dtype == found[2].dtype == np.float16
    # A dozen float16 steps of a model with weights of this size: not a rounding, but far below what parts two beams.
    np.testing.assert_allclose(found[1], wanted[1], atol=2e-2)


def test_the_shortest_sequences() -> None:
    """One token more than the start, where the decoder never runs. (onnxruntime 1.31 runs it, without inputs.)"""
    graphs = PAIRS["first step in the encoder"]()
    inputs = {**BASE, "max_length": 2, "num_beams": 3}
    found = generate("BeamSearch", inputs, graphs, ALL, **{**TEXT, "eos_token_id": VOCABULARY})
    source = PROMPT.astype(np.int32)
    logits = run_graph(graphs["encoder"], [source, np.ones_like(source), np.full((3, 1), 2, np.int32)])[0][:, -1]
    chances = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    order = np.argsort(-chances, axis=1)[:, :3]
    np.testing.assert_array_equal(found[0][:, :, 1], order)
    assert_close(found[1], np.take_along_axis(chances, order, 1) / 2)


def test_first_tokens_of_a_pair() -> None:
    """`decoder_input_ids` are what sequences begin with. (onnxruntime takes them for speech only.)"""
    graphs = PAIRS["first step in the encoder"]()
    one = {**BASE, "num_beams": 1, "num_return_sequences": 1, "max_length": 9}
    start = np.array([[2, 9, 10], [2, 9, 11], [2, 4, 5]])
    (found,) = generate(
        "BeamSearch", {**one, "decoder_input_ids": start}, graphs, **{**TEXT, "eos_token_id": VOCABULARY}
    )
    said, source = start.astype(np.int32), PROMPT.astype(np.int32)
    while said.shape[1] < 9:
        logits = run_graph(graphs["encoder"], [source, np.ones_like(source), said])[0]
        said = np.concatenate((said, logits[:, -1].argmax(axis=1, keepdims=True).astype(np.int32)), axis=1)
    np.testing.assert_array_equal(found[:, 0], said)


@pytest.mark.parametrize("outputs", [ALL[:1], ALL[:2], ("sequences", "", "scores"), ALL])
def test_outputs_that_are_not_asked_for(outputs: tuple[str, ...]) -> None:
    """Are not made, and change nothing about the others."""
    everything = dict(
        zip(
            ALL, generate("BeamSearch", BASE, {"decoder": gpt(6)}, ALL, eos_token_id=END, pad_token_id=PAD), strict=True
        )
    )
    found = generate("BeamSearch", BASE, {"decoder": gpt(6)}, outputs, eos_token_id=END, pad_token_id=PAD)
    for name, value in zip(filter(None, outputs), found, strict=True):
        np.testing.assert_array_equal(value, everything[name])


def test_nothing_to_generate() -> None:
    """A batch without entries gives none."""
    inputs = {**BASE, "input_ids": PROMPT[:0]}
    found = generate("BeamSearch", inputs, {"decoder": gpt(6)}, ALL, eos_token_id=END, pad_token_id=PAD)
    assert [value.shape for value in found] == [(0, 3, 12), (0, 3), (8, 0, 4, 0)]
