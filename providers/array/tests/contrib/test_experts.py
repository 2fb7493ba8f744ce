"""MoE and QMoE against onnxruntime, and a loop over tokens in float64 for what its CPU lacks."""

from __future__ import annotations

import math
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py import errors
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.routing import chosen_experts, sparse_mixer
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, sample
from ..runtime_oracle import agree_with_runtime, runtime_outputs
from .closed_forms import DOMAIN, contrib, rounded_once

E, H, I = 4, 32, 48  # noqa: E741 - experts, hidden and inner size, as the papers call them
_SWIGLU: dict[str, Any] = {
    "activation_type": "swiglu",
    "activation_alpha": 1.702,
    "activation_beta": 1.0,
    "swiglu_limit": 2.0,
}


def _weights(outputs: int, inputs: int, seed: int, dtype: Any = np.float32) -> list[Any]:
    """Weights and biases of all experts."""
    return [sample((E, outputs, inputs), dtype, seed, -0.3, 0.3), sample((E, outputs), dtype, seed + 1, -1, 1)]


def _inputs(shape: tuple[int, ...], outputs: int, dtype: Any = np.float32, third: bool = False) -> list[Any]:
    tokens = math.prod(shape[:-1])
    inputs = [sample(shape, dtype, 0, -1, 1), sample((tokens, E), dtype, 1)]
    inputs += [*_weights(outputs, H, 2, dtype), *_weights(H, I, 4, dtype)]
    return inputs + (_weights(I, H, 6, dtype) if third else [])


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


_FORMULAS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * _sigmoid(x),
    "identity": lambda x: x,
}


def _swiglu(gate: Any, value: Any) -> Any:
    gate, value = np.minimum(gate, 2.0), np.clip(value, -2.0, 2.0)
    return gate * _sigmoid(1.702 * gate) * (value + 1.0)


def _by_token(inputs: list[Any], k: int, normalized: bool, hidden: Any, weights: Any = None) -> Any:
    """One token after the other; ``hidden(first, third)`` is what goes into the second projection."""
    x, scores, *parts = [value.astype(np.float64) for value in inputs]
    rows = x.reshape(-1, x.shape[-1])
    out = np.zeros_like(rows)
    for t, row in enumerate(rows):
        shares = np.exp(scores[t]) / np.exp(scores[t]).sum()
        best = np.argsort(-shares)[:k]
        mixing = shares[best] if weights is None else weights[t].astype(np.float64)[best]
        if normalized:
            mixing = mixing / mixing.sum()
        for expert, share in zip(best, mixing, strict=True):
            first = parts[0][expert] @ row + parts[1][expert]
            third = parts[4][expert] @ row + parts[5][expert] if len(parts) > 4 else None
            out[t] += share * (parts[2][expert] @ hidden(first, third) + parts[3][expert])
    return out.reshape(x.shape)


@pytest.mark.parametrize("normalized", [0, 1])
@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("activation", _FORMULAS)
def test_moe(activation: str, k: int, normalized: int) -> None:
    """Each activation, one to all experts, weights as they are and adding up to 1."""
    attributes: dict[str, Any] = {"activation_type": activation, "k": k, "normalize_routing_weights": normalized}
    agree_with_runtime("MoE", _inputs((2, 5, H), I), opset=1, domain=DOMAIN, **attributes)


@pytest.mark.parametrize("biases", [True, False])
def test_moe_with_interleaved_swiglu(biases: bool) -> None:
    """Gate and value are neighbours in the first projection; packed tokens have two axes."""
    inputs = _inputs((10, H), 2 * I)
    if not biases:
        inputs[3] = inputs[5] = None
    agree_with_runtime("MoE", inputs, opset=1, domain=DOMAIN, k=2, swiglu_fusion=1, **_SWIGLU)


@pytest.mark.parametrize("fusion", [0, 2])
def test_moe_with_other_forms_of_swiglu(fusion: int) -> None:
    """Gate and value in two projections, or in halves of one: onnxruntime's CPU has neither."""
    inputs = _inputs((6, H), I if fusion == 0 else 2 * I, third=fusion == 0)
    (y,) = contrib("MoE", inputs, k=2, swiglu_fusion=fusion, **_SWIGLU)
    exact = _by_token(inputs, 2, False, lambda a, b: _swiglu(a, b) if fusion == 0 else _swiglu(a[:I], a[I:]))
    rounded_once(y, exact, np.float32)


