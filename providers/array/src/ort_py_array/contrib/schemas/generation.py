"""Schemas of the operators that generate text: GreedySearch, Sampling, BeamSearch and WhisperBeamSearch."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import GraphView, NodeSpec
from ort_py.dtypes import Dim, Shape
from ort_py_array.contrib.schemas.notation import dims, operator

__all__ = ["SCHEMAS"]


def _batch(node: NodeSpec) -> Dim:
    data = dims(node, 0)
    return data[0] if data else None


def _one_each(node: NodeSpec) -> Sequence[Shape | None]:
    """Sequences (batch, max_length), logits (batch, vocabulary)."""
    return (_batch(node), None), (_batch(node), None)


def _several_each(node: NodeSpec) -> Sequence[Shape | None]:
    """Sequences (batch, returned, max_length), their scores, scores of steps, products of attention, silence."""
    batch = _batch(node)
    return (batch, None, None), (batch, None), (None, batch, None, None), (batch, None, None, None, None), (batch,)


_GREEDY = (
    "input_ids: I, max_length: I, min_length: I?, repetition_penalty: T?, vocab_mask: I?, prefix_vocab_mask: I?, "
    "attention_mask: I?"
)
_BEAMS = (
    "input_ids: F, max_length: I, min_length: I?, num_beams: I, num_return_sequences: I, length_penalty: T?, "
    "repetition_penalty: T?, vocab_mask: M?, prefix_vocab_mask: M?, attention_mask: I?, decoder_input_ids: I?, "
    "logits_processor: I?"
)
_COMMON = {
    "decoder": GraphView,
    "decoder_start_token_id": -1,
    "encoder": GraphView | None,
    "eos_token_id": int,
    "init_decoder": GraphView | None,
    "no_repeat_ngram_size": 0,
    "pad_token_id": int,
    "vocab_size": -1,
}

SCHEMAS = [
    operator(
        "GreedySearch",
        _GREEDY,
        "sequences: I",
        attributes={**_COMMON, "model_type": 0},
        shapes=_one_each,
        I="int32",
        T="float",
    ),
    operator(
        "Sampling",
        f"{_GREEDY}, presence_mask: I?, seed: I?",
        "sequences: I, filtered_logits: T?",
        attributes={
            **_COMMON,
            "custom": 0,
            "filter_value": -1e20,
            "min_tokens_to_keep": 0,
            "model_type": 0,
            "presence_penalty": 0.0,
            "temperature": 1.0,
            "top_p": 0.0,
        },
        shapes=_one_each,
        I="int32",
        T="float",
    ),
    operator(
        "BeamSearch",
        _BEAMS,
        "sequences: I, sequences_scores: T?, scores: T?",
        attributes={**_COMMON, "early_stopping": 0, "model_type": 0},
        shapes=_several_each,
        F="float int32 float16",
        I="int32",
        M="int32",
        T="float float16",
    ),
    operator(
        "WhisperBeamSearch",
        f"{_BEAMS}, cross_qk_layer_head: I?, extra_decoding_ids: I?, temperature: T?",
        "sequences: I, sequences_scores: T?, scores: T?, cross_qk: V?, non_speech_probs: T?",
        attributes={
            **_COMMON,
            "beginning_timestamp_token_id": int | None,
            "decoder_output_cross_qk": int | None,
            "early_stopping": 0,
            "model_type": 2,
            "no_speech_token_id": int | None,
            "no_timestamps_token_id": int | None,
            "start_of_lm_token_id": int | None,
            "transcribe_token_id": int | None,
            "translate_token_id": int | None,
        },
        shapes=_several_each,
        F="float int32 float16",
        I="int32",
        M="int32",
        T="float float16",
        V="float",
    ),
]
