"""The models of `benchmarks.gpu`, made here: ONNX graphs of fixed batch whose weights are seeded by their names.

`gpu_torch` has the same networks as modules of PyTorch. Each has a small size of the same form, for tests on a CPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from benchmarks.gpu_graph import FLOATING, Graph, Value
from benchmarks.gpu_unet import UNetSize, unet, unet_feeds

__all__ = [
    "MODELS",
    "UNET_FOR_PROCESSORS",
    "DecoderSize",
    "EncoderSize",
    "GpuModel",
    "Made",
    "ResNetSize",
    "made_of",
    "model_of",
]

INT64 = TensorProto.INT64
Written = tuple[Graph, list[Value], list[Value]]


@dataclass(frozen=True, slots=True)
class ResNetSize:
    """Bottleneck blocks of each stage, channels of the first, side of the picture, classes."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    side: int = 224
    classes: int = 1000


@dataclass(frozen=True, slots=True)
class EncoderSize:
    """A stack of encoder layers.

    Attributes:
        kind: What stands before it: ``"words"`` (BERT), ``"patches"`` (ViT) or ``"sound"`` (Whisper).
        width, layers, heads: Of the stack.
        length: Words, patches and the one before them, or frames.
        known: Words of the vocabulary, side of a patch, or bands.
    """

    kind: str
    width: int
    layers: int
    heads: int
    length: int
    known: int


@dataclass(frozen=True, slots=True)
class DecoderSize:
    """GPT-2: a word after `past` others."""

    width: int = 768
    layers: int = 12
    heads: int = 12
    words: int = 50_257
    places: int = 1024
    past: int = 256


Size = ResNetSize | EncoderSize | DecoderSize | UNetSize


