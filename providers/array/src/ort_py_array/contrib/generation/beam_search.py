"""BeamSearch and WhisperBeamSearch: the sequences whose tokens are likeliest together, among the few kept at each step.

Inputs and attributes are read here, the loop is in `search`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np  # of tokens and scores on the host

from ort_py import errors
from ort_py.contracts.kernel import KernelCallable, KernelContext, kernel
from ort_py_array.contrib.generation.arguments import Lengths, matrix_of, number_of, prompt_of, token_of
from ort_py_array.contrib.generation.beams import BeamRules
from ort_py_array.contrib.generation.greedy import basic_processors, bind_factory
from ort_py_array.contrib.generation.models import GPT, GRAPHS, SPEECH, TEXT, Models
from ort_py_array.contrib.generation.processors import Processors, Timestamps, divide, force_tokens
from ort_py_array.contrib.generation.search import Found, log_softmax, search

__all__ = ["beam_search", "whisper_beam_search"]


def _rules(ctx: KernelContext, num_beams: Any, num_return_sequences: Any, length_penalty: Any | None) -> BeamRules:
    where, attributes = ctx.node.location, ctx.node.attributes
    beams = int(number_of("num_beams", num_beams, where, least=1))
    returned = int(number_of("num_return_sequences", num_return_sequences, where, least=1))
    if returned > beams:
        raise errors.InvalidArgument(
            f"'num_return_sequences' is {returned}, 'num_beams' is {beams}.",
            where=where,
            why="a search finds as many sequences as it has beams",
            fix="Feed more beams, or ask for fewer sequences.",
        )
    return BeamRules(
        beams,
        returned,
        number_of("length_penalty", length_penalty, where, default=1.0),
        int(attributes.get("early_stopping", 0)) == 1,
        int(attributes["eos_token_id"]),
        int(attributes["pad_token_id"]),
    )


def _score_type(*inputs: Any | None) -> Any:
    """Type of the scores: that of the inputs of numbers, float32 where none is fed."""
    return next((value.dtype for value in inputs if value is not None), np.dtype(np.float32))


def _timestamps(ctx: KernelContext, kind: int, logits_processor: Any | None, vocabulary: int) -> Timestamps | None:
    """The rules that ``logits_processor`` asks for, None where it asks for none."""
    where, attributes = ctx.node.location, ctx.node.attributes
    wanted = int(number_of("logits_processor", logits_processor, where, default=0))
    if wanted == 0:
        return None
    if wanted != 1 or kind != SPEECH:
        raise errors.InvalidArgument(
            f"The input 'logits_processor' is {wanted}.",
            where=where,
            fix="It must be 0, or for a model of speech 1: rules for marks of time.",
        )
    names = ("translate_token_id", "transcribe_token_id", "start_of_lm_token_id", "no_timestamps_token_id")
    missing = [name for name in (*names, "beginning_timestamp_token_id") if name not in attributes]
    if missing:
        raise errors.InvalidArgument(
            f"Rules for marks of time need the attributes {', '.join(missing)}.",
            where=where,
            why="the input 'logits_processor' is 1",
            fix="Export the model again with them, or feed 0.",
        )
    begin = token_of("beginning_timestamp_token_id", int(attributes["beginning_timestamp_token_id"]), vocabulary, where)
    start = int(attributes.get("decoder_start_token_id", -1))
    translate, transcribe, language_model, none = (int(attributes[name]) for name in names)
    return Timestamps(int(attributes["eos_token_id"]), start, translate, transcribe, language_model, none, begin)


@kernel(
    "BeamSearch",
    domain="com.microsoft",
    since=1,
    bind=bind_factory,
    outputs=3,
    host_inputs=frozenset(range(12)),
    host_outputs=frozenset(range(3)),
    subgraphs=GRAPHS,
)
def beam_search(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.BeamSearch-1: the likeliest sequences, their scores, and the scores of all tokens at all steps.

    Graphs may give float16 or float32; scores are computed in float32.

    Raises:
        InvalidArgument: An input or an attribute has a wrong shape or value.
        InvalidGraph: A graph is missing or has a layout that does not fit.
        LimitError: The sequences or the scores would be too large.
    """
    find = _searcher(ctx, Models(ctx, (GPT, TEXT, SPEECH), GPT))

    def run(source: Any, *inputs: Any) -> tuple[Any, ...]:
        found, dtype = find(source, *inputs)
        return found.sequences, *_scores(found, dtype)

    return run


