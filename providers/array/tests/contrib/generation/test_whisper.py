"""WhisperBeamSearch, and BeamSearch of speech, in sessions against onnxruntime with the same random models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py import errors
from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from .graphs import FEATURES, VOCABULARY, decoder, encoder
from .sessions import agree_with_runtime, generate, run_graph

PAD, END = 3, 7
MARKS: dict[str, Any] = {"eos_token_id": END, "pad_token_id": PAD, "decoder_start_token_id": 2}
TASKS: dict[str, Any] = {
    **MARKS,
    "translate_token_id": 4,
    "transcribe_token_id": 5,
    "start_of_lm_token_id": 6,
    "no_timestamps_token_id": 8,
    "beginning_timestamp_token_id": 14,
}
_RANDOM = np.random.default_rng(9)
SPEECH = _RANDOM.standard_normal((2, FEATURES, 6)).astype(np.float32)
BASE: dict[str, Any] = {
    "input_ids": SPEECH,
    "max_length": 14,
    "min_length": 0,
    "num_beams": 4,
    "num_return_sequences": 2,
    "length_penalty": 1.0,
}
START = np.array([[2, 9, 10], [2, 12, 20]])


def _graphs(seed: int = 0, *, states: bool = False, dtype: Any = np.float32) -> dict[str, Any]:
    return {
        "encoder": encoder(seed, dtype, features=True),
        "decoder": decoder(seed, dtype, masked=False, states=states),
    }


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"decoder_input_ids": START},
        {"temperature": 2.5},
        {"temperature": 0.4, "repetition_penalty": 1.7, "min_length": 6},
        {"vocab_mask": np.arange(VOCABULARY) % 3 > 0},
        {"prefix_vocab_mask": _RANDOM.integers(0, 2, (2, VOCABULARY))},
        {"logits_processor": 1},
        {"logits_processor": 1, "decoder_input_ids": START, "max_length": 24},
    ],
    ids=lambda inputs: "-".join(inputs) or "none",
)
@pytest.mark.parametrize("early", [0, 1])
def test_inputs(inputs: dict[str, Any], early: int) -> None:
    """Each does what onnxruntime does with it."""
    given = {**BASE, **{k: v.astype(int) if k == "vocab_mask" else v for k, v in inputs.items()}}
    outputs = ("sequences", "sequences_scores")
    agree_with_runtime("WhisperBeamSearch", given, _graphs(1), outputs, early_stopping=early, **TASKS)


def test_states_of_the_encoder() -> None:
    outputs = ("sequences", "sequences_scores")
    agree_with_runtime("WhisperBeamSearch", BASE, _graphs(1, states=True), outputs, **TASKS)


@pytest.mark.parametrize("seed", range(6))
def test_marks_of_time(seed: int) -> None:
    tasks = {**TASKS, "beginning_timestamp_token_id": 10 + 2 * seed}
    given = {**BASE, "logits_processor": 1, "max_length": 24, "num_return_sequences": 4}
    agree_with_runtime("WhisperBeamSearch", given, _graphs(seed), ("sequences", "sequences_scores"), **tasks)


def test_speech_as_a_beam_search() -> None:
    """The older operator takes it too."""
    outputs = ("sequences", "sequences_scores")
    agree_with_runtime("BeamSearch", BASE, _graphs(1), outputs, model_type=2, **MARKS)


def test_scores_of_all_steps() -> None:
    """Scores of all tokens are returned; the end is masked, so that no step is left out."""
    mask = (np.arange(VOCABULARY) != END).astype(int)
    outputs = ("sequences", "sequences_scores", "scores")
    agree_with_runtime("WhisperBeamSearch", {**BASE, "vocab_mask": mask}, _graphs(1), outputs, **TASKS)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_chance_of_silence(dtype: Any) -> None:
    """The probability of its token after the first ones. (onnxruntime gives 0 on the CPU.)"""
    graphs = _graphs(1, dtype=dtype)
    given = {**BASE, "input_ids": SPEECH.astype(dtype), "length_penalty": dtype(1), "decoder_input_ids": START}
    outputs = ("sequences", "", "", "", "non_speech_probs")
    found = generate("WhisperBeamSearch", given, graphs, outputs, no_speech_token_id=11, **TASKS)[1]
    logits = run_graph(graphs["encoder"], [SPEECH.astype(dtype), START.astype(np.int32)])[0][:, -1].astype(np.float64)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert_close(found, chances[:, 11].astype(dtype))


def test_extra_tokens_are_said_first() -> None:
    """They count as if they were at the end of the first tokens. (onnxruntime heeds them on GPUs only.)"""
    whole = {**BASE, "decoder_input_ids": np.concatenate((START, [[4, 9], [11, 12]]), axis=1)}
    parted = {**BASE, "decoder_input_ids": START, "extra_decoding_ids": [[4, 9], [11, 12]]}
    wanted, found = (generate("WhisperBeamSearch", given, _graphs(1), **TASKS)[0] for given in (whole, parted))
    np.testing.assert_array_equal(found, wanted)


def test_extra_tokens_may_be_fewer_for_an_entry() -> None:
    """The first negative one is their end."""
    given = {**BASE, "extra_decoding_ids": [[4, -1, 5], [11, 12, -1]]}
    (found,) = generate("WhisperBeamSearch", given, _graphs(1), **TASKS)
    for entry, tokens in enumerate(([4], [11, 12])):
        one = {**BASE, "input_ids": SPEECH[entry : entry + 1], "decoder_input_ids": [[2, *tokens]]}
        np.testing.assert_array_equal(
            found[entry : entry + 1], generate("WhisperBeamSearch", one, _graphs(1), **TASKS)[0]
        )


def test_nothing_to_recognise() -> None:
    """A batch without entries gives none."""
    outputs = ("sequences", "sequences_scores", "", "", "non_speech_probs")
    given = {**BASE, "input_ids": SPEECH[:0]}
    found = generate("WhisperBeamSearch", given, _graphs(1), outputs, no_speech_token_id=11, **TASKS)
    assert [value.shape for value in found] == [(0, 2, 14), (0, 2), (0,)]


def test_products_of_attention_are_refused() -> None:
    outputs = ("sequences", "", "", "cross_qk")
    with pytest.raises(errors.NotImplemented, match="cannot give its output 'cross_qk'"):
        generate("WhisperBeamSearch", BASE, _graphs(1), outputs, **TASKS)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ({"input_ids": SPEECH[0]}, {}, r"shape \[5, 6\].*\[batch\]\[features\]\[frames\]"),
        ({"logits_processor": 2}, {}, "'logits_processor' is 2"),
        ({"logits_processor": 1}, {"beginning_timestamp_token_id": VOCABULARY}, "'beginning_timestamp_token_id' is 24"),
        ({"temperature": 0.0}, {}, "'temperature' is 0.*greater than 0"),
        ({"decoder_input_ids": START[:1]}, {}, r"'decoder_input_ids' has the shape \[1, 3\].*\[2, 3\]"),
        ({"extra_decoding_ids": [[1, 2]]}, {}, r"'extra_decoding_ids' has the shape \[1, 2\].*\[2, 2\]"),
        ({}, {"decoder_start_token_id": -1}, "Nothing says what generated sequences begin with"),
        ({}, {"model_type": 1}, "'model_type' is 1.*WhisperBeamSearch knows 2"),
        ({}, {"no_speech_token_id": -1}, "'no_speech_token_id' is -1.*24 tokens"),
    ],
)
def test_wrong_inputs(inputs: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    """Are refused by name, with what would be right."""
    outputs = ("sequences", "", "", "", "non_speech_probs")
    with pytest.raises(InvalidArgument, match=f"(?s){message}"):
        generate("WhisperBeamSearch", {**BASE, **inputs}, _graphs(1), outputs, **{**TASKS, **attributes})


def test_marks_of_time_need_their_tokens() -> None:
    with pytest.raises(InvalidArgument, match=r"(?s)translate_token_id, .*, beginning_timestamp_token_id"):
        generate("WhisperBeamSearch", {**BASE, "logits_processor": 1}, _graphs(1), **MARKS)