def _resnet(size: ResNetSize, batch: int, half: bool) -> Written:
    graph = Graph(half)

    def conv(value: str, name: str, inputs: int, outputs: int, side: int, stride: int = 1) -> str:
        found = graph.conv(value, f"{name}.conv", inputs, outputs, (side, side), stride=stride, bias=False)
        kinds = ("weight", "bias", "running_mean", "running_var")
        weights = [graph.weight(f"{name}.norm.{kind}", outputs) for kind in kinds]
        return graph("BatchNormalization", found, *weights, epsilon=1e-5)

    channels = size.width
    found = graph("Relu", conv("pixels", "enter", 3, channels, 7, 2))
    found = graph("MaxPool", found, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, blocks in enumerate(size.blocks):
        inner = size.width * 2**stage
        for block in range(blocks):
            name, stride = f"stages.{stage}.{block}", 2 if stage and not block else 1
            way = graph("Relu", conv(found, f"{name}.first", channels, inner, 1))
            way = graph("Relu", conv(way, f"{name}.second", inner, inner, 3, stride))
            way = conv(way, f"{name}.third", inner, 4 * inner, 1)
            kept = conv(found, f"{name}.skip", channels, 4 * inner, 1, stride) if not block else found
            found, channels = graph("Relu", graph("Add", way, kept)), 4 * inner
    flat = graph("Flatten", graph("GlobalAveragePool", found), axis=1)
    weights = graph.weight("leave.weight", size.classes, channels), graph.weight("leave.bias", size.classes)
    graph("Gemm", flat, *weights, transB=1, output="logits")
    ends: list[Value] = [("pixels", FLOATING, (batch, 3, size.side, size.side))]
    return graph, ends, [("logits", FLOATING, (batch, size.classes))]


def _resnet_feeds(size: ResNetSize, batch: int) -> dict[str, Any]:
    return {"pixels": np.random.default_rng(1).standard_normal((batch, 3, size.side, size.side), np.float32)}


def _layer(graph: Graph, value: str, name: str, size: EncoderSize, mask: str | None) -> str:
    """One layer; normalised last where words come in, first elsewhere."""
    first, width = size.kind != "words", size.width
    source = graph.norm(value, f"{name}.norm1", width) if first else value
    query, key, worth = (graph.linear(source, f"{name}.{kind}", width, width) for kind in ("query", "key", "value"))
    mixed = graph.linear(graph.attention(query, key, worth, size.heads, width, mask), f"{name}.out", width, width)
    value = graph("Add", mixed, value)
    value = value if first else graph.norm(value, f"{name}.norm1", width)
    source = graph.norm(value, f"{name}.norm2", width) if first else value
    wide = graph.gelu(graph.linear(source, f"{name}.wide", width, 4 * width))
    value = graph("Add", graph.linear(wide, f"{name}.narrow", 4 * width, width), value)
    return value if first else graph.norm(value, f"{name}.norm2", width)


def _encoder(size: EncoderSize, batch: int, half: bool) -> Written:
    graph, width, mask = Graph(half), size.width, None
    places = graph.weight("places", size.length, width)
    if size.kind == "words":
        inputs: list[Value] = [(name, INT64, (batch, size.length)) for name in ("input_ids", "attention_mask")]
        found = graph("Add", graph("Gather", graph.weight("words.weight", size.known, width), "input_ids"), places)
        found = graph.norm(found, "norm", width)
        there = graph("Cast", graph("Unsqueeze", "attention_mask", graph.constant(np.array([1, 2]))), to=graph.float)
        mask = graph("Mul", graph("Sub", graph.constant(1.0), there), graph.constant(-10_000.0))
    elif size.kind == "patches":
        side = size.known * round((size.length - 1) ** 0.5)
        inputs = [("pixels", FLOATING, (batch, 3, side, side))]
        weights = graph.weight("patches.weight", width, 3, size.known, size.known), graph.weight("patches.bias", width)
        found = graph("Conv", "pixels", *weights, strides=[size.known, size.known])
        found = graph("Transpose", graph.reshape(found, 0, width, -1), perm=[0, 2, 1])
        first = graph("Expand", graph.weight("first", 1, 1, width), graph.constant(np.array([batch, 1, width])))
        found = graph("Add", graph("Concat", first, found, axis=1), places)
    else:
        inputs = [("mel", FLOATING, (batch, size.known, 2 * size.length))]
        found = graph.gelu(graph.conv("mel", "conv1", size.known, width, (3,)))
        found = graph.gelu(graph.conv(found, "conv2", width, width, (3,), stride=2))
        found = graph("Add", graph("Transpose", found, perm=[0, 2, 1]), places)
    for layer in range(size.layers):
        found = _layer(graph, found, f"layers.{layer}", size, mask)
    if size.kind == "words":
        graph("Identity", found, output="states")
    else:
        graph.norm(found, "norm", width, output="states")
    return graph, inputs, [("states", FLOATING, (batch, size.length, width))]


def _encoder_feeds(size: EncoderSize, batch: int) -> dict[str, Any]:
    random = np.random.default_rng(2)
    if size.kind == "words":
        kept = np.ones((batch, size.length), np.int64)
        kept[:, size.length - size.length // 16 :] = 0
        return {"input_ids": random.integers(0, size.known, (batch, size.length)), "attention_mask": kept}
    if size.kind == "patches":
        side = size.known * round((size.length - 1) ** 0.5)
        return {"pixels": random.standard_normal((batch, 3, side, side), np.float32)}
    return {"mel": random.standard_normal((batch, size.known, 2 * size.length), np.float32)}


def _decoder(size: DecoderSize, batch: int, half: bool) -> Written:
    graph, width = Graph(half), size.width
    each = width // size.heads
    inputs: list[Value] = [(name, INT64, (batch, 1)) for name in ("input_ids", "position_ids")]
    outputs: list[Value] = [("logits", FLOATING, (batch, 1, size.words))]
    words = graph.weight("words.weight", size.words, width)
    places = graph("Gather", graph.weight("places.weight", size.places, width), "position_ids")
    found = graph("Add", graph("Gather", words, "input_ids"), places)
    for layer in range(size.layers):
        name = f"layers.{layer}"
        three = graph.linear(graph.norm(found, f"{name}.norm1", width), f"{name}.asked", width, 3 * width)
        parts = graph.split(three, 2, width, width, width)
        present = []
        for kind, part in (("key", parts[1]), ("value", parts[2])):
            new = graph("Transpose", graph.reshape(part, 0, -1, size.heads, each), perm=[0, 2, 1, 3])
            inputs.append((f"past_{kind}_{layer}", FLOATING, (batch, size.heads, size.past, each)))
            outputs.append((f"present_{kind}_{layer}", FLOATING, (batch, size.heads, size.past + 1, each)))
            present.append(graph("Concat", inputs[-1][0], new, axis=2, output=outputs[-1][0]))
        mixed = graph.attention(parts[0], present[0], present[1], size.heads, width, split=False)
        found = graph("Add", graph.linear(mixed, f"{name}.out", width, width), found)
        wide = graph.linear(graph.norm(found, f"{name}.norm2", width), f"{name}.wide", width, 4 * width)
        cube = graph("Mul", graph("Pow", wide, graph.constant(3.0)), graph.constant(0.044715))
        inner = graph("Tanh", graph("Mul", graph("Add", wide, cube), graph.constant((2 / np.pi) ** 0.5)))
        wide = graph("Mul", graph("Mul", wide, graph.constant(0.5)), graph("Add", inner, graph.constant(1.0)))
        found = graph("Add", graph.linear(wide, f"{name}.narrow", 4 * width, width), found)
    graph("MatMul", graph.norm(found, "norm", width), graph("Transpose", words, perm=[1, 0]), output="logits")
    return graph, inputs, outputs


def _decoder_feeds(size: DecoderSize, batch: int) -> dict[str, Any]:
    random = np.random.default_rng(3)
    shape = batch, size.heads, size.past, size.width // size.heads
    names = [f"past_{kind}_{layer}" for layer in range(size.layers) for kind in ("key", "value")]
    return {
        "input_ids": random.integers(0, size.words, (batch, 1)),
        "position_ids": np.full((batch, 1), size.past),
        **{name: random.standard_normal(shape, np.float32) for name in names},
    }


_WRITERS: Mapping[type, tuple[Callable[..., Written], Callable[..., dict[str, Any]]]] = {
    ResNetSize: (_resnet, _resnet_feeds),
    EncoderSize: (_encoder, _encoder_feeds),
    DecoderSize: (_decoder, _decoder_feeds),
    UNetSize: (unet, unet_feeds),
}


@dataclass(frozen=True, slots=True)
class Made:
    """A model of a batch and a type, on disk.

    Attributes:
        path: The file, whose name `model_of` reads.
        feeds: Its inputs.
        inputs, outputs: Its ends.
    """

    path: Path
    feeds: dict[str, Any]
    inputs: list[Value]
    outputs: list[Value]


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A network.

    Attributes:
        name: In tables and of files.
        size: What it is and how large.
        small: The same form in a size for tests.
    """

    name: str
    size: Size
    small: Size

    def make(self, batch: int, half: bool, *, small: bool = False, folder: Path | None = None) -> Made:
        """Write it, where it is not there yet.

        Args:
            batch: Items of a run.
            half: float16 in place of float32.
            small: In its small size.
            folder: Where files are kept; a folder for temporary files of all runs by default.
        """
        size = self.small if small else self.size
        write, feed = _WRITERS[type(size)]
        graph, inputs, outputs = write(size, batch, half)
        kept = folder or Path(tempfile.gettempdir()) / "ort-py-benchmark-models"
        kept.mkdir(parents=True, exist_ok=True)
        stem = f"{self.name}{'-small' if small else ''}-{graph.dtype}"
        path = kept / f"{stem}-batch{batch}.onnx"
        graph.save(path, kept / f"{stem}.weights", inputs, outputs)
        floating = {name for name, kind, _ in inputs if kind == FLOATING}
        fed = {name: one.astype(graph.dtype) if name in floating else one for name, one in feed(size, batch).items()}
        return Made(path, fed, inputs, outputs)


MODELS: tuple[GpuModel, ...] = (
    GpuModel("resnet50", ResNetSize(), ResNetSize((1, 2), 16, 32, 10)),
    GpuModel("bert-large", EncoderSize("words", 1024, 24, 16, 384, 30_522), EncoderSize("words", 32, 2, 4, 16, 99)),
    GpuModel("vit-large", EncoderSize("patches", 1024, 24, 16, 197, 16), EncoderSize("patches", 32, 2, 4, 17, 4)),
    GpuModel("gpt2-decode", DecoderSize(), DecoderSize(32, 2, 4, 99, 64, 8)),
    GpuModel(
        "whisper-medium-encoder",
        EncoderSize("sound", 1024, 24, 16, 1500, 80),
        EncoderSize("sound", 32, 2, 4, 20, 8),
    ),
    GpuModel(
        "unet",
        UNetSize(),
        UNetSize(32, (1, 2), (True, False), blocks=1, heads=4, groups=8, words=7, word_width=24, side=8),
    ),
)
"""What `benchmarks.gpu` measures."""


UNET_FOR_PROCESSORS = GpuModel("unet-base64", UNetSize(base=64, side=32), MODELS[-1].small)
"""The last of them in a size that a processor runs in a tenth of a second."""


def model_of(name: str) -> GpuModel:
    """Look up a model by name.

    Raises:
        KeyError: The model does not exist; the message lists the models.
    """
    for model in (*MODELS, UNET_FOR_PROCESSORS):
        if model.name == name:
            return model
    raise KeyError(f"no model {name!r}; there are {', '.join(model.name for model in MODELS)}")


def made_of(path: Path) -> tuple[Size, bool]:
    """Size of the model in a file that `GpuModel.make` wrote, and whether it is float16."""
    name, dtype, _ = path.stem.rsplit("-", 2)
    small = name.endswith("-small")
    model = model_of(name.removesuffix("-small"))
    return (model.small if small else model.size), dtype == "float16"
