"""The kind of model that a node holds, and the model of a call, made from its inputs.

`Models` is made when the node is bound: it reads the graphs' signatures once. Comes after `signatures`, before the
loops; they see a `Model` and its prompt only.
"""

from __future__ import annotations

from typing import Any

import numpy as np  # of tokens on the host

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, Subgraph, SubgraphCallable
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.generation.arguments import matrix_of, prompt_of
from ort_py_array.contrib.generation.feeds import Model
from ort_py_array.contrib.generation.gpt_feeds import GptModel
from ort_py_array.contrib.generation.pair_feeds import PairModel, source_mask
from ort_py_array.contrib.generation.signatures import gpt_signature, pair_signature

__all__ = ["GPT", "GRAPHS", "SPEECH", "TEXT", "Models"]

GPT, TEXT, SPEECH = 0, 1, 2
"""Values of ``model_type``: a decoder alone, and an encoder and a decoder of text or of speech."""

GRAPHS = (
    Subgraph("decoder", host_inputs=frozenset({0}), host_outputs=frozenset({0})),
    Subgraph("init_decoder", host_inputs=frozenset({0}), host_outputs=frozenset({0})),
    Subgraph("encoder", host_outputs=frozenset({0})),
)
"""Tokens go in and logits come out on the host; all else is where the provider has its arrays."""


class Models:
    """The models of one node.

    Attributes:
        kind: Its ``model_type``.
    """

    __slots__ = ("_ctx", "_gpt", "_graphs", "_pad", "_pair", "_start", "_vocabulary", "kind")

    def __init__(self, ctx: KernelContext, kinds: tuple[int, ...], default: int) -> None:
        """Read the graphs of a node.

        Args:
            ctx: Its context.
            kinds: Values of ``model_type`` that the operator has.
            default: Its default.

        Raises:
            InvalidArgument: ``model_type`` has another value.
            InvalidGraph: A graph is missing or has a layout that does not fit.
        """
        attributes = ctx.node.attributes
        self._ctx = ctx
        self.kind = int(attributes.get("model_type", default))
        if self.kind not in kinds:
            raise InvalidArgument(
                f"The attribute 'model_type' is {self.kind}.",
                where=ctx.node.location,
                fix=f"{ctx.node.op_type} knows {', '.join(map(str, kinds))}: 0 is a decoder alone, as GPT-2; 1 an "
                "encoder and a decoder of text, as T5; 2 of speech, as Whisper.",
            )
        self._pad = int(attributes["pad_token_id"])
        self._start = int(attributes.get("decoder_start_token_id", -1))
        self._vocabulary = max(0, int(attributes.get("vocab_size", -1)))
        self._gpt = self._pair = None
        if self.kind == GPT:
            self._gpt = gpt_signature(ctx, "decoder")
            if "init_decoder" in attributes and gpt_signature(ctx, "init_decoder") != self._gpt:
                raise InvalidArgument(
                    "The graphs 'decoder' and 'init_decoder' have states of different shapes or types.",
                    where=ctx.node.location,
                    fix="Export both from one model: they hand states to each other.",
                )
        else:
            self._pair = pair_signature(ctx, masked=self.kind == TEXT)
        self._graphs = {name: ctx.subgraph(name) for name in ("decoder", "init_decoder", "encoder")}

    def start(self, source: Array, mask: Any | None, tokens: Any | None, beams: int) -> tuple[Model, Any]:
        """A call's model and the tokens ``(batch, tokens)`` that its sequences begin with.

        Args:
            source: The node's first input: the prompt, or what the encoder reads.
            mask: Mask of the source, None where it was not fed.
            tokens: First tokens of what a pair generates, None where it was not fed.
            beams: Rows of a batch entry.

        Raises:
            InvalidArgument: An input has a wrong shape, or nothing says what sequences begin with.
        """
        where = self._ctx.node.location
        if self.kind != SPEECH:
            prompt_of("input_ids", source, where)
            matrix_of("attention_mask", mask, tuple(source.shape), where)
        elif source.ndim != 3:
            raise InvalidArgument(
                f"The input 'input_ids' has the shape {list(source.shape)}.",
                where=where,
                fix="A model of speech needs features of the shape [batch][features][frames].",
            )
        if self._gpt is not None:
            if tokens is not None:
                raise InvalidArgument(
                    "The input 'decoder_input_ids' was fed to a model without an encoder.",
                    where=where,
                    fix="Put these tokens at the end of 'input_ids'.",
                )
            decoder = self._graph("decoder")
            start = self._graphs["init_decoder"] or decoder
            sizes = {"pad": self._pad, "beams": beams, "vocabulary": self._vocabulary}
            return GptModel(self._ctx, self._gpt, decoder, start, source, mask, **sizes), source
        assert self._pair is not None
        prompt = self._first_tokens(tokens, source.shape[0])
        if self.kind == TEXT:
            mask, source = source_mask(source, mask, self._pad), np.ascontiguousarray(source, np.int32)
        model = PairModel(
            self._ctx,
            self._pair,
            self._graph("encoder"),
            self._graph("decoder"),
            self._ctx.xp.asarray(source),
            mask if self.kind == TEXT else None,
            prompt,
            beams=beams,
            vocabulary=self._vocabulary,
        )
        return model, prompt

    def _first_tokens(self, tokens: Any | None, batch: int) -> Any:
        where = self._ctx.node.location
        if tokens is not None:
            found = prompt_of("decoder_input_ids", tokens, where)
            matrix_of("decoder_input_ids", found, (batch, found.shape[1]), where)
            return found
        if self._start < 0:
            raise InvalidArgument(
                "Nothing says what generated sequences begin with.",
                where=where,
                fix="Give the node the attribute 'decoder_start_token_id', or feed 'decoder_input_ids'.",
            )
        return np.full((batch, 1), self._start, np.int32)

    def _graph(self, name: str) -> SubgraphCallable:
        graph = self._graphs[name]
        assert graph is not None  # its signature was read
        return graph
