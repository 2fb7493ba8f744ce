"""The network of Stable Diffusion 1.x as ONNX, as PyTorch's exporter writes it: residual blocks with a time, and words.

GroupNormalization is an InstanceNormalization between two Reshapes there, Gelu five nodes, attention plain products.
`gpu_torch.UNet` is the same with the same weights. It serves `benchmarks.gpu`, and smaller `benchmarks.providers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from benchmarks.gpu_graph import FLOATING, Graph, Value

__all__ = ["UNetSize", "unet", "unet_feeds"]


@dataclass(frozen=True, slots=True)
class UNetSize:
    """Sizes of the network.

    Attributes:
        base: Channels at the top; a multiple of `groups`.
        multiples: Channels of each level over `base`.
        attended: Whether a level looks at the words.
        blocks: Residual blocks of a level on the way down; one more on the way up.
        heads, groups: Of attention and of normalisation.
        words, word_width: Shape of the text.
        side: Pixels of the latent picture's side.
    """

    base: int = 320
    multiples: tuple[int, ...] = (1, 2, 4, 4)
    attended: tuple[bool, ...] = (True, True, True, False)
    blocks: int = 2
    heads: int = 8
    groups: int = 32
    words: int = 77
    word_width: int = 768
    side: int = 64


PICTURE_CHANNELS = 4


class _UNet:
    def __init__(self, size: UNetSize, batch: int, half: bool) -> None:
        self.size, self.batch = size, batch
        self.graph = Graph(half)
        self.time = ""

    def write(self) -> None:
        """All of it, from `sample`, `timestep` and `text` to `noise`."""
        size, graph = self.size, self.graph
        self.time = self._time()
        found = graph.conv("sample", "enter", PICTURE_CHANNELS, size.base, (3, 3))
        channels, side = size.base, size.side
        left = [(found, channels)]
        for level, multiple in enumerate(size.multiples):
            for block in range(size.blocks):
                name = f"down.{level}.{block}"
                found = self._residual(found, f"{name}.residual", channels, multiple * size.base)
                channels = multiple * size.base
                if size.attended[level]:
                    found = self._words(found, f"{name}.words", channels, side)
                left.append((found, channels))
            if level + 1 < len(size.multiples):
                found = graph.conv(found, f"shrink.{level}", channels, channels, (3, 3), stride=2)
                side //= 2
                left.append((found, channels))
        found = self._residual(found, "middle.0", channels, channels)
        found = self._words(found, "middle.1", channels, side)
        found = self._residual(found, "middle.2", channels, channels)
        for level in reversed(range(len(size.multiples))):
            for block in range(size.blocks + 1):
                name = f"up.{level}.{block}"
                other, more = left.pop()
                joined = graph("Concat", found, other, axis=1)
                found = self._residual(joined, f"{name}.residual", channels + more, size.multiples[level] * size.base)
                channels = size.multiples[level] * size.base
                if size.attended[level]:
                    found = self._words(found, f"{name}.words", channels, side)
            if level:
                scales = graph.exactly(np.array([1, 1, 2, 2], np.float32))
                found = graph(
                    "Resize",
                    found,
                    "",
                    scales,
                    mode="nearest",
                    coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor",
                )
                side *= 2
                found = graph.conv(found, f"grow.{level}", channels, channels, (3, 3))
        found = graph.silu(self._group_norm(found, "last", channels, 1e-5))
        weights = (
            graph.weight("leave.weight", PICTURE_CHANNELS, channels, 3, 3),
            graph.weight("leave.bias", PICTURE_CHANNELS),
        )
        graph("Conv", found, *weights, pads=[1, 1, 1, 1], output="noise")

    def _time(self) -> str:
        size, graph = self.size, self.graph
        half = size.base // 2
        rates = np.exp(-np.log(10_000) * np.arange(half) / half).astype(np.float32)
        angles = graph("Mul", graph("Unsqueeze", "timestep", graph.constant(np.array([1]))), graph.exactly(rates[None]))
        wave = graph("Concat", graph("Cos", angles), graph("Sin", angles), axis=1)
        if graph.float != TensorProto.FLOAT:
            wave = graph("Cast", wave, to=graph.float)
        wide = 4 * size.base
        found = graph.linear(graph.silu(graph.linear(wave, "time.0", size.base, wide)), "time.1", wide, wide)
        return graph.silu(found)

    def _group_norm(self, value: str, name: str, channels: int, epsilon: float) -> str:
        graph, groups = self.graph, self.size.groups
        split = graph.reshape(value, 0, groups, -1)
        ones, zeros = graph.constant(np.ones(groups)), graph.constant(np.zeros(groups))
        found = graph("InstanceNormalization", split, ones, zeros, epsilon=epsilon)
        joined = graph("Reshape", found, graph("Shape", value))
        scale, bias = (graph.weight(f"{name}.{kind}", channels, ones=2) for kind in ("weight", "bias"))
        return graph("Add", graph("Mul", joined, scale), bias)

    def _residual(self, value: str, name: str, inputs: int, outputs: int) -> str:
        graph = self.graph
        found = graph.silu(self._group_norm(value, f"{name}.norm1", inputs, 1e-5))
        found = graph.conv(found, f"{name}.conv1", inputs, outputs, (3, 3))
        time = graph.linear(self.time, f"{name}.time", 4 * self.size.base, outputs)
        found = graph("Add", found, graph("Unsqueeze", time, graph.constant(np.array([2, 3]))))
        found = graph.silu(self._group_norm(found, f"{name}.norm2", outputs, 1e-5))
        found = graph.conv(found, f"{name}.conv2", outputs, outputs, (3, 3))
        kept = value if inputs == outputs else graph.conv(value, f"{name}.skip", inputs, outputs, (1, 1))
        return graph("Add", kept, found)

    def _words(self, value: str, name: str, channels: int, side: int) -> str:
        graph, size = self.graph, self.size
        found = self._group_norm(value, f"{name}.norm", channels, 1e-6)
        found = graph.conv(found, f"{name}.enter", channels, channels, (1, 1))
        found = graph.reshape(graph("Transpose", found, perm=[0, 2, 3, 1]), 0, side * side, channels)
        for place, width in ((1, channels), (2, size.word_width)):
            asking = graph.norm(found, f"{name}.norm{place}", channels)
            asked = asking if place == 1 else "text"
            queries = graph.linear(asking, f"{name}.query{place}", channels, channels, bias=False)
            keys = graph.linear(asked, f"{name}.key{place}", width, channels, bias=False)
            values = graph.linear(asked, f"{name}.value{place}", width, channels, bias=False)
            mixed = graph.attention(queries, keys, values, size.heads, channels)
            found = graph("Add", graph.linear(mixed, f"{name}.out{place}", channels, channels), found)
        both = graph.linear(graph.norm(found, f"{name}.norm3", channels), f"{name}.wide", channels, 8 * channels)
        halves = graph.split(both, -1, 4 * channels, 4 * channels)
        gated = graph("Mul", halves[0], graph.gelu(halves[1]))
        found = graph("Add", graph.linear(gated, f"{name}.narrow", 4 * channels, channels), found)
        found = graph("Transpose", graph.reshape(found, 0, side, side, channels), perm=[0, 3, 1, 2])
        return graph("Add", graph.conv(found, f"{name}.leave", channels, channels, (1, 1)), value)


def unet(size: UNetSize, batch: int, half: bool) -> tuple[Graph, list[Value], list[Value]]:
    """The graph and its ends; the time is float32 in every precision, as sines of large numbers ask for."""
    network = _UNet(size, batch, half)
    network.write()
    picture = (batch, PICTURE_CHANNELS, size.side, size.side)
    inputs: list[Value] = [
        ("sample", FLOATING, picture),
        ("timestep", TensorProto.FLOAT, (batch,)),
        ("text", FLOATING, (batch, size.words, size.word_width)),
    ]
    return network.graph, inputs, [("noise", FLOATING, picture)]


def unet_feeds(size: UNetSize, batch: int) -> dict[str, Any]:
    """Seeded inputs."""
    random = np.random.default_rng(11)
    return {
        "sample": random.standard_normal((batch, PICTURE_CHANNELS, size.side, size.side), np.float32),
        "timestep": np.linspace(981, 1, batch, dtype=np.float32),
        "text": random.standard_normal((batch, size.words, size.word_width), np.float32),
    }