@kernel(
    "WhisperBeamSearch",
    domain="com.microsoft",
    since=1,
    bind=bind_factory,
    outputs=5,
    host_inputs=frozenset(range(1, 15)),
    host_outputs=frozenset(range(5)),
    subgraphs=GRAPHS,
)
def whisper_beam_search(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.WhisperBeamSearch-1: as `beam_search`, of speech, with the chance that there is none.

    Tokens in ``extra_decoding_ids`` are what generation must begin with. The output ``cross_qk`` is refused.

    Raises:
        InvalidArgument: An input or an attribute has a wrong shape or value.
        InvalidGraph: A graph is missing or has a layout that does not fit.
        LimitError: The sequences or the scores would be too large.
        NotImplemented: The node has the output ``cross_qk``.
    """
    node = ctx.node
    if len(node.outputs) > 3 and node.outputs[3] is not None:
        raise errors.NotImplemented(
            "WhisperBeamSearch cannot give its output 'cross_qk' here.",
            where=node.location,
            why="its decoder would have to give the products of its cross-attention, which only exports for GPUs do",
            fix="Export the model without collecting cross_qk, or remove the output.",
        )
    find = _searcher(ctx, Models(ctx, (SPEECH,), SPEECH))
    silence = len(node.outputs) > 4 and node.outputs[4] is not None

    def run(source: Any, *inputs: Any) -> tuple[Any, ...]:
        found, dtype = find(source, *inputs)
        return found.sequences, *_scores(found, dtype), None, _silence(found, dtype) if silence else None

    def _silence(found: Found, dtype: Any) -> Any:
        batch = found.sequences.shape[0]
        if batch == 0:
            return np.zeros(0, dtype)
        token = int(node.attributes.get("no_speech_token_id", -1))
        token_of("no_speech_token_id", token, found.first.shape[1], node.location)
        chances = np.exp(log_softmax(found.first)[:, token])
        return chances.reshape((batch, -1))[:, 0].astype(dtype)

    return run


def _scores(found: Found, dtype: Any) -> tuple[Any, Any]:
    steps = None if found.steps is None else found.steps.astype(dtype, copy=False)
    return found.totals.astype(dtype, copy=False), steps


def _searcher(ctx: KernelContext, models: Models) -> Callable[..., tuple[Found, Any]]:
    """The search of both operators, with the inputs in the order of WhisperBeamSearch."""
    where, node = ctx.node.location, ctx.node
    keep_steps = len(node.outputs) > 2 and node.outputs[2] is not None

    def run(
        source: Any,
        max_length: Any,
        min_length: Any | None,
        num_beams: Any,
        num_return_sequences: Any,
        length_penalty: Any | None = None,
        repetition_penalty: Any | None = None,
        vocab_mask: Any | None = None,
        prefix_vocab_mask: Any | None = None,
        attention_mask: Any | None = None,
        decoder_input_ids: Any | None = None,
        logits_processor: Any | None = None,
        _cross_qk_layer_head: Any | None = None,
        extra_decoding_ids: Any | None = None,
        temperature: Any | None = None,
    ) -> tuple[Found, Any]:
        rules = _rules(ctx, num_beams, num_return_sequences, length_penalty)
        model, prompt = models.start(source, attention_mask, decoder_input_ids, rules.beams)
        lengths = Lengths.read(prompt.shape[1], max_length, min_length, where)
        heat = number_of("temperature", temperature, where, default=1.0, above=0)

        def processors(shape: tuple[int, int]) -> Processors:
            found = basic_processors(
                ctx, lengths, repetition_penalty, vocab_mask, prefix_vocab_mask, shape, rules.beams
            )
            if heat != 1:
                found.add(divide(heat))
            marks = _timestamps(ctx, models.kind, logits_processor, shape[1])
            if marks is not None:
                found.add(marks)
            if extra_decoding_ids is not None and extra_decoding_ids.size:
                wanted = prompt_of("extra_decoding_ids", extra_decoding_ids, where)
                matrix_of("extra_decoding_ids", wanted, (shape[0], wanted.shape[1]), where)
                found.add(force_tokens(wanted, lengths.prompt, rules.beams))
            return found

        found = search(ctx, model, prompt, lengths, rules, processors, keep_steps=keep_steps)
        return found, _score_type(length_penalty, repetition_penalty, temperature)

    return run
