"""The loop of beam search: a call of the model, scores of all continuations, the beams that stay.

What beams do is in `beams`, what changes scores in `processors`, how graphs are fed in the models. It does not depend
on operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np  # of tokens and scores on the host

from ort_py.contracts.kernel import KernelContext
from ort_py.lazy_dataclass import dataclass
from ort_py_array.contrib.generation.arguments import Lengths
from ort_py_array.contrib.generation.beams import BeamRules, Beams
from ort_py_array.contrib.generation.feeds import Model
from ort_py_array.contrib.generation.processors import Processors

__all__ = ["Found", "log_softmax", "search"]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search, on the host; scores are float32.

    Attributes:
        sequences: The best ``(batch, returned, max_length)``, int32.
        totals: Their scores ``(batch, returned)``.
        steps: Scores of all tokens ``(steps, batch, beams, vocabulary)``, None where they were not kept.
        first: Logits of the first step ``(batch × beams, vocabulary)``.
    """

    sequences: Any
    totals: Any
    steps: Any | None
    first: Any


def search(
    ctx: KernelContext,
    model: Model,
    prompt: Any,
    lengths: Lengths,
    rules: BeamRules,
    processors: Callable[[tuple[int, int]], Processors],
    *,
    keep_steps: bool,
) -> Found:
    """Run the search.

    Args:
        ctx: Context of the node.
        model: The call's model.
        prompt: Tokens that the sequences begin with ``(batch, tokens)``.
        lengths: Of the call.
        rules: Of the beams.
        processors: Makes the processors, once batch and vocabulary are known.
        keep_steps: Keep the scores of all tokens at all steps; those of steps that were not needed are 0.
    """
    batch = prompt.shape[0]
    ctx.check_allocation((batch, 2 * rules.beams, lengths.most), np.dtype(np.int32))
    beams = Beams(prompt, lengths.most, rules)
    if batch == 0:
        nothing = np.zeros((lengths.most - lengths.prompt, 0, rules.beams, 0), np.float32)
        return Found(*beams.result(), nothing if keep_steps else None, np.zeros((0, 0), np.float32))
    logits = model.first()
    first, vocabulary = logits, logits.shape[1]
    process = processors((batch, vocabulary))
    steps: Any = None
    if keep_steps:
        shape = (lengths.most - lengths.prompt, batch, rules.beams, vocabulary)
        ctx.check_allocation(shape, np.dtype(np.float32))
        steps = np.zeros(shape, np.float32)
    for step in range(lengths.most - lengths.prompt):
        if step:
            parents = beams.parents if rules.beams > 1 else None
            logits = model.next(beams.tokens, parents, beams.sequences)
        scores = log_softmax(logits)
        process(scores, beams.sequences, step)
        with np.errstate(over="ignore"):  # forbidden twice is minus infinity
            scores += beams.scores[:, None]
        if steps is not None:
            steps[step] = scores.reshape(steps.shape[1:])
        beams.advance(scores)
        if beams.done.all():
            break
    return Found(*beams.result(), steps, first)


def log_softmax(logits: Any) -> Any:
    """Logarithms of the probabilities of each row."""
    with np.errstate(invalid="ignore"):  # logits may be minus infinity; rows of nothing else stay NaN
        shifted = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted
