"""BERT-base, ViT-B/16, GPT-2 and a Whisper encoder with random weights: the graphs that exporters write, at full size.

Made here with seeded weights, because what counts for speed is the graph and its sizes. Each is written once to a
folder and found there the next time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["GPT2", "TRANSFORMERS", "Shape", "Transformer", "gpt2", "gpt2_feeds"]

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Feeds = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a transformer.

    Attributes:
        width, layers, heads: Of the stack; the layer between is four times as wide.
        words: Words, patches or frames.
        known: Different words of a language model.
    """

    width: int = 768
    layers: int = 12
    heads: int = 12
    words: int = 0
    known: int = 50_257


class _Graph:
    """Nodes and weights, written one after the other."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int, scale: float = 0.02, around: float = 0.0) -> str:
        """A random weight."""
        array = self._random.standard_normal(shape, np.float32) * np.float32(scale) + np.float32(around)
        return self.constant(array)

    def constant(self, array: Any) -> str:
        """A weight with these values."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def __call__(self, op_type: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Append a node of one output."""
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def linear(self, value: str, inputs: int, outputs: int) -> str:
        """A product with a weight, and a bias."""
        return self("Add", self("MatMul", value, self.weight(inputs, outputs)), self.weight(outputs))

    def norm(self, value: str, width: int, output: str | None = None) -> str:
        """LayerNormalization."""
        scale, bias = self.weight(width, around=1.0), self.weight(width)
        return self("LayerNormalization", value, scale, bias, axis=-1, epsilon=1e-5, output=output)

    def gelu(self, value: str, tanh: bool) -> str:
        """Gelu as exporters write it, with erf or with tanh."""
        half, one = self.constant(np.float32(0.5)), self.constant(np.float32(1))
        if tanh:
            cube = self("Pow", value, self.constant(np.float32(3)))
            inner = self("Add", value, self("Mul", cube, self.constant(np.float32(0.044715))))
            found = self("Tanh", self("Mul", inner, self.constant(np.float32(0.7978845608))))
            return self("Mul", self("Mul", value, half), self("Add", found, one))
        found = self("Erf", self("Div", value, self.constant(np.float32(1.41421356))))
        return self("Mul", self("Mul", value, self("Add", found, one)), half)

    def heads(self, value: str, size: Shape, order: Sequence[int]) -> str:
        """(batch, words, width) as (batch, heads, words, each), or with the last two exchanged."""
        split = self("Reshape", value, self.constant(np.array([0, -1, size.heads, size.width // size.heads])))
        return self("Transpose", split, perm=list(order))

    def attention(self, queries: str, keys: str, values: str, size: Shape, mask: str | None) -> str:
        """Scores over keys whose last two dimensions are exchanged, softmax, and the heads put together."""
        scale = self.constant(np.float32((size.width // size.heads) ** -0.5))
        scores = self("Mul", self("MatMul", queries, keys), scale)
        if mask is not None:
            scores = self("Add", scores, mask)
        mixed = self("MatMul", self("Softmax", scores, axis=-1), values)
        joined = self("Transpose", mixed, perm=[0, 2, 1, 3])
        return self("Reshape", joined, self.constant(np.array([0, -1, size.width])))

    def encoder_layer(self, value: str, size: Shape, *, first: bool, mask: str | None) -> str:
        """One layer; normalised `first` as in ViT and Whisper, or last as in BERT."""
        width = size.width
        source = self.norm(value, width) if first else value
        queries, keys, values = (
            self.heads(self.linear(source, width, width), size, order)
            for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        )
        mixed = self.linear(self.attention(queries, keys, values, size, mask), width, width)
        value = self("Add", mixed, value)
        value = value if first else self.norm(value, width)
        source = self.norm(value, width) if first else value
        wide = self.gelu(self.linear(source, width, 4 * width), tanh=False)
        value = self("Add", self.linear(wide, 4 * width, width), value)
        return value if first else self.norm(value, width)

    def model(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> onnx.ModelProto:
        """The model."""
        graph = helper.make_graph(self.nodes, "transformer", list(inputs), list(outputs), self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _value(name: str, kind: int, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def _bert() -> tuple[onnx.ModelProto, Feeds]:
    size, words = Shape(words=128), 30_522
    graph = _Graph(1)
    found = graph("Gather", graph.weight(words, size.width), "input_ids")
    found = graph.norm(graph("Add", found, graph.weight(1, size.words, size.width)), size.width)
    wide = graph("Unsqueeze", graph("Cast", "attention_mask", to=FLOAT), graph.constant(np.array([1, 2])))
    hidden = graph("Sub", graph.constant(np.float32(1)), wide)
    mask = graph("Mul", hidden, graph.constant(np.float32(-10_000)))
    for _ in range(size.layers):
        found = graph.encoder_layer(found, size, first=False, mask=mask)
    graph("Identity", found, output="states")
    kept = np.ones((1, size.words), np.int64)
    kept[0, 120:] = 0
    feeds = {"input_ids": np.random.default_rng(2).integers(0, words, (1, size.words)), "attention_mask": kept}
    ends = [_value(name, INT64, 1, size.words) for name in feeds]
    return graph.model(ends, [_value("states", FLOAT, 1, size.words, size.width)]), feeds


def _vit() -> tuple[onnx.ModelProto, Feeds]:
    size = Shape(words=197)
    graph = _Graph(3)
    patches = graph("Conv", "pixels", graph.weight(size.width, 3, 16, 16), graph.weight(size.width), strides=[16, 16])
    flat = graph("Reshape", patches, graph.constant(np.array([0, size.width, -1])))
    row = graph("Transpose", flat, perm=[0, 2, 1])
    found = graph("Concat", graph.weight(1, 1, size.width), row, axis=1)
    found = graph("Add", found, graph.weight(1, size.words, size.width))
    for _ in range(size.layers):
        found = graph.encoder_layer(found, size, first=True, mask=None)
    graph.norm(found, size.width, output="states")
    feeds = {"pixels": np.random.default_rng(4).standard_normal((1, 3, 224, 224), np.float32)}
    ends = [_value("pixels", FLOAT, 1, 3, 224, 224)], [_value("states", FLOAT, 1, size.words, size.width)]
    return graph.model(*ends), feeds


def _whisper() -> tuple[onnx.ModelProto, Feeds]:
    size = Shape(512, 6, 8, 1500)
    graph = _Graph(5)
    found = "mel"
    for inputs, stride in ((80, 1), (size.width, 2)):
        weights = graph.weight(size.width, inputs, 3), graph.weight(size.width)
        found = graph.gelu(graph("Conv", found, *weights, strides=[stride], pads=[1, 1]), tanh=False)
    found = graph("Add", graph("Transpose", found, perm=[0, 2, 1]), graph.weight(size.words, size.width))
    for _ in range(size.layers):
        found = graph.encoder_layer(found, size, first=True, mask=None)
    graph.norm(found, size.width, output="states")
    feeds = {"mel": np.random.default_rng(6).standard_normal((1, 80, 3000), np.float32)}
    return graph.model([_value("mel", FLOAT, 1, 80, 3000)], [_value("states", FLOAT, 1, size.words, size.width)]), feeds


GPT2 = Shape()
"""Sizes of GPT-2."""

_GPT2_PLACES = 2048


def gpt2(size: Shape = GPT2) -> onnx.ModelProto:
    """GPT-2 with its past: `input_ids`, `mask` (added to scores) and `position_ids`, two states a layer."""
    each = size.width // size.heads
    graph = _Graph(7)
    words = graph.weight(size.known, size.width)
    places = graph("Gather", graph.weight(_GPT2_PLACES, size.width), "position_ids")
    found = graph("Add", graph("Gather", words, "input_ids"), places)
    ends = [_value(name, INT64, 1, "words") for name in ("input_ids", "position_ids")]
    ends.append(_value("mask", FLOAT, 1, 1, "words", "total"))
    results = [_value("logits", FLOAT, 1, "words", size.known)]
    for layer in range(size.layers):
        source = graph.linear(graph.norm(found, size.width), size.width, 3 * size.width)
        parts = [f"{kind}_{layer}" for kind in ("queries", "keys", "values")]
        graph.nodes.append(helper.make_node("Split", [source], parts, name=f"split_{layer}", axis=2))
        queries, keys, values = (graph.heads(part, size, (0, 2, 1, 3)) for part in parts)
        present = []
        for kind, state in (("key", keys), ("value", values)):
            past, name = f"past_{kind}_{layer}", f"present_{kind}_{layer}"
            ends.append(_value(past, FLOAT, 1, size.heads, "past", each))
            results.append(_value(name, FLOAT, 1, size.heads, "total", each))
            present.append(graph("Concat", past, state, axis=2, output=name))
        turned = graph("Transpose", present[0], perm=[0, 1, 3, 2])
        mixed = graph.attention(queries, turned, present[1], size, "mask")
        found = graph("Add", graph.linear(mixed, size.width, size.width), found)
        wide = graph.gelu(graph.linear(graph.norm(found, size.width), size.width, 4 * size.width), tanh=True)
        found = graph("Add", graph.linear(wide, 4 * size.width, size.width), found)
    graph("MatMul", graph.norm(found, size.width), graph("Transpose", words, perm=[1, 0]), output="logits")
    return graph.model(ends, results)


def gpt2_feeds(words: int, past: int, size: Shape = GPT2) -> dict[str, Any]:
    """Feeds of GPT-2 for some new words after some past ones."""
    random = np.random.default_rng(8)
    mask = np.zeros((1, 1, words, past + words), np.float32)
    mask[0, 0] = np.triu(np.full((words, past + words), np.float32(-1e9)), past + 1)
    feeds: dict[str, Any] = {
        "input_ids": random.integers(0, size.known, (1, words)),
        "position_ids": np.arange(past, past + words)[np.newaxis],
        "mask": mask,
    }
    for layer in range(size.layers):
        for kind in ("key", "value"):
            shape = (1, size.heads, past, size.width // size.heads)
            feeds[f"past_{kind}_{layer}"] = random.standard_normal(shape, np.float32)
    return feeds


@dataclass(frozen=True, slots=True)
class Transformer:
    """A model that is made when it is first asked for.

    Attributes:
        name: In tables.
        file: Of the file; models that differ in what they are fed share it.
        make: Makes the model and its feeds.
    """

    name: str
    file: str
    make: Callable[[], tuple[onnx.ModelProto, Feeds]]

    def fetch(self, folder: Path | None = None) -> tuple[Path, Feeds]:
        """The file and feeds; written where it is not there yet.

        Args:
            folder: Where files are kept; a folder for temporary files of all runs by default.
        """
        kept = folder or Path(tempfile.gettempdir()) / "ort-py-benchmark-models"
        kept.mkdir(parents=True, exist_ok=True)
        path = kept / f"{self.file}.onnx"
        model, feeds = self.make()
        if not path.exists():
            unfinished = path.with_suffix(".part")
            onnx.save(model, unfinished)
            unfinished.rename(path)
        return path, feeds


TRANSFORMERS: tuple[Transformer, ...] = (
    Transformer("bert-base-128", "bert-base", _bert),
    Transformer("vit-b16", "vit-b16", _vit),
    Transformer("whisper-base-encoder", "whisper-base-encoder", _whisper),
    Transformer("gpt2-prefill-64", "gpt2", lambda: (gpt2(), gpt2_feeds(64, 0))),
    Transformer("gpt2-token-past-64", "gpt2", lambda: (gpt2(), gpt2_feeds(1, 64))),
)
"""What `benchmarks.providers` measures beside trained models."""
