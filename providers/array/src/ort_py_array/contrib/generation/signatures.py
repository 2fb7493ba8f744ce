"""The signatures of the graphs of a generating node, read from their inputs and outputs when it is bound.

Layouts are those that onnxruntime's exporter writes. They are recognised by numbers, types and ranks, not by names: if
an outer graph has the same names, the inner ones are renamed. A graph of another layout is refused with what was
expected. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from ort_py.contracts.graph_view import GraphView, ValueSpec
from ort_py.contracts.kernel import KernelContext
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidGraph, Location
from ort_py.lazy_dataclass import dataclass

__all__ = ["GptSignature", "PairSignature", "gpt_signature", "pair_signature"]

_NUMBERS = (DataType.INT32, DataType.INT64)


@dataclass(frozen=True, slots=True)
class GptSignature:
    """A decoder alone: input_ids, position_ids, attention_mask, past… → logits, present….

    Attributes:
        layers: Number of states.
        heads: Heads of a state ``(2, rows, heads, tokens, size)``.
        size: Size of a head.
        dtype: Of states.
    """

    layers: int
    heads: int
    size: int
    dtype: Any


@dataclass(frozen=True, slots=True)
class PairSignature:
    """An encoder and a decoder.

    Attributes:
        layers: Layers of the decoder; each has a key and a value of its own tokens, and of the source.
        masked: Both take a mask of the source.
        starts: The encoder runs the decoder's first step: it takes the first tokens and gives logits.
        hidden: The decoder takes the encoder's states.
        whole: The decoder is fed all tokens at every step, not the last ones only.
    """

    layers: int
    masked: bool
    starts: bool
    hidden: bool
    whole: bool


def gpt_signature(ctx: KernelContext, name: str) -> GptSignature:
    """The signature of the graph in the attribute `name`.

    Raises:
        InvalidGraph: The graph is missing, or has another layout.
    """
    where = ctx.node.location
    graph = _graph(ctx, name)
    layers = len(graph.outputs) - 1
    _check_shared(name, graph.inputs[3:], where)
    past = graph.inputs[3] if len(graph.inputs) > 3 else None
    shape = past.shape if past is not None else None
    heads, size = (shape[2], shape[4]) if shape is not None and len(shape) == 5 else (None, None)
    fits = layers >= 1 and len(graph.inputs) == layers + 3 and isinstance(heads, int) and isinstance(size, int)
    if not fits or past is None or past.data_type is None:
        raise InvalidGraph(
            f"The graph '{name}' is not a decoder as {ctx.node.op_type} runs it.",
            where=where,
            why=_seen(graph),
            fix="Its inputs must be input_ids, position_ids, attention_mask and past_0, past_1, … of shape "
            "[2][batch][heads][tokens][size] with known heads and size; its outputs logits, present_0, present_1, ….",
        )
    assert isinstance(heads, int)
    assert isinstance(size, int)
    return GptSignature(layers, heads, size, numpy_dtype(past.data_type))


def pair_signature(ctx: KernelContext, *, masked: bool) -> PairSignature:
    """The signatures of the graphs in the attributes ``encoder`` and ``decoder``.

    Args:
        ctx: Context of the node.
        masked: Whether the source is text with a mask.

    Raises:
        InvalidGraph: A graph is missing, or has another layout.
    """
    where = ctx.node.location
    encoder, decoder = _graph(ctx, "encoder"), _graph(ctx, "decoder")
    layers = (len(decoder.outputs) - 1) // 2
    fixed = 2 if masked else 1
    _check_shared("decoder", decoder.inputs[fixed:], where)
    hidden = len(decoder.inputs) == fixed + 1 + 4 * layers
    fixed += hidden
    if layers < 1 or len(decoder.outputs) != 1 + 2 * layers or len(decoder.inputs) != fixed + 4 * layers:
        first = "input_ids, encoder_attention_mask" if masked else "input_ids"
        raise InvalidGraph(
            f"The graph 'decoder' is not a decoder as {ctx.node.op_type} runs it.",
            where=where,
            why=_seen(decoder),
            fix=f"Its inputs must be {first}, perhaps encoder_hidden_states, then past_key_self_i, past_value_self_i "
            "of all layers and past_key_cross_i, past_value_cross_i; its outputs logits and present_key_self_i, "
            "present_value_self_i.",
        )
    starts = len(encoder.outputs) == 2 + 4 * layers and len(encoder.inputs) == (3 if masked else 2)
    only = masked and not hidden and len(encoder.outputs) == 2 * layers and len(encoder.inputs) == 2
    if not (starts or only):
        first = "encoder_input_ids, encoder_attention_mask" if masked else "encoder_input_ids"
        raise InvalidGraph(
            f"The graph 'encoder' is not an encoder as {ctx.node.op_type} runs it with this decoder.",
            where=where,
            why=f"{_seen(encoder)}; the decoder has {layers} layers",
            fix=f"Its inputs must be {first}, decoder_input_ids, its outputs logits, encoder_hidden_states, then "
            "present_key_self_i, present_value_self_i of all layers and present_key_cross_i, present_value_cross_i"
            + (", or only the last ones, without decoder_input_ids." if masked else "."),
        )
    shape = decoder.inputs[0].shape
    whole = shape is None or len(shape) != 2 or shape[1] != 1
    return PairSignature(layers, masked, starts, hidden, whole)


def _graph(ctx: KernelContext, name: str) -> GraphView:
    graph = ctx.node.attributes.get(name)
    if graph is None:
        raise InvalidGraph(
            f"{ctx.node.op_type} has no graph '{name}'.",
            where=ctx.node.location,
            why=f"its 'model_type' is {ctx.node.attributes.get('model_type', 'not given')}",
            fix="Export the model again with the graph, or correct 'model_type': 0 is a decoder alone, 1 an encoder "
            "and a decoder of text, 2 of speech.",
        )
    found: GraphView = graph
    return found


def _check_shared(name: str, inputs: Sequence[ValueSpec], where: Location) -> None:
    """Refuse states that numbers follow: the length so far, and perhaps beams and which beam a place is of."""
    last = [value.name for value in takewhile(lambda value: value.data_type in _NUMBERS, reversed(inputs))]
    if last:
        raise InvalidGraph(
            f"The graph '{name}' takes {', '.join(map(repr, reversed(last)))}.",
            where=where,
            why="it shares one buffer between past and present states, a form made for GPUs only",
            fix="Export the model for the CPU: without past_present_share_buffer and decoder-masked attention.",
        )


def _seen(graph: GraphView) -> str:
    inputs, outputs = ([value.name for value in values] for values in (graph.inputs, graph.outputs))
    return f"its inputs are {', '.join(inputs)}; its outputs {', '.join(outputs)}"
