"""One small call of each fused, block-quantised and borrowed operator: (operator, inputs, arguments of `run`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..oracle import sample

__all__ = ["CASES", "IDS"]

_X = sample((2, 3, 8), np.float32)
_ROW = sample((8,), np.float32, 1)
_PICTURE, _FILTER = sample((1, 2, 5, 5), np.float32), sample((3, 2, 3, 3), np.float32, 1)
_BYTES = np.random.default_rng(0).integers(0, 256, (6, 2, 8), dtype=np.uint8)
_SCALES = sample((6, 2), np.float32, 2)
_EXPERTS = [sample((4, 10, 8), np.float32, 3), None, sample((4, 8, 10), np.float32, 4), None]
_SCORES = sample((6, 4), np.float32, 5)

CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Gelu", [_X], {}),
    ("QuickGelu", [_X], {}),
    ("BiasGelu", [_X, _ROW], {}),
    ("FastGelu", [_X.astype(np.float16), _ROW.astype(np.float16)], {}),
    ("FusedMatMul", [_X, sample((3, 2, 8), np.float32)], {"transB": 1, "transBatchA": 1, "alpha": 0.5}),
    ("FusedGemm", [_X[0], _X[1], sample((3,), np.float32)], {"transB": 1, "activation": "Tanh"}),
    ("FusedConv", [_PICTURE, _FILTER, None, sample((1, 3, 3, 3), np.float32)], {"activation": "Relu"}),
    ("SkipLayerNormalization", [_X, _X[0], _ROW, _ROW, _ROW], {"outputs": 4}),
    ("SkipSimplifiedLayerNormalization", [_X, _X, _ROW], {"outputs": 4}),
    ("SimplifiedLayerNormalization", [_X, _ROW], {"domain": "", "opset": 17, "outputs": 2}),
    (
        "EmbedLayerNormalization",
        [np.array([[1, 0]], np.int32), None, _X[0], _X[1], None, _ROW, _ROW, np.array([[1, 0]], np.int32)],
        {"outputs": 3},
    ),
    ("MatMulNBits", [_X[:, :, :1].repeat(32, 2), _BYTES, _SCALES], {"N": 6, "K": 32, "block_size": 16}),
    ("MatMulNBits", [_X[:1, :1, :1].repeat(32, 2), _BYTES, _SCALES], {"N": 6, "K": 32, "block_size": 16}),
    ("MatMulBnb4", [_X, _BYTES.reshape(-1)[:24], _ROW[:3]], {"N": 6, "K": 8, "block_size": 16, "quant_type": 1}),
    (
        "MatMulBnb4",
        [_X, _BYTES.reshape(-1)[:24], _ROW[:3]],
        {"N": 8, "K": 6, "block_size": 16, "quant_type": 0, "transB": 0},
    ),
    ("GatherBlockQuantized", [_BYTES[:, 0], np.array([5, -1, 7]), _SCALES[:, :1]], {"block_size": 16}),
    ("MoE", [_X, _SCORES, *_EXPERTS], {"k": 2, "activation_type": "gelu"}),
    (
        "QMoE",
        [
            *(sample((6, 8), np.float32), _SCORES),
            *(_BYTES[:4, 0].reshape(4, 2, 4), _ROW.reshape(4, 2), None),
            *(_BYTES[:4, 1, :8].reshape(4, 8, 1), sample((4, 8), np.float32, 6)),
        ],
        {"k": 2},
    ),
    ("Inverse", [sample((2, 3, 3), np.float32)], {}),
    ("Trilu", [_X], {}),
    ("Pad", [_X[0], np.array([1, 0, 0, 1])], {}),
    ("Unique", [np.array([3, 1, 3, 2])], {"outputs": 3}),
    ("Range", [np.array(1), np.array(7), np.array(2)], {}),
    ("GatherND", [_X, np.array([[0, 1], [1, 2]])], {}),
    ("CDist", [_X[0], _X[1]], {}),
    ("ConvTransposeWithDynamicPads", [_PICTURE, sample((2, 3, 3, 3), np.float32), np.array([1, 0, 0, 1])], {}),
    ("NGramRepeatBlock", [np.array([[0, 1, 0]]), _ROW.reshape(1, 8)], {"ngram_size": 2}),
    ("GridSample", [_PICTURE, sample((1, 2, 2, 2), np.float32, 1, -1, 1)], {}),
]

IDS = [f"{name}-{index}" for index, (name, *_) in enumerate(CASES)]