def test_moe_without_limits_of_swiglu() -> None:
    """By default nothing is clipped, alpha is 1 and beta 0."""
    inputs = _inputs((6, H), I, third=True)
    (y,) = contrib("MoE", inputs, k=2, activation_type="swiglu")
    rounded_once(y, _by_token(inputs, 2, False, lambda a, b: a * _sigmoid(a) * b), np.float32)


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float16), BF16], ids=str)
def test_moe_with_a_gate_and_of_all_types(dtype: Any) -> None:
    """With a third projection, the activated hidden layer is multiplied by it, as in Mixtral; rounded once."""
    inputs = _inputs((2, 4, H), I, dtype, third=True)
    (y,) = contrib("MoE", inputs, k=2, activation_type="silu", normalize_routing_weights=1)
    rounded_once(y, _by_token(inputs, 2, True, lambda a, b: a * _sigmoid(a) * b), dtype)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 12), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_moe_of_any_number_of_tokens(tokens: int, k: int, normalized: bool, seed: int) -> None:
    """None, one and many; experts without tokens are not asked."""
    inputs = _inputs((tokens, H), I)
    inputs[1] = sample((tokens, E), np.float32, seed)
    (y,) = contrib("MoE", inputs, k=k, normalize_routing_weights=int(normalized))
    exact = _by_token(inputs, k, normalized, lambda a, _: np.maximum(a, 0))
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-4)


def _mixer(scores: Any) -> list[tuple[int, float]]:
    """SparseMixer's choice for one token, as the Phi-3.5-MoE model describes it."""
    found: list[tuple[int, float]] = []
    for _ in range(2):
        left = {e: s for e, s in enumerate(scores) if e not in [expert for expert, _ in found]}
        best = max(left, key=lambda expert: left[expert])
        near = [s for s in left.values() if (left[best] - s) / max(abs(s), left[best]) <= 0.02]
        found.append((best, math.exp(left[best]) / sum(math.exp(s) for s in near)))
    return found


def test_the_sparse_mixer() -> None:
    """Scores far below the best take no part in its weight; the second is weighed without the first."""
    scores = sample((200, 5), np.float32, 3, 0.9, 1.0)
    experts, shares = sparse_mixer(scores)
    for t, row in enumerate(scores.astype(np.float64)):
        expected = _mixer(row.tolist())
        assert experts[t].tolist() == [expert for expert, _ in expected]
        np.testing.assert_allclose(shares[t], [share for _, share in expected], rtol=1e-5)
    inputs = _inputs((3, H), I)
    inputs[1] = np.array([[1.0, 0.995, 0.2, -1], [0, 3, 2.99, 1], [-2, -1, -1.01, -3]], np.float32)
    (y,) = contrib("MoE", inputs, k=2, use_sparse_mixer=1)
    single = [np.zeros((3, E), np.float32) for _ in range(2)]
    for t, row in enumerate(inputs[1].tolist()):
        for place, (expert, share) in enumerate(_mixer(row)):
            single[place][t, expert] = share
    x, _, w1, b1, w2, b2 = (value.astype(np.float64) for value in inputs)
    hidden = np.maximum(np.einsum("eih,th->tei", w1, x) + b1, 0)
    rounded_once(
        y, np.einsum("te,teh->th", single[0] + single[1], np.einsum("ehi,tei->teh", w2, hidden) + b2), np.float32
    )


def test_equal_scores() -> None:
    """The last of equal experts comes first, as in onnxruntime."""
    inputs = _inputs((3, H), I)
    inputs[1] = np.zeros((3, E), np.float32)
    assert chosen_experts(inputs[1], 2, None, normalized=False)[0].tolist() == [[3, 2]] * 3
    agree_with_runtime("MoE", inputs, opset=1, domain=DOMAIN, k=2)


_MOE = _inputs((5, H), I)


