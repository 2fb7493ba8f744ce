"""Tiny random language models as graphs of the layouts that the generating operators expect.

Two layers, two heads, a vocabulary of two dozen tokens; weights are drawn from a seed and large enough that the best
tokens of a step are far apart. `gpt` is a decoder alone, `encoder` and `decoder` are a pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto, helper, numpy_helper

__all__ = ["FEATURES", "VOCABULARY", "decoder", "encoder", "gpt"]

VOCABULARY = 24
FEATURES = 5
_LAYERS, _HEADS, _SIZE = 2, 2, 4
_HIDDEN = _HEADS * _SIZE
_POSITIONS = 64
_FAR = -1e4
"""The number that is added to scores of places that a query must not see."""


class _Builder:
    """Collects nodes and weights; every method returns the name of what it adds."""

    def __init__(self, seed: int, dtype: Any = np.float32) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.element = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self.inputs: list[Any] = []

    def __call__(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        return self.several(op_type, 1, *inputs, **attributes)[0]

    def several(self, op_type: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"{op_type}_{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, **attributes))
        return names

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        array = np.asarray(values, dtype)
        name = f"c{len(self.weights)}"
        self.weights[name] = array
        return name

    def weight(self, name: str, *shape: int, scale: float = 1.0) -> str:
        """A weight of this name: drawn once, so that two graphs with one seed and one order share it."""
        if name not in self.weights:
            seed = [int(self.random.bit_generator.seed_seq.entropy), *name.encode()]  # type: ignore[attr-defined]
            values = np.random.default_rng(seed).standard_normal(shape) * scale
            self.weights[name] = values.astype(self.dtype)
        return name

    def input(self, name: str, element: int, *shape: Any) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, element, list(shape)))
        return name

    def floats(self, name: str, *shape: Any) -> str:
        return self.input(name, self.element, *shape)

    def size(self, name: str, axis: int) -> str:
        """One size of a value, a scalar."""
        return self("Gather", self("Shape", name), self.constant(axis))

    def graph(self, name: str, outputs: dict[str, tuple[str, tuple[Any, ...]]]) -> GraphProto:
        for final, (value, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [final]))
        return helper.make_graph(
            self.nodes,
            name,
            self.inputs,
            [helper.make_tensor_value_info(final, self.element, list(shape)) for final, (_, shape) in outputs.items()],
            [numpy_helper.from_array(array, key) for key, array in self.weights.items()],
        )

    def normalised(self, x: str) -> str:
        """Normalised over the last axis: without it, rounding errors of a step grow in the steps that follow."""
        return self("LayerNormalization", x, self.constant(np.ones(_HIDDEN), self.dtype))

    def heads(self, x: str, weight: str) -> str:
        """(batch, tokens, hidden) → (batch, heads, tokens, size) through a projection."""
        projected = self("MatMul", self.normalised(x), self.weight(weight, _HIDDEN, _HIDDEN, scale=0.6))
        split = self("Reshape", projected, self.constant([0, 0, _HEADS, _SIZE]))
        return self("Transpose", split, perm=[0, 2, 1, 3])

    def attend(self, query: str, states: list[str], bias: str | None) -> str:
        """Softmax attention to keys and values, merged to (batch, tokens, hidden)."""
        key, value = states
        scores = self("MatMul", query, self("Transpose", key, perm=[0, 1, 3, 2]))
        if bias is not None:
            scores = self("Add", scores, bias)
        mixed = self("MatMul", self("Softmax", scores, axis=-1), value)
        merged = self("Transpose", mixed, perm=[0, 2, 1, 3])
        return self("Reshape", merged, self.constant([0, 0, _HIDDEN]))

    def hidden_places(self, mask: str) -> str:
        """(batch, keys) of 0 and 1 → bias (batch, 1, 1, keys)."""
        blocked = self("Sub", self.constant(1, self.dtype), self("Cast", mask, to=self.element))
        bias = self("Mul", blocked, self.constant(_FAR, self.dtype))
        return self("Unsqueeze", bias, self.constant([1, 2]))

    def later_places(self, past: str, total: str) -> str:
        """Bias (queries, keys) that hides what comes after the query, which is at ``past`` and later."""
        one = self.constant(1)
        rows = self("Unsqueeze", self("Range", past, total, one), self.constant([1]))
        columns = self("Unsqueeze", self("Range", self.constant(0), total, one), self.constant([0]))
        far, near = self.constant(_FAR, self.dtype), self.constant(0, self.dtype)
        return self("Where", self("Greater", columns, rows), far, near)

    def mlp(self, x: str, name: str) -> str:
        inner = self("Tanh", self("MatMul", self.normalised(x), self.weight(f"{name}_mlp", _HIDDEN, _HIDDEN)))
        return self("Add", x, inner)

    def logits(self, x: str) -> str:
        return self("MatMul", self.normalised(x), self.weight("to_vocabulary", _HIDDEN, VOCABULARY))


def gpt(seed: int = 0, dtype: Any = np.float32) -> GraphProto:
    """input_ids, position_ids, attention_mask, past_0, past_1 → logits, present_0, present_1."""
    g = _Builder(seed, dtype)
    ids = g.input("input_ids", TensorProto.INT32, "batch", "tokens")
    positions = g.input("position_ids", TensorProto.INT32, "batch", "tokens")
    mask = g.input("attention_mask", TensorProto.INT32, "batch", "total")
    past_shape = (2, "batch", _HEADS, "past", _SIZE)
    pasts = [g.floats(f"past_{i}", *past_shape) for i in range(_LAYERS)]
    x = g(
        "Add",
        g("Gather", g.weight("words", VOCABULARY, _HIDDEN), ids),
        g("Gather", g.weight("places", _POSITIONS, _HIDDEN, scale=0.5), positions),
    )
    bias = g("Add", g.hidden_places(mask), g.later_places(g.size(pasts[0], 3), g.size(mask, 1)))
    outputs: dict[str, tuple[str, tuple[Any, ...]]] = {}
    for i, past in enumerate(pasts):
        key, value = (
            g("Concat", g("Gather", past, g.constant(j), axis=0), g.heads(x, f"{name}_{i}"), axis=2)
            for j, name in enumerate(("key", "value"))
        )
        x = g.mlp(g("Add", x, g.attend(g.heads(x, f"query_{i}"), [key, value], bias)), f"layer_{i}")
        axes = g.constant([0])
        present = g("Concat", g("Unsqueeze", key, axes), g("Unsqueeze", value, axes), axis=0)
        outputs[f"present_{i}"] = (present, (2, "batch", _HEADS, "total", _SIZE))
    return g.graph("gpt", {"logits": (g.logits(x), ("batch", "tokens", VOCABULARY)), **outputs})


def _decode(
    g: _Builder, ids: str, past: list[str] | None, cross: list[str], hidden: str | None
) -> tuple[str, list[str]]:
    """Decoder of a pair: logits, and keys and values of each layer's self-attention."""
    before = g.constant(0) if past is None else g.size(past[0], 2)
    total = g("Add", before, g.size(ids, 1))
    places = g("Range", before, total, g.constant(1))
    x = g(
        "Add",
        g("Gather", g.weight("words", VOCABULARY, _HIDDEN), ids),
        g("Gather", g.weight("places", _POSITIONS, _HIDDEN, scale=0.5), places),
    )
    later = g.later_places(before, total)
    presents = []
    for i in range(_LAYERS):
        pair = [g.heads(x, f"self_{name}_{i}") for name in ("key", "value")]
        if past is not None:
            pair = [g("Concat", past[2 * i + j], new, axis=2) for j, new in enumerate(pair)]
        presents += pair
        x = g("Add", x, g.attend(g.heads(x, f"self_query_{i}"), pair, later))
        seen = g.attend(g.heads(x, f"cross_query_{i}"), cross[2 * i : 2 * i + 2], hidden)
        x = g.mlp(g("Add", x, seen), f"layer_{i}")
    return g.logits(x), presents


