"""Feeding an encoder and a decoder, as of T5, BART and Whisper: the source once, then tokens and states.

Comes after `signatures`. The source runs once for each batch entry; what follows from it is repeated for the beams.
"""

from __future__ import annotations

from typing import Any

import numpy as np  # of tokens on the host

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, SubgraphCallable
from ort_py_array.contrib.generation.feeds import Model, last_logits, reordered, repeated
from ort_py_array.contrib.generation.signatures import PairSignature

__all__ = ["PairModel", "source_mask"]


def source_mask(source: Any, mask: Any | None, pad: int) -> Any:
    """The mask that was fed, else 0 for tokens that pad the source on the left and 1 for all others, int32.

    Padding on the right cannot be distinguished from a token that ends the source, which is the same one in some
    vocabularies.
    """
    return np.logical_or.accumulate(source != pad, axis=1).astype(np.int32) if mask is None else mask


class PairModel(Model):
    """One call's encoder and decoder.

    Args:
        ctx: Context of the node.
        signature: Of both.
        encoder: The graph that reads the source.
        decoder: The graph of a step.
        source: Tokens or features, on the device.
        mask: Mask of the source on the host, None where it has none.
        prompt: First tokens of what is generated ``(batch, tokens)``.
        beams: Rows of a batch entry.
        vocabulary: Size of the vocabulary, 0 where the graph decides.
    """

    def __init__(
        self,
        ctx: KernelContext,
        signature: PairSignature,
        encoder: SubgraphCallable,
        decoder: SubgraphCallable,
        source: Array,
        mask: Any | None,
        prompt: Any,
        *,
        beams: int,
        vocabulary: int,
    ) -> None:
        self._ctx, self._signature = ctx, signature
        self._encoder, self._decoder = encoder, decoder
        xp = ctx.xp
        self._source = source
        self._fixed = [xp.asarray(np.ascontiguousarray(mask, np.int32))] if mask is not None else []
        self._prompt = np.ascontiguousarray(prompt, np.int32)
        self._beams, self._vocabulary = beams, vocabulary
        self._past: list[Any] = []
        self._cross: list[Any] = []

    def first(self) -> Any:
        xp, signature = self._ctx.xp, self._signature
        own = 2 * signature.layers
        if signature.starts:
            logits, hidden, *states = self._encoder(self._source, *self._fixed, xp.asarray(self._prompt))
            self._past, self._cross = states[:own], states[own:]
            if signature.hidden:
                self._fixed = [*self._fixed, hidden]
            logits = self._last(logits, self._prompt.shape[0])
        else:
            # The first output may have come to the host, where logits would be.
            self._cross = [xp.asarray(state) for state in self._encoder(self._source, *self._fixed)]
            batch, heads, _, size = self._cross[0].shape
            self._past = [xp.zeros((batch, heads, 0, size), self._cross[0].dtype)] * own
            logits = self._run(self._prompt)
        if self._beams > 1:
            self._fixed, self._past, self._cross = (
                repeated(self._ctx, states, self._beams, 0) for states in (self._fixed, self._past, self._cross)
            )
            logits = np.repeat(logits, self._beams, axis=0)
        return logits

    def next(self, tokens: Any, parents: Any | None, sequences: Any) -> Any:
        # Beams of one batch entry have one source: only states of their own tokens are reordered.
        self._past = [reordered(self._ctx.xp, state, parents, 0) for state in self._past]
        ids = sequences if self._signature.whole else tokens.reshape((-1, 1))
        return self._run(np.ascontiguousarray(ids, np.int32))

    def _run(self, ids: Any) -> Any:
        logits, *self._past = self._decoder(ids, *self._fixed, *self._past, *self._cross)
        return self._last(logits, ids.shape[0])

    def _last(self, logits: Any, rows: int) -> Any:
        return last_logits(logits, rows, self._vocabulary, self._ctx.node.location)
