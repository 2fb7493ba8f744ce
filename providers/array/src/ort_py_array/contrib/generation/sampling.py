"""Sampling: at each step a token drawn from the likeliest ones.

The loop is GreedySearch's. Numbers are drawn on the host, from the generator of the input ``seed``, else the session's:
no specification says which tokens a seed gives, only how often each comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np  # of scores on the host

from ort_py.contracts.kernel import KernelCallable, KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.generation.arguments import Lengths, matrix_of, number_of
from ort_py_array.contrib.generation.greedy import basic_processors, bind_factory, generated
from ort_py_array.contrib.generation.models import GPT, GRAPHS, TEXT, Models
from ort_py_array.contrib.generation.processors import Processors, divide, penalise_presence

__all__ = ["drawn", "filter_unlikely", "sampling"]


def filter_unlikely(scores: Any, top_p: float, least: int, value: float, *, custom: bool) -> None:
    """Set the scores of all but the likeliest tokens of each row, in place.

    The usual form keeps the fewest tokens whose probabilities add up to more than `top_p` and at least `least`; the
    custom form keeps tokens as long as those before them add up to no more than `top_p`. One token is always kept.

    Args:
        scores: Logits ``(rows, vocabulary)``, float32.
        top_p: Share of the probability.
        least: Tokens that are kept at least.
        value: The score of all others.
        custom: The form.
    """
    size = scores.shape[1]
    ascending = np.sort(scores, axis=1)
    if custom:
        total = np.cumsum(_softmax(ascending[:, ::-1]), axis=1)
        count = size - 1 - np.count_nonzero(total[:, :-1] <= np.float32(top_p), axis=1)
    else:
        total = np.cumsum(_softmax(ascending), axis=1)
        count = np.count_nonzero(total <= np.float32(1 - top_p), axis=1)
        count = np.minimum(count, size - min(max(least, 1), size))
    border = np.take_along_axis(ascending, count[:, None], 1)  # the least score that is kept
    dropped = scores < border
    ties = count - np.count_nonzero(dropped, axis=1)
    if ties.any():  # among equal elements, the first are kept
        equal = scores == border
        dropped |= equal & (np.cumsum(equal[:, ::-1], axis=1)[:, ::-1] <= ties[:, None])
    scores[dropped] = value


def drawn(scores: Any, numbers: Any) -> Any:
    """A token of each row, as probable as its score says; `numbers` are drawn evenly from [0, 1), one per row."""
    total = np.cumsum(_softmax(scores).astype(np.float64), axis=1)
    # Numbers below the last sum: the token found is one that has a chance.
    aim = np.minimum(numbers * total[:, -1], np.nextafter(total[:, -1], 0))
    return np.count_nonzero(total <= aim[:, None], axis=1)


def _softmax(scores: Any) -> Any:
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    return chances


@kernel(
    "Sampling",
    domain="com.microsoft",
    since=1,
    bind=bind_factory,
    outputs=2,
    host_inputs=frozenset(range(9)),
    host_outputs=frozenset({0, 1}),
    subgraphs=GRAPHS,
)
def sampling(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.Sampling-1: tokens drawn from the likeliest ones; int32 tokens, float32 scores.

    ``filtered_logits`` are those of the last step. With the defaults of ``top_p`` and ``min_tokens_to_keep``, both 0,
    the likeliest token is kept, where onnxruntime draws from all tokens evenly. With ``presence_mask``, tokens that are
    drawn count as present from then on, as on onnxruntime's GPUs; its CPU does not penalise presence at all.

    Raises:
        InvalidArgument: An input or an attribute has a wrong shape or value.
        InvalidGraph: A graph is missing or has a layout that does not fit.
        LimitError: The sequences would be too large.
    """
    where, attributes = ctx.node.location, ctx.node.attributes
    models = Models(ctx, (GPT, TEXT), GPT)
    temperature = float(attributes.get("temperature", 1.0))
    if not temperature > 0:
        raise InvalidArgument(
            f"The attribute 'temperature' is {temperature:g}.",
            where=where,
            fix="It must be greater than 0; small values draw the likeliest tokens only.",
        )
    top_p = float(attributes.get("top_p", 0.0))
    least = int(attributes.get("min_tokens_to_keep", 0))
    value = float(attributes.get("filter_value", -1e20))
    custom = bool(attributes.get("custom", 0))
    presence_penalty = float(attributes.get("presence_penalty", 0.0))

    def run(
        source: Any,
        max_length: Any,
        min_length: Any | None = None,
        repetition_penalty: Any | None = None,
        vocab_mask: Any | None = None,
        prefix_vocab_mask: Any | None = None,
        attention_mask: Any | None = None,
        presence_mask: Any | None = None,
        seed: Any | None = None,
    ) -> tuple[Any, Any]:
        model, prompt = models.start(source, attention_mask, None, 1)
        lengths = Lengths.read(prompt.shape[1], max_length, min_length, where)
        generator = ctx.random_generator(None if seed is None else number_of("seed", seed, where))
        filtered = np.zeros((prompt.shape[0], 0), np.float32)
        present = None if presence_mask is None or not presence_penalty else presence_mask.astype(np.float32)

        def processors(shape: tuple[int, int]) -> Processors:
            found = basic_processors(ctx, lengths, repetition_penalty, vocab_mask, prefix_vocab_mask, shape)
            if temperature != 1:
                found.add(divide(temperature))
            matrix_of("presence_mask", presence_mask, shape, where)
            if present is not None:
                found.add(penalise_presence(present, presence_penalty))
            return found

        def choose(scores: Any) -> Any:
            nonlocal filtered
            filter_unlikely(scores, top_p, least, value, custom=custom)
            filtered = scores
            tokens = drawn(scores, generator.random(scores.shape[0]))
            if present is not None:
                present[np.arange(tokens.size), tokens] = 1
            return tokens

        return generated(ctx, model, prompt, lengths, processors, choose), filtered

    return run
