"""The networks of `gpu_models` as PyTorch modules, as one writes them there, with the same weights by name.

Imported only in a process that has PyTorch. Outputs are tuples in the order of the ONNX model's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.gpu_graph import seeded
from benchmarks.gpu_models import DecoderSize, EncoderSize, ResNetSize
from benchmarks.gpu_unet import PICTURE_CHANNELS, UNetSize

__all__ = ["module_of"]


def module_of(size: Any, half: bool, device: str) -> Any:
    """The module of a size, with its seeded weights, for inference.

    Args:
        size: Of `gpu_models` or `gpu_unet`.
        half: Weights as float16.
        device: PyTorch's name of the device.
    """
    kinds: Mapping[type, Any] = {ResNetSize: _ResNet, EncoderSize: _Encoder, DecoderSize: _Decoder, UNetSize: _UNet}
    with torch.device("meta"):
        module = kinds[type(size)](size)
    module = module.to_empty(device="cpu")
    dtype = torch.float16 if half else torch.float32
    state = module.state_dict()
    for name, tensor in state.items():
        if tensor.is_floating_point():
            state[name] = torch.from_numpy(seeded(name, tensor.shape)).to(dtype)
    module.load_state_dict(state, assign=True)
    module = module.eval().requires_grad_(False).to(device)
    # What PyTorch's own guide tells to do for half precision and convolutions.
    return module.to(memory_format=torch.channels_last) if half and isinstance(module, _ResNet | _UNet) else module


def _heads(value: Any, heads: int) -> Any:
    batch, words, width = value.shape
    return value.view(batch, words, heads, width // heads).transpose(1, 2)


def _joined(value: Any) -> Any:
    batch, heads, words, each = value.shape
    return value.transpose(1, 2).reshape(batch, words, heads * each)


class _ConvNorm(nn.Module):
    def __init__(self, inputs: int, outputs: int, side: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, value: Any) -> Any:
        return self.norm(self.conv(value))


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, inner: int, stride: int, skips: bool) -> None:
        super().__init__()
        self.first = _ConvNorm(inputs, inner, 1)
        self.second = _ConvNorm(inner, inner, 3, stride)
        self.third = _ConvNorm(inner, 4 * inner, 1)
        self.skip = _ConvNorm(inputs, 4 * inner, 1, stride) if skips else None

    def forward(self, value: Any) -> Any:
        way = self.third(F.relu(self.second(F.relu(self.first(value)))))
        return F.relu(way + (value if self.skip is None else self.skip(value)))


class _ResNet(nn.Module):
    def __init__(self, size: ResNetSize) -> None:
        super().__init__()
        self.enter = _ConvNorm(3, size.width, 7, 2)
        stages, channels = [], size.width
        for stage, blocks in enumerate(size.blocks):
            inner, made = size.width * 2**stage, []
            for block in range(blocks):
                made.append(_Bottleneck(channels, inner, 2 if stage and not block else 1, not block))
                channels = 4 * inner
            stages.append(nn.Sequential(*made))
        self.stages = nn.Sequential(*stages)
        self.leave = nn.Linear(channels, size.classes)

    def forward(self, pixels: Any) -> tuple[Any, ...]:
        found = self.stages(F.max_pool2d(F.relu(self.enter(pixels)), 3, 2, 1))
        return (self.leave(F.adaptive_avg_pool2d(found, 1).flatten(1)),)


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, first: bool) -> None:
        super().__init__()
        self.heads, self.first = heads, first
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, value: Any, mask: Any) -> Any:
        source = self.norm1(value) if self.first else value
        asked = [_heads(one(source), self.heads) for one in (self.query, self.key, self.value)]
        value = value + self.out(_joined(F.scaled_dot_product_attention(*asked, attn_mask=mask)))
        value = value if self.first else self.norm1(value)
        source = self.norm2(value) if self.first else value
        value = value + self.narrow(F.gelu(self.wide(source)))
        return value if self.first else self.norm2(value)


class _Encoder(nn.Module):
    def __init__(self, size: EncoderSize) -> None:
        super().__init__()
        width = size.width
        self.kind = size.kind
        self.places = nn.Parameter(torch.empty(size.length, width))
        if size.kind == "words":
            self.words = nn.Embedding(size.known, width)
        elif size.kind == "patches":
            self.patches = nn.Conv2d(3, width, size.known, size.known)
            self.first = nn.Parameter(torch.empty(1, 1, width))
        else:
            self.conv1 = nn.Conv1d(size.known, width, 3, padding=1)
            self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(_Layer(width, size.heads, size.kind != "words") for _ in range(size.layers))

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, pixels: Any = None, mel: Any = None
    ) -> tuple[Any, ...]:
        mask = None
        if self.kind == "words":
            found = self.norm(self.words(input_ids) + self.places)
            mask = (1 - attention_mask[:, None, None].to(found.dtype)) * -10_000
        elif self.kind == "patches":
            found = self.patches(pixels).flatten(2).transpose(1, 2)
            found = torch.cat([self.first.expand(len(found), -1, -1), found], 1) + self.places
        else:
            found = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2) + self.places
        for layer in self.layers:
            found = layer(found, mask)
        return (found if self.kind == "words" else self.norm(found),)


class _DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, value: Any, past_key: Any, past_value: Any) -> tuple[Any, Any, Any]:
        query, key, new = (_heads(one, self.heads) for one in self.asked(self.norm1(value)).chunk(3, -1))
        keys, values = torch.cat([past_key, key], 2), torch.cat([past_value, new], 2)
        value = value + self.out(_joined(F.scaled_dot_product_attention(query, keys, values)))
        return value + self.narrow(F.gelu(self.wide(self.norm2(value)), approximate="tanh")), keys, values


class _Decoder(nn.Module):
    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(size.words, size.width), nn.Embedding(size.places, size.width)
        self.layers = nn.ModuleList(_DecoderLayer(size.width, size.heads) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)

    def forward(self, input_ids: Any, position_ids: Any, **past: Any) -> tuple[Any, ...]:
        found, present = self.words(input_ids) + self.places(position_ids), []
        for place, layer in enumerate(self.layers):
            found, *states = layer(found, past[f"past_key_{place}"], past[f"past_value_{place}"])
            present += states
        return (F.linear(self.norm(found), self.words.weight), *present)


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, time: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, inputs), nn.GroupNorm(groups, outputs)
        self.conv1, self.conv2 = nn.Conv2d(inputs, outputs, 3, 1, 1), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, value: Any, time: Any) -> Any:
        found = self.conv1(F.silu(self.norm1(value))) + self.time(time)[:, :, None, None]
        found = self.conv2(F.silu(self.norm2(found)))
        return found + (value if self.skip is None else self.skip(value))


class _Words(nn.Module):
    def __init__(self, channels: int, size: UNetSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm = nn.GroupNorm(size.groups, channels, eps=1e-6)
        self.enter, self.leave = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)
        for place, width in ((1, channels), (2, size.word_width)):
            self.add_module(f"norm{place}", nn.LayerNorm(channels))
            self.add_module(f"query{place}", nn.Linear(channels, channels, bias=False))
            self.add_module(f"key{place}", nn.Linear(width, channels, bias=False))
            self.add_module(f"value{place}", nn.Linear(width, channels, bias=False))
            self.add_module(f"out{place}", nn.Linear(channels, channels))
        self.norm3 = nn.LayerNorm(channels)
        self.wide, self.narrow = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def forward(self, value: Any, text: Any) -> Any:
        parts: Any = self
        height, width = value.shape[2:]
        found = self.enter(self.norm(value)).permute(0, 2, 3, 1).flatten(1, 2)
        found = self._attend(found, None, parts.norm1, parts.query1, parts.key1, parts.value1, parts.out1)
        found = self._attend(found, text, parts.norm2, parts.query2, parts.key2, parts.value2, parts.out2)
        plain, gate = self.wide(self.norm3(found)).chunk(2, -1)
        found = found + self.narrow(plain * F.gelu(gate))
        return value + self.leave(found.unflatten(1, (height, width)).permute(0, 3, 1, 2))

    def _attend(self, value: Any, text: Any, norm: Any, query: Any, key: Any, worth: Any, out: Any) -> Any:
        asking = norm(value)
        asked = asking if text is None else text
        parts = (_heads(one, self.heads) for one in (query(asking), key(asked), worth(asked)))
        return value + out(_joined(F.scaled_dot_product_attention(*parts)))


class _Level(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: UNetSize, attended: bool) -> None:
        super().__init__()
        self.residual = _Residual(inputs, outputs, 4 * size.base, size.groups)
        self.words = _Words(outputs, size) if attended else None

    def forward(self, value: Any, time: Any, text: Any) -> Any:
        found = self.residual(value, time)
        return found if self.words is None else self.words(found, text)


class _UNet(nn.Module):
    def __init__(self, size: UNetSize) -> None:
        super().__init__()
        self.base, levels, wide = size.base, len(size.multiples), 4 * size.base
        self.time = nn.ModuleList([nn.Linear(size.base, wide), nn.Linear(wide, wide)])
        self.enter = nn.Conv2d(PICTURE_CHANNELS, size.base, 3, 1, 1)
        self.down, self.up, self.shrink, self.grow = (nn.ModuleDict() for _ in range(4))
        channels = size.base
        left = [channels]
        for level, multiple in enumerate(size.multiples):
            made = nn.ModuleList()
            for _ in range(size.blocks):
                made.append(_Level(channels, multiple * size.base, size, size.attended[level]))
                channels = multiple * size.base
                left.append(channels)
            self.down[str(level)] = made
            if level + 1 < levels:
                self.shrink[str(level)] = nn.Conv2d(channels, channels, 3, 2, 1)
                left.append(channels)
        middle = _Residual(channels, channels, wide, size.groups), _Residual(channels, channels, wide, size.groups)
        self.middle = nn.ModuleList([middle[0], _Words(channels, size), middle[1]])
        for level in reversed(range(levels)):
            made = nn.ModuleList()
            for _ in range(size.blocks + 1):
                outputs = size.multiples[level] * size.base
                made.append(_Level(channels + left.pop(), outputs, size, size.attended[level]))
                channels = outputs
            self.up[str(level)] = made
            if level:
                self.grow[str(level)] = nn.Conv2d(channels, channels, 3, 1, 1)
        self.last = nn.GroupNorm(size.groups, channels)
        self.leave = nn.Conv2d(channels, PICTURE_CHANNELS, 3, 1, 1)

    def forward(self, sample: Any, timestep: Any, text: Any) -> tuple[Any, ...]:
        half = self.base // 2
        rates = torch.exp(-math.log(10_000) * torch.arange(half, device=sample.device, dtype=torch.float32) / half)
        angles = timestep[:, None] * rates[None]
        wave = torch.cat([angles.cos(), angles.sin()], 1).to(sample.dtype)
        time = F.silu(self.time[1](F.silu(self.time[0](wave))))
        found = self.enter(sample)
        left = [found]
        for level, blocks in self.down.items():
            for block in blocks:
                found = block(found, time, text)
                left.append(found)
            if level in self.shrink:
                found = self.shrink[level](found)
                left.append(found)
        found = self.middle[2](self.middle[1](self.middle[0](found, time), text), time)
        for level, blocks in self.up.items():
            for block in blocks:
                found = block(torch.cat([found, left.pop()], 1), time, text)
            if level in self.grow:
                found = self.grow[level](F.interpolate(found, scale_factor=2.0, mode="nearest"))
        return (self.leave(F.silu(self.last(found))),)