@pytest.mark.parametrize(
    ("changes", "attributes", "message"),
    [
        ({}, {"activation_type": "tanh"}, r"activation_type is 'tanh'[\s\S]*gelu, identity, relu, silu, swiglu"),
        ({}, {"activation_type": "swiglu", "swiglu_fusion": 3}, "swiglu_fusion is 3"),
        ({}, {"activation_type": "swiglu"}, r"swiglu_fusion is 0, and fc3_experts_weights are absent[\s\S]*in fc3"),
        ({}, {"use_sparse_mixer": 1}, r"but k is 1[\s\S]*Set k to 2"),
        ({}, {"k": 5}, r"k is 5, but there are 4 experts[\s\S]*at most all"),
        ({0: np.ones(H, np.float32)}, {}, "The input has rank 1"),
        ({1: np.ones((4, E), np.float32)}, {}, r"router_probs has shape \[4, 4\] instead of \[5, 4\][\s\S]*each token"),
        ({2: np.ones((E, I, H - 1), np.float32)}, {}, r"fc1_experts_weights has shape \[4, 48, 31\]"),
        ({3: np.ones((E, I + 1), np.float32)}, {}, r"fc1_experts_bias has shape \[4, 49\][\s\S]*biases"),
    ],
)
def test_moe_refuses(changes: dict[int, Any], attributes: dict[str, Any], message: str) -> None:
    """Attributes and shapes that do not fit."""
    inputs = list(_MOE)
    for index, value in changes.items():
        inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib("MoE", inputs, **attributes)


