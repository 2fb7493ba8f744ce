"""Small networks of the kinds that people export, with inputs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import NodeProto

from providers.coreml.tests.models import model, node

__all__ = ["NETWORKS", "bert", "cnn", "few_bits", "grouped"]

RNG = np.random.default_rng(11)


def numbers(*shape: int) -> Any:
    """Return numbers on both sides of zero."""
    return RNG.normal(0, 1, shape).astype(np.float32)


def cnn(*, dynamic: bool = True) -> tuple[bytes, dict[str, Any]]:
    """Convolutions with a residual sum, pooling, and a classifier."""
    nodes = [
        node("Conv", "x w1 b1", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "a", "r"),
        node("Conv", "r w2 b2", "c", pads=[1, 1, 1, 1], group=8),
        node("BatchNormalization", "c s o m v", "n"),
        node("HardSwish", "n", "h"),
        node("Add", "h r", "sum"),
        node("GlobalAveragePool", "sum", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f w3 b3", "g", transB=1),
        node("Softmax", "g", "y"),
    ]
    constants = {
        "w1": numbers(8, 3, 3, 3), "b1": numbers(8), "w2": numbers(8, 1, 3, 3), "b2": numbers(8),
        "s": numbers(8), "o": numbers(8), "m": numbers(8), "v": abs(numbers(8)) + 1,
        "w3": numbers(5, 8), "b3": numbers(5),
    }  # fmt: skip
    return model(nodes, {"x": numbers(2, 3, 16, 20)}, constants, dynamic=dynamic), {"x": numbers(2, 3, 16, 20)}


def bert(batch: int = 1) -> tuple[bytes, dict[str, Any]]:
    """A layer of an encoder, for sequences of any length, and any number of them unless there is one."""
    width, heads = 24, 3
    nodes: list[NodeProto] = [node("LayerNormalization", "x s o", "n")]
    for name in "qkv":
        nodes += [
            node("MatMul", f"n w{name}", f"{name}1"),
            node("Add", f"{name}1 b{name}", f"{name}2"),
            node("Reshape", f"{name}2 heads", f"{name}3"),
            node("Transpose", f"{name}3", f"{name}4", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        node("MatMul", "q4 k4", "scores"),
        node("Mul", "scores scale", "scaled"),
        node("Softmax", "scaled", "p", axis=-1),
        node("MatMul", "p v4", "mixed"),
        node("Transpose", "mixed", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t whole", "u"),
        node("MatMul", "u wo", "z"),
        node("Add", "z x", "sum"),
        node("Gelu", "sum", "y"),
    ]
    constants = {f"w{name}": numbers(width, width) / 5 for name in "qkvo"} | {
        f"b{name}": numbers(width) for name in "qkv"
    }
    constants |= {"s": numbers(width), "o": numbers(width), "scale": np.array(8**-0.5, np.float32)}
    kept = [1, -1] if batch == 1 else [0, 0]
    shapes = {"heads": np.array([*kept, heads, width // heads]), "whole": np.array([*kept, width])}
    x = numbers(batch, 7, width)
    data = model(nodes, {"x": x}, constants | shapes, dynamic=frozenset({1} if batch == 1 else {0, 1}))
    return data, {"x": x}


def open_bert() -> tuple[bytes, dict[str, Any]]:
    """The same for any number of sequences."""
    return bert(2)


def vit() -> tuple[bytes, dict[str, Any]]:
    """Patches of an image with a class token and places, a layer over them, and the class of the token."""
    width, heads, patches = 16, 2, 16
    nodes: list[NodeProto] = [
        node("Conv", "x wp bp", "c", strides=[4, 4]),
        node("Reshape", "c flat", "f"),
        node("Transpose", "f", "t", perm=[0, 2, 1]),
        node("Concat", "token t", "tt", axis=1),
        node("Add", "tt places", "e"),
        node("LayerNormalization", "e s o", "n"),
        node("MatMul", "n wqkv", "qkv"),
        node("Split", "qkv", "q0 k0 v0", axis=-1, num_outputs=3),
    ]
    for name in "qkv":
        turned = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            node("Reshape", f"{name}0 heads", f"{name}1"),
            node("Transpose", f"{name}1", f"{name}2", perm=turned),
        ]
    nodes += [
        node("MatMul", "q2 k2", "scores"),
        node("Div", "scores root", "scaled"),
        node("Softmax", "scaled", "p", axis=-1),
        node("MatMul", "p v2", "mixed"),
        node("Transpose", "mixed", "m", perm=[0, 2, 1, 3]),
        node("Reshape", "m whole", "u"),
        node("Gemm", "u wo", "z"),
        node("Reshape", "z three", "z3"),
        node("Add", "z3 e", "sum"),
        node("Gather", "sum first", "cls", axis=1),
        node("Gemm", "cls wc bc", "y"),
    ]
    tokens = patches + 1
    constants: dict[str, Any] = {
        "wp": numbers(width, 3, 4, 4) / 5, "bp": numbers(width), "token": numbers(1, 1, width),
        "places": numbers(1, tokens, width), "s": numbers(width), "o": numbers(width),
        "wqkv": numbers(width, 3 * width) / 4, "root": np.array((width / heads) ** 0.5, np.float32),
        "wo": numbers(width, width) / 4, "wc": numbers(width, 5), "bc": numbers(5),
        "flat": np.array([1, width, patches]), "heads": np.array([1, tokens, heads, width // heads]),
        "whole": np.array([tokens, width]), "three": np.array([1, tokens, width]), "first": np.array(0),
    }  # fmt: skip
    feeds = {"x": numbers(1, 3, 16, 16)}
    return model(nodes, feeds, constants), feeds


def lstm() -> tuple[bytes, dict[str, Any]]:
    """Words of a sequence, read in both directions, and the scores of each."""
    nodes = [
        node("Gather", "table x", "words"),
        node("LSTM", "words w r b", "states", hidden_size=6, direction="bidirectional"),
        node("Transpose", "states", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t joined", "j"),
        node("MatMul", "j wy", "m"),
        node("Add", "m by", "a"),
        node("LogSoftmax", "a", "y", axis=-1),
    ]
    constants = {
        "table": numbers(20, 8), "w": numbers(2, 24, 8) / 3, "r": numbers(2, 24, 6) / 3, "b": numbers(2, 48),
        "joined": np.array([7, 2, 12]), "wy": numbers(12, 4), "by": numbers(4),
    }  # fmt: skip
    feeds = {"x": RNG.integers(-20, 20, (7, 2))}
    return model(nodes, feeds, constants), feeds


def unet() -> tuple[bytes, dict[str, Any]]:
    """Down and up again, with what was there before beside it."""
    nodes = [
        node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1]),
        node("InstanceNormalization", "c1 s1 o1", "n1"),
        node("LeakyRelu", "n1", "r1", alpha=0.2),
        node("MaxPool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p1 w2 b2", "c2", pads=[1, 1, 1, 1]),
        node("Relu", "c2", "r2"),
        node("ConvTranspose", "r2 w3 b3", "u1", strides=[2, 2]),
        node("Concat", "u1 r1", "j1", axis=1),
        node("Resize", "r2 - twice", "u2", mode="linear"),
        node("Concat", "j1 u2", "j2", axis=1),
        node("Conv", "j2 w4 b4", "c4"),
        node("Sigmoid", "c4", "y"),
    ]
    constants = {
        "w1": numbers(6, 3, 3, 3), "b1": numbers(6), "s1": numbers(6), "o1": numbers(6), "w2": numbers(8, 6, 3, 3) / 5,
        "b2": numbers(8), "w3": numbers(8, 4, 2, 2), "b3": numbers(4), "w4": numbers(2, 18, 1, 1), "b4": numbers(2),
        "twice": np.array([1, 1, 2, 2], np.float32),
    }  # fmt: skip
    feeds = {"x": numbers(2, 3, 12, 16)}
    return model(nodes, feeds, constants), feeds


def grouped() -> tuple[bytes, dict[str, Any]]:
    """Attention as one operator with fewer heads of keys, for sequences of any length."""
    nodes = [node("MatMul", f"x w{name}", name) for name in "qkv"]
    nodes.append(node("Attention", "q k v", "a", q_num_heads=4, kv_num_heads=2))
    nodes += [node("MatMul", "a wo", "z"), node("Add", "z x", "y")]
    constants = {f"w{name}": numbers(16, width) / 4 for name, width in (("q", 24), ("k", 12), ("v", 8), ("o", 16))}
    feeds = {"x": numbers(1, 5, 16)}
    return model(nodes, feeds, constants, opset=23, dynamic=frozenset({1})), feeds


def few_bits(kind: Any, block: int, axis: int = 0) -> tuple[bytes, dict[str, Any]]:
    """A product with weights of few bits, which have a scale for each block, or for each place of an axis."""
    rng = np.random.default_rng(4)
    low, high = (0, 15) if kind == ml_dtypes.uint4 else (-8, 7)
    shape = ((8 // block, 6) if axis == 0 else (8, 6 // block)) if block else (6,)
    constants = {
        "q": rng.integers(low, high, (8, 6), endpoint=True).astype(kind),
        "s": rng.uniform(0.01, 0.1, shape).astype(np.float32),
        "o": rng.integers(0, high, shape, endpoint=True).astype(kind),
    }
    made = node("DequantizeLinear", "q s o", "w", axis=axis if block else 1, **({"block_size": block} if block else {}))
    feeds = {"x": numbers(3, 8)}
    return model([made, node("MatMul", "x w")], feeds, constants, opset=21), feeds


NETWORKS = [cnn, bert, open_bert, vit, lstm, unet, grouped]