def _states(kind: str, side: str, length: Any) -> dict[str, tuple[Any, ...]]:
    """Names and shapes of keys and values of one kind of attention, layer by layer."""
    return {
        f"{side}_{name}_{kind}_{i}": ("batch", _HEADS, length, _SIZE)
        for i in range(_LAYERS)
        for name in ("key", "value")
    }


def encoder(seed: int = 0, dtype: Any = np.float32, *, features: bool = False, starts: bool = True) -> GraphProto:
    """An encoder, with the decoder's first step where `starts`.

    Args:
        seed: Of the weights; the same as the decoder's.
        dtype: Of the weights and states.
        features: The input is (batch, features, frames) as a recogniser of speech gets it, else tokens and a mask.
        starts: The older form: takes ``decoder_input_ids`` and gives logits, states of the encoder and of the
            decoder's self-attention before the keys and values of the cross-attention.
    """
    g = _Builder(seed, dtype)
    mask = None
    if features:
        frames = g.floats("encoder_input_ids", "batch", FEATURES, "source")
        turned = g("Transpose", frames, perm=[0, 2, 1])
        x = g("MatMul", turned, g.weight("from_features", FEATURES, _HIDDEN))
    else:
        ids = g.input("encoder_input_ids", TensorProto.INT32, "batch", "source")
        mask = g.input("encoder_attention_mask", TensorProto.INT32, "batch", "source")
        x = g("Gather", g.weight("source_words", VOCABULARY, _HIDDEN), ids)
    hidden = None if mask is None else g.hidden_places(mask)
    query, *pair = (g.heads(x, f"encoder_{name}") for name in ("query", "key", "value"))
    states = g.mlp(g("Add", x, g.attend(query, pair, hidden)), "encoder")
    cross = [g.heads(states, f"cross_{name}_{i}") for i in range(_LAYERS) for name in ("key", "value")]
    crossed = {name: (v, s) for v, (name, s) in zip(cross, _states("cross", "present", "source").items(), strict=True)}
    if not starts:
        return g.graph("encoder", crossed)
    start = g.input("decoder_input_ids", TensorProto.INT32, "batch", "tokens")
    logits, presents = _decode(g, start, None, cross, hidden)
    selves = _states("self", "present", "tokens")
    return g.graph(
        "encoder",
        {
            "logits": (logits, ("batch", "tokens", VOCABULARY)),
            "encoder_hidden_states": (states, ("batch", "source", _HIDDEN)),
            **{name: (v, s) for v, (name, s) in zip(presents, selves.items(), strict=True)},
            **crossed,
        },
    )


