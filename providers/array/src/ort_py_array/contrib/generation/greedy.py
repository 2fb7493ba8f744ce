"""GreedySearch, and the loop that it shares with Sampling: one token a step for every batch entry.

It is independent of kinds of model (see `models`) and rules about scores (see `processors`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np  # of tokens and scores on the host

from ort_py.contracts.kernel import KernelCallable, KernelContext, kernel
from ort_py_array.contrib.generation.arguments import Lengths, number_of, vocabulary_mask
from ort_py_array.contrib.generation.feeds import Model
from ort_py_array.contrib.generation.models import GPT, GRAPHS, TEXT, Models
from ort_py_array.contrib.generation.processors import (
    Processors,
    forbid_early_end,
    forbid_masked,
    forbid_repeated_ngrams,
    penalise_repetition,
)

__all__ = ["basic_processors", "bind_factory", "generated", "greedy_search"]


def bind_factory(factory: Callable[[KernelContext], KernelCallable], ctx: KernelContext) -> KernelCallable:
    """The ``bind`` of kernels that are written as factories."""
    return factory(ctx)


def basic_processors(
    ctx: KernelContext,
    lengths: Lengths,
    repetition_penalty: Any | None,
    vocab_mask: Any | None,
    prefix_vocab_mask: Any | None,
    shape: tuple[int, int],
    beams: int = 1,
) -> Processors:
    """The processors that all generating operators have, in onnxruntime's order.

    Args:
        ctx: Context of the node.
        lengths: Of the call.
        repetition_penalty: The input.
        vocab_mask: The input ``(vocabulary,)``.
        prefix_vocab_mask: The input ``(batch, vocabulary)``, for the first step only.
        shape: Batch and vocabulary.
        beams: Rows of a batch entry.

    Raises:
        InvalidArgument: The penalty is not positive, a mask has a wrong shape, or an attribute is negative.
    """
    where, attributes = ctx.node.location, ctx.node.attributes
    penalty = number_of("repetition_penalty", repetition_penalty, where, default=1.0, above=0)
    found = Processors()
    if penalty != 1:
        found.add(penalise_repetition(penalty))
    ngram = int(attributes.get("no_repeat_ngram_size", 0))
    if ngram > 0:
        found.add(forbid_repeated_ngrams(ngram))
    mask = vocabulary_mask("vocab_mask", vocab_mask, shape[1:], where)
    if mask is not None:
        found.add(forbid_masked(mask))
    mask = vocabulary_mask("prefix_vocab_mask", prefix_vocab_mask, shape, where)
    if mask is not None:
        found.add(forbid_masked(mask, beams), steps=1)
    end = int(attributes["eos_token_id"])
    if lengths.least > lengths.prompt and 0 <= end < shape[1]:
        found.add(forbid_early_end(lengths.least, end))
    return found


def generated(
    ctx: KernelContext,
    model: Model,
    prompt: Any,
    lengths: Lengths,
    processors: Callable[[tuple[int, int]], Processors],
    choose: Callable[[Any], Any],
) -> Any:
    """Sequences ``(batch, max_length)``, each filled with the padding token after its end.

    The token that ends a sequence is not written: padding stands in its place, as onnxruntime has it.

    Args:
        ctx: Context of the node.
        model: The call's model.
        prompt: Its first tokens.
        lengths: Of the call.
        processors: Makes the processors, once batch and vocabulary are known.
        choose: Tokens ``(batch,)`` for processed scores ``(batch, vocabulary)``.
    """
    attributes = ctx.node.attributes
    end, pad = int(attributes["eos_token_id"]), int(attributes["pad_token_id"])
    batch = prompt.shape[0]
    ctx.check_allocation((batch, lengths.most), np.dtype(np.int32))
    sequences = np.full((batch, lengths.most), pad, np.int32)
    sequences[:, : lengths.prompt] = prompt
    if batch == 0:
        return sequences
    ended = np.zeros(batch, np.bool_)
    scores = model.first()
    process = processors((batch, scores.shape[1]))
    for length in range(lengths.prompt, lengths.most):
        if length > lengths.prompt:
            scores = model.next(sequences[:, length - 1], None, sequences[:, :length])
        process(scores, sequences[:, :length], length - lengths.prompt)
        tokens = choose(scores)
        ended |= tokens == end
        sequences[:, length] = np.where(ended, pad, tokens)
        if ended.all():
            break
    return sequences


@kernel(
    "GreedySearch",
    domain="com.microsoft",
    since=1,
    bind=bind_factory,
    host_inputs=frozenset(range(7)),
    host_outputs=frozenset({0}),
    subgraphs=GRAPHS,
)
def greedy_search(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.GreedySearch-1: the likeliest token at each step; int32 tokens, float32 scores.

    Unlike onnxruntime's, also of models with an encoder (``model_type`` 1).

    Raises:
        InvalidArgument: An input or an attribute has a wrong shape or value.
        InvalidGraph: A graph is missing or has a layout that does not fit.
        LimitError: The sequences would be too large.
    """
    models = Models(ctx, (GPT, TEXT), GPT)

    def run(
        source: Any,
        max_length: Any,
        min_length: Any | None = None,
        repetition_penalty: Any | None = None,
        vocab_mask: Any | None = None,
        prefix_vocab_mask: Any | None = None,
        attention_mask: Any | None = None,
    ) -> Any:
        model, prompt = models.start(source, attention_mask, None, 1)
        lengths = Lengths.read(prompt.shape[1], max_length, min_length, ctx.node.location)

        def processors(shape: tuple[int, int]) -> Processors:
            return basic_processors(ctx, lengths, repetition_penalty, vocab_mask, prefix_vocab_mask, shape)

        return generated(ctx, model, prompt, lengths, processors, lambda scores: scores.argmax(axis=1))

    return run
