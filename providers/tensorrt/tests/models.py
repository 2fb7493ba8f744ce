"""Small models of the kinds that the provider is for: convolutions, encoders of text and of pictures, open sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ort_py_kit.graphs import model_from_text

__all__ = ["bert", "cnn", "mlp", "vit", "with_weights"]

WIDTH = 32


def with_weights(text: str, weights: Mapping[str, tuple[int, ...]], *, seed: int = 7, **given: Any) -> onnx.ModelProto:
    """Make a model of text, with random weights of these shapes and the arrays that are given."""
    random = np.random.default_rng(seed)
    model = model_from_text(text)
    arrays = {name: random.normal(0, 0.2, shape).astype(np.float32) for name, shape in weights.items()}
    for name, array in (arrays | given).items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return model


def mlp(rows: int | str = 4, seed: int = 7) -> onnx.ModelProto:
    """Two products."""
    text = f"g (float[{rows}, 32] x) => (float[{rows}, 16] y) {{ a = MatMul(x, w) b = Relu(a) y = MatMul(b, v) }}"
    return with_weights(text, {"w": (32, 64), "v": (64, 16)}, seed=seed)


def cnn(batch: int | str = 1) -> onnx.ModelProto:
    """Convolutions, a residual, pools and a classifier."""
    text = f"""g (float[{batch}, 3, 16, 16] x) => (float[{batch}, 10] y) {{
        a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w0, b0) b = Relu(a)
        c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(b, w1, b1) d = Add(b, c) e = Relu(d)
        f = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(e) h = GlobalAveragePool(f)
        i = Flatten(h) y = Gemm(i, w2, b2) }}"""
    shapes = {"w0": (8, 3, 3, 3), "b0": (8,), "w1": (8, 8, 3, 3), "b1": (8,), "w2": (8, 10), "b2": (10,)}
    return with_weights(text, shapes)


def _layer(name: str) -> tuple[str, dict[str, tuple[int, ...]]]:
    """A layer of an encoder, from x to z, with two heads."""
    p = name
    text = f"""
        {p}q0 = MatMul({p}x, {p}wq) {p}k0 = MatMul({p}x, {p}wk) {p}v0 = MatMul({p}x, {p}wv)
        {p}q1 = Reshape({p}q0, heads) {p}k1 = Reshape({p}k0, heads) {p}v1 = Reshape({p}v0, heads)
        {p}q = Transpose<perm = [0, 2, 1, 3]>({p}q1) {p}k = Transpose<perm = [0, 2, 3, 1]>({p}k1)
        {p}v = Transpose<perm = [0, 2, 1, 3]>({p}v1)
        {p}s0 = MatMul({p}q, {p}k) {p}s1 = Mul({p}s0, scale) {p}s2 = Softmax<axis = -1>({p}s1)
        {p}o0 = MatMul({p}s2, {p}v) {p}o1 = Transpose<perm = [0, 2, 1, 3]>({p}o0) {p}o2 = Reshape({p}o1, joined)
        {p}o3 = MatMul({p}o2, {p}wo) {p}r0 = Add({p}x, {p}o3) {p}n0 = LayerNormalization({p}r0, {p}g0, {p}h0)
        {p}f0 = MatMul({p}n0, {p}w0) {p}f1 = Gelu({p}f0) {p}f2 = MatMul({p}f1, {p}w1)
        {p}r1 = Add({p}n0, {p}f2) {p}z = LayerNormalization({p}r1, {p}g1, {p}h1)"""
    square: dict[str, tuple[int, ...]] = {f"{p}w{one}": (WIDTH, WIDTH) for one in "qkvo"}
    vectors: dict[str, tuple[int, ...]] = {f"{p}{one}": (WIDTH,) for one in ("g0", "h0", "g1", "h1")}
    return text, square | vectors | {f"{p}w0": (WIDTH, 2 * WIDTH), f"{p}w1": (2 * WIDTH, WIDTH)}


def _constants() -> dict[str, Any]:
    return {
        "heads": np.array([0, 0, 2, WIDTH // 2]),
        "joined": np.array([0, 0, WIDTH]),
        "scale": np.array((WIDTH / 2) ** -0.5, np.float32),
    }


def bert(batch: int | str = 1, length: int | str = 8) -> onnx.ModelProto:
    """An embedding, a layer of an encoder of text, and a classifier."""
    text, shapes = _layer("e")
    words = f"""g (int64[{batch}, {length}] ids) => (float[{batch}, {length}, 4] y) {{
        ex = Gather(table, ids) {text} y = MatMul(ez, head) }}"""
    return with_weights(words, shapes | {"table": (50, WIDTH), "head": (WIDTH, 4)}, **_constants())


def vit(batch: int | str = 1) -> onnx.ModelProto:
    """Patches of a picture, a layer of an encoder, and a classifier."""
    text, shapes = _layer("e")
    words = f"""g (float[{batch}, 3, 16, 16] x) => (float[{batch}, 5] y) {{
        p0 = Conv<kernel_shape = [4, 4], strides = [4, 4]>(x, patch) p1 = Reshape(p0, flat)
        p2 = Transpose<perm = [0, 2, 1]>(p1) ex = Add(p2, place) {text}
        m = ReduceMean<keepdims = 0>(ez, axis) y = MatMul(m, head) }}"""
    shapes = shapes | {"patch": (WIDTH, 3, 4, 4), "place": (16, WIDTH), "head": (WIDTH, 5)}
    return with_weights(words, shapes, flat=np.array([0, 0, -1]), axis=np.array([1]), **_constants())