def decoder(
    seed: int = 0,
    dtype: Any = np.float32,
    *,
    masked: bool = True,
    states: bool = False,
    tokens: Any = 1,
) -> GraphProto:
    """The decoder of a pair, one step with its past.

    Args:
        seed: Of the weights.
        dtype: Of the weights and states.
        masked: Takes ``encoder_attention_mask``, as for text; a recogniser of speech has none.
        states: Takes ``encoder_hidden_states`` (and adds nothing for each of them), as older exports do. Only their
            shape is read: onnxruntime hands over memory of that shape that nothing was written to, and 0 times a NaN in
            it would be NaN.
        tokens: Second size of ``input_ids``; where it is not 1, operators feed the whole sequence.
    """
    g = _Builder(seed, dtype)
    ids = g.input("input_ids", TensorProto.INT32, "batch", tokens)
    hidden = None
    if masked:
        hidden = g.hidden_places(g.input("encoder_attention_mask", TensorProto.INT32, "batch", "source"))
    given = g.floats("encoder_hidden_states", "batch", "source", _HIDDEN) if states else None
    past = [g.floats(name, *shape) for name, shape in _states("self", "past", "past").items()]
    cross = [g.floats(name, *shape) for name, shape in _states("cross", "past", "source").items()]
    logits, presents = _decode(g, ids, past, cross, hidden)
    if given is not None:
        count = g("Cast", g("Size", given), to=g.element)
        nothing = g("Mul", count, g.constant(0, g.dtype))
        logits = g("Add", logits, nothing)
    selves = _states("self", "present", "total")
    return g.graph(
        "decoder",
        {
            "logits": (logits, ("batch", tokens, VOCABULARY)),
            **{name: (v, s) for v, (name, s) in zip(presents, selves.items(), strict=True)},
        },
    )