def _bytes(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def _quantized(outputs: int, inputs: int, bits: int, block: int, seed: int, dtype: Any = np.float32) -> list[Any]:
    """Weights, scales, biases and zero points of all experts."""
    blocks = inputs // block if block else 1
    scales = sample((E, outputs, blocks) if block else (E, outputs), dtype, seed, 0.05 / 2**bits, 0.4 / 2**bits)
    zeros = (E, outputs, -(-blocks * bits // 8)) if block else (E, -(-outputs * bits // 8))
    return [
        _bytes(seed, E, outputs, inputs * bits // 8),
        scales,
        sample((E, outputs), dtype, seed),
        _bytes(seed, *zeros),
    ]


def _quantized_inputs(
    tokens: int, outputs: int, bits: int, block: int, zeros: bool, dtype: Any = np.float32
) -> list[Any]:
    first, second = _quantized(outputs, H, bits, block, 2, dtype), _quantized(H, I, bits, block, 3, dtype)
    inputs = [
        sample((tokens, H), dtype, 0, -1, 1),
        sample((tokens, E), dtype, 1),
        *first[:3],
        *second[:3],
        None,
        None,
        None,
    ]
    return [*inputs, first[3], second[3]] if zeros else inputs


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_qmoe(bits: int, activation: str, block: int, zeros: bool) -> None:
    """A scale and zero point for each row, whose zero points share bytes, or for each block."""
    swiglu = activation == "swiglu"
    attributes: dict[str, Any] = {"k": 2, "normalize_routing_weights": 1, "expert_weight_bits": bits}
    attributes |= {"swiglu_fusion": 1, **_SWIGLU} if swiglu else {}
    attributes |= {"block_size": block} if block else {}
    inputs = _quantized_inputs(7, 2 * I if swiglu else I, bits, block, zeros)
    agree_with_runtime("QMoE", inputs, opset=1, domain=DOMAIN, **attributes)


def _plain(weights: Any, scales: Any, bits: int) -> Any:
    """Dequantised with the default zero point, one scale per row or block."""
    fields = [(weights >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    values = np.stack(fields, -1).reshape(*weights.shape[:-1], -1) - float(2 ** (bits - 1))
    scales = scales.astype(np.float64).reshape(*weights.shape[:-1], -1)
    return values * np.repeat(scales, values.shape[-1] // scales.shape[-1], axis=-1)


def test_qmoe_normalizes_where_it_is_told_to() -> None:
    """onnxruntime's CPU does so always, its MoE (and its other devices) as the attribute says; so do we."""
    inputs = _quantized_inputs(7, I, 4, 16, zeros=True)
    attributes: dict[str, Any] = {"k": 2, "block_size": 16}
    arguments: dict[str, Any] = {"opset": 1, "domain": DOMAIN}
    (always,) = runtime_outputs("QMoE", inputs, **arguments, **attributes)
    assert_close(contrib("QMoE", inputs, normalize_routing_weights=1, **attributes)[0], always)
    shares = np.exp(inputs[1]) / np.exp(inputs[1]).sum(1, keepdims=True)
    chosen = np.sort(shares, axis=1)[:, -2:].sum(1, keepdims=True)
    assert_close(contrib("QMoE", inputs, **attributes)[0], always * chosen)


@pytest.mark.parametrize("normalized", [0, 1])
def test_qmoe_with_routing_weights(normalized: int) -> None:
    inputs = [*_quantized_inputs(7, I, 4, 16, zeros=True), None, sample((7, E), np.float32, 8, 0.1, 1)]
    attributes: dict[str, Any] = {"k": 2, "normalize_routing_weights": normalized, "block_size": 16}
    agree_with_runtime("QMoE", inputs, opset=1, domain=DOMAIN, **attributes)


def test_many_tokens_of_one_expert() -> None:
    inputs = _inputs((1500, H), I)
    inputs[2], inputs[3] = (np.repeat(value, 200, axis=1) for value in inputs[2:4])
    inputs[4] = np.repeat(inputs[4] / np.float32(200), 200, axis=2)
    inputs[1][:, 0] = 9
    agree_with_runtime("MoE", inputs, opset=1, domain=DOMAIN)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_qmoe_with_separate_routing_weights_and_bits(dtype: Any) -> None:
    """One tensor selects, another weighs; projections have their own numbers of bits; narrow floats round once."""
    first, second, third = (
        _quantized(I, H, 8, 16, 2, dtype),
        _quantized(H, I, 4, 16, 3, dtype),
        _quantized(I, H, 2, 16, 4, dtype),
    )
    x, scores, mixing = sample((6, H), dtype, 0, -1, 1), sample((6, E), dtype, 1), sample((6, E), dtype, 2, 0.1, 1)
    inputs = [x, scores, *first[:3], *second[:3], *third[:3], None, None, None, mixing]
    bits = {"fc1_expert_weight_bits": 8, "fc3_expert_weight_bits": 2}
    (y,) = contrib("QMoE", inputs, k=2, activation_type="silu", block_size=16, normalize_routing_weights=1, **bits)
    plain = [x, scores, _plain(first[0], first[1], 8), first[2], _plain(second[0], second[1], 4), second[2]]
    plain += [_plain(third[0], third[1], 2), third[2]]
    exact = _by_token(plain, 2, True, lambda a, b: a * _sigmoid(a) * b, mixing)
    rounded_once(y, exact, dtype)


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


@pytest.mark.parametrize("kind", ["fp8", "fp8 in blocks", "fp4", "nvfp4"])
def test_qmoe_of_floating_point_weights(kind: str) -> None:
    """Squares of float8 or runs of float4 share a scale, or an expert does: no CPU of onnxruntime's has these."""
    quant_type, block = kind.split(maxsplit=1)[0], 20 if "blocks" in kind else 0
    plain, stored, factors = [], [], []
    for seed, (rows, width) in ((2, (I, H)), (3, (H, I))):
        if quant_type == "fp8":
            weights = sample((E, rows, width), ml_dtypes.float8_e4m3fn, seed, -1, 1)
            exact, tall, wide = weights.astype(np.float64), block, block
        else:
            weights, tall, wide = _bytes(seed, E, rows, width // 2), 1, {"fp4": 32, "nvfp4": 16}[quant_type]
            exact = _E2M1[np.stack([weights & 15, weights >> 4], -1).reshape(E, rows, width)]
        scales, factor = None, sample((E,), np.float32, seed, 0.1, 0.3)
        if wide:
            dtype = {"fp8": np.float32, "fp4": ml_dtypes.float8_e8m0fnu, "nvfp4": ml_dtypes.float8_e4m3fn}[quant_type]
            scales = sample((E, -(-rows // tall), -(-width // wide)), np.float32, seed, 0.25, 1).astype(dtype)
            by_row = np.repeat(scales.astype(np.float64), tall, 1)[:, :rows]
            exact = exact * np.repeat(by_row, wide, 2)[:, :, :width]
        if not block:
            exact = exact * factor.astype(np.float64)[:, None, None]
        bias = sample((E, rows), np.float32, seed + 1)
        stored += [weights, scales, bias]
        plain += [exact, bias]
        factors.append(None if block else factor)
    x, scores = sample((6, H), np.float32, 0, -1, 1), sample((6, E), np.float32, 1)
    inputs = [x, scores, *stored, *[None] * 7, *factors]
    attributes = {"block_size": block} if block else {}
    (y,) = contrib("QMoE", inputs, k=2, quant_type=quant_type, **attributes)
    rounded_once(y, _by_token([x, scores, *plain], 2, False, lambda a, _: np.maximum(a, 0)), np.float32)


_QMOE = _quantized_inputs(5, I, 4, 16, zeros=True)


@pytest.mark.parametrize(
    ("changes", "attributes", "message"),
    [
        ({}, {"expert_weight_bits": 3}, r"fc1_expert_weight_bits is 3[\s\S]*2, 4 or 8"),
        ({0: np.ones((5, 0), np.float32)}, {"block_size": 0}, r"fc1 has 0 inputs of 4 bits, in blocks of 0"),
        ({}, {"block_size": 64}, r"fc1 has 32 inputs of 4 bits, in blocks of 64[\s\S]*whole blocks"),
        ({2: _bytes(0, E, I, 15)}, {}, r"fc1_experts_weights has shape \[4, 48, 15\]"),
        ({3: None}, {}, r"fc1_scales are absent[\s\S]*need their scales"),
        ({3: np.ones((E, I, 3), np.float32)}, {}, r"fc1_scales has shape \[4, 48, 3\] instead of \[4, 48, 2\]"),
        ({4: np.ones((E, 1), np.float32)}, {}, r"fc1_experts_bias has shape \[4, 1\]"),
        ({11: _bytes(0, E, I, 2)}, {}, r"fc1_zero_points has shape \[4, 48, 2\]"),
        ({14: np.ones((1, E), np.float32)}, {}, r"router_weights has shape \[1, 4\]"),
        (
            {},
            {"quant_type": "fp4"},
            r"fc1_scales is of shape \[4, 48, 2\]; quant_type 'fp4' needs the shape \[4, 48, 1\]",
        ),
        ({}, {"quant_type": "nvfp4"}, r"fc1_global_scale is absent[\s\S]*quant_type and block_size"),
    ],
)
def test_qmoe_refuses(changes: dict[int, Any], attributes: dict[str, Any], message: str) -> None:
    """Attributes and shapes that do not fit."""
    inputs = [*_QMOE, None, None]
    for index, value in changes.items():
        inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib("QMoE", inputs, **{"block_size": 16, **attributes})


def test_qmoe_refuses_weights_of_another_type() -> None:
    """fp8 means float8e4m3fn, and nothing that merely has its shape."""
    inputs = [*_quantized_inputs(5, I, 8, 0, zeros=False), *[None] * 4, np.ones(E, np.float32), np.ones(E, np.float32)]
    with pytest.raises(
        InvalidArgument, match=re.escape("fc1_experts_weights are uint8; quant_type 'fp8' needs float8_e4m3fn")
    ):
        contrib("QMoE", inputs, quant_type="fp8")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"quant_type": "wfp4afp8"}, r"quant_type 'wfp4afp8'[\s\S]*Use int, fp8, fp4 or nvfp4"),
        ({"weights_prepacked": 1}, r"weights_prepacked=1\)[\s\S]*weights_prepacked=0"),
    ],
)
def test_what_only_devices_have_is_refused(attributes: dict[str, Any], message: str) -> None:
    """Quantised activations, and weights in a device's layout."""
    with pytest.raises(errors.NotImplemented, match=message):
        contrib("QMoE", _QMOE, block_size=16, **attributes)
