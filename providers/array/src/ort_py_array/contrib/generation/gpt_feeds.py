"""Feeding a decoder that is alone, as GPT-2 is: tokens, their positions, a mask, and states of all earlier tokens.

Comes after `signatures`. The prompt runs once for each batch entry; its states are then repeated for the beams.
"""

from __future__ import annotations

from typing import Any

import numpy as np  # of tokens on the host

from ort_py.contracts.kernel import KernelContext, SubgraphCallable
from ort_py_array.contrib.generation.feeds import Model, last_logits, reordered, repeated
from ort_py_array.contrib.generation.signatures import GptSignature

__all__ = ["GptModel"]


class GptModel(Model):
    """One call's decoder.

    Args:
        ctx: Context of the node.
        signature: Of the decoder.
        decoder: The graph.
        start: The graph that runs the prompt; often the same.
        prompt: Tokens ``(batch, tokens)``.
        mask: 0 where a token of the prompt must not be seen; where None, tokens that pad the prompt are hidden.
        pad: Token that pads.
        beams: Rows of a batch entry.
        vocabulary: Size of the vocabulary, 0 where the graph decides.
    """

    def __init__(
        self,
        ctx: KernelContext,
        signature: GptSignature,
        decoder: SubgraphCallable,
        start: SubgraphCallable,
        prompt: Any,
        mask: Any | None,
        *,
        pad: int,
        beams: int,
        vocabulary: int,
    ) -> None:
        self._ctx, self._signature = ctx, signature
        self._decoder, self._start = decoder, start
        self._prompt = np.ascontiguousarray(prompt, np.int32)
        self._beams, self._vocabulary = beams, vocabulary
        words = self._prompt != pad
        # Positions follow the tokens, whatever the mask hides: padding is at 0 and is not counted.
        self._places = np.where(words, np.cumsum(words, axis=1) - 1, 0).astype(np.int32)
        self._next = np.count_nonzero(words, axis=1).astype(np.int32)
        self._mask = np.ascontiguousarray(words if mask is None else mask, np.int32)
        self._past: list[Any] = []

    def first(self) -> Any:
        xp, signature = self._ctx.xp, self._signature
        batch = self._prompt.shape[0]
        empty = xp.zeros((2, batch, signature.heads, 0, signature.size), signature.dtype)
        self._past = [empty] * signature.layers
        logits = self._run(self._start, self._prompt, self._places)
        if self._beams > 1:
            self._past = repeated(self._ctx, self._past, self._beams, 1)
            self._mask, self._next = (np.repeat(x, self._beams, axis=0) for x in (self._mask, self._next))
            logits = np.repeat(logits, self._beams, axis=0)
        return logits

    def next(self, tokens: Any, parents: Any | None, sequences: Any) -> Any:
        self._past = [reordered(self._ctx.xp, state, parents, 1) for state in self._past]
        # Beams of one batch entry have one prompt, so positions and masks need no reordering.
        ids = np.ascontiguousarray(tokens, np.int32).reshape((-1, 1))
        self._mask = np.concatenate((self._mask, np.ones_like(ids)), axis=1)
        logits = self._run(self._decoder, ids, self._next.reshape((-1, 1)))
        self._next = self._next + np.int32(1)
        return logits

    def _run(self, graph: SubgraphCallable, ids: Any, places: Any) -> Any:
        xp = self._ctx.xp
        logits, *self._past = graph(ids, xp.asarray(places), xp.asarray(self._mask), *self._past)
        return last_logits(logits, ids.shape[0], self._vocabulary, self._ctx.node.location)
