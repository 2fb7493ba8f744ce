"""FusedMatMul, FusedGemm and FusedConv against onnxruntime, and float64 formulas for the types it lacks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import BF16, run, sample
from ..runtime_oracle import agree_with_runtime
from .closed_forms import DOMAIN, contrib, rounded_once


def _stored(x: Any, swap: bool, batch: bool) -> Any:
    """An operand as it is stored for a node with these attributes to see `x`."""
    if swap:
        x = np.swapaxes(x, -1, -2)
    return np.ascontiguousarray(np.moveaxis(x, -2, 0) if batch else x)


@pytest.mark.parametrize("batches", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("swaps", [(False, False), (True, False), (False, True), (True, True)], ids=str)
def test_fused_matmul_transposes(swaps: tuple[bool, bool], batches: tuple[bool, bool]) -> None:
    """All sixteen ways to store two batches of matrices."""
    a, b = sample((2, 3, 4, 5), np.float32), sample((2, 3, 5, 6), np.float32, 1)
    inputs = [_stored(a, swaps[0], batches[0]), _stored(b, swaps[1], batches[1])]
    names = ("transA", "transB", "transBatchA", "transBatchB")
    attributes: dict[str, Any] = {name: int(value) for name, value in zip(names, (*swaps, *batches), strict=True)}
    agree_with_runtime("FusedMatMul", inputs, opset=1, domain=DOMAIN, alpha=0.5, **attributes)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 3), max_size=2),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)
def test_fused_matmul_of_any_shape(lead: list[int], m: int, k: int, n: int, swap_a: bool, swap_b: bool) -> None:
    """Batches by one matrix, empty axes included: what MatMul gives, times alpha."""
    a, b = sample((*lead, m, k), np.float32), sample((k, n), np.float32, 1)
    inputs = [_stored(a, swap_a, False), _stored(b, swap_b, False)]
    (y,) = contrib("FusedMatMul", inputs, transA=int(swap_a), transB=int(swap_b), alpha=-2.0)
    np.testing.assert_allclose(y, -2 * (a @ b), rtol=1e-5, atol=1e-5)


def test_fused_matmul_leaves_vectors_alone() -> None:
    """A vector has nothing to transpose."""
    inputs = [sample((5,), np.float32), sample((5, 3), np.float32)]
    agree_with_runtime("FusedMatMul", inputs, opset=1, domain=DOMAIN, transA=1)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16, np.dtype(np.float64)], ids=str)
def test_fused_matmul_of_other_floats(dtype: Any) -> None:
    """Alpha is multiplied before the one rounding."""
    a, b = sample((3, 8), dtype), sample((8, 4), dtype, 1)
    (y,) = contrib("FusedMatMul", [a, b], alpha=0.3)
    rounded_once(y, a.astype(np.float64) @ b.astype(np.float64) * 0.3, dtype)


def test_fused_matmul_refuses_shapes_that_do_not_fit() -> None:
    """MatMul's rules apply to the shapes after transposing."""
    with pytest.raises(InvalidArgument, match=re.escape("Cannot multiply shapes [4, 3] and [4, 2]")):
        contrib("FusedMatMul", [np.zeros((3, 4), np.float32), np.zeros((4, 2), np.float32)], transA=1)


_GEMM_ACTIVATIONS: dict[str, dict[str, float]] = {
    "Relu": {},
    "Tanh": {},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "LeakyRelu": {"activation_alpha": 0.2},
    "Elu": {"activation_alpha": 0.7},
    "ThresholdedRelu": {"activation_alpha": 0.4},
    "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
    "Selu": {"activation_alpha": 1.5, "activation_gamma": 1.1},
}


@pytest.mark.parametrize("activation", _GEMM_ACTIVATIONS)
def test_fused_gemm(activation: str) -> None:
    """Each activation with its own parameters."""
    inputs = [sample((3, 4), np.float32), sample((5, 4), np.float32, 1), sample((5,), np.float32, 2)]
    attributes: dict[str, Any] = {
        "activation": activation,
        "transB": 1,
        "alpha": 0.5,
        "beta": 2.0,
        **_GEMM_ACTIVATIONS[activation],
    }
    agree_with_runtime("FusedGemm", inputs, opset=1, domain=DOMAIN, **attributes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64])
def test_fused_gemm_of_all_types(dtype: Any) -> None:
    """Without an activation it is Gemm; with Relu, its positive part."""
    inputs = [sample((3, 4), dtype), sample((4, 5), dtype, 1), sample((3, 1), dtype, 2)]
    (plain,) = run("Gemm", inputs, opset=13)
    np.testing.assert_array_equal(contrib("FusedGemm", inputs)[0], plain)
    np.testing.assert_array_equal(contrib("FusedGemm", inputs, activation="Relu")[0], np.maximum(plain, 0))


def test_fused_gemm_refuses_activations_of_integers() -> None:
    with pytest.raises(InvalidArgument, match=r"The activation Tanh of a tensor\(int32\)[\s\S]*Use Relu"):
        contrib("FusedGemm", [np.ones((2, 2), np.int32)] * 2, activation="Tanh")


_CONV_ACTIVATIONS: dict[str, list[float]] = {
    "Relu": [],
    "Tanh": [],
    "Sigmoid": [],
    "LeakyRelu": [0.2],
    "Clip": [-0.2, 0.6],
    "HardSigmoid": [0.3, 0.4],
}
_X, _W = sample((2, 3, 7, 7), np.float32, 0, -1, 1), sample((4, 3, 3, 3), np.float32, 1, -1, 1)
_B, _Z = sample((4,), np.float32, 2), sample((2, 4, 7, 7), np.float32, 3)


@pytest.mark.parametrize("extra", [[], [_B], [None, _Z], [_B, _Z]], ids=["plain", "B", "Z", "B and Z"])
@pytest.mark.parametrize("activation", [None, *_CONV_ACTIVATIONS])
def test_fused_conv(activation: str | None, extra: list[Any]) -> None:
    """Z is added before the activation."""
    attributes: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    if activation is not None:
        attributes["activation"] = activation
        if _CONV_ACTIVATIONS[activation]:
            attributes["activation_params"] = _CONV_ACTIVATIONS[activation]
    agree_with_runtime("FusedConv", [_X, _W, *extra], opset=1, domain=DOMAIN, **attributes)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_fused_conv_of_other_floats(dtype: Any) -> None:
    """Rounded once, after Z and the activation (Silu, which onnxruntime's wheel does not know yet)."""
    x, w, b, z = (value.astype(dtype) for value in (_X, _W, _B, _Z))
    (y,) = contrib("FusedConv", [x, w, b, z], pads=[1, 1, 1, 1], activation="Silu")
    (exact,) = run("Conv", [value.astype(np.float64) for value in (x, w, b)], pads=[1, 1, 1, 1])
    exact = exact + z.astype(np.float64)
    rounded_once(y, exact / (1 + np.exp(-exact)), dtype)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"activation": "Gelu"}, r"activation is 'Gelu'[\s\S]*Use one of Clip, Elu"),
        ({"activation": "Clip"}, r"Clip has 0 parameters instead of 2[\s\S]*Give low, high"),
        ({"activation": "Relu", "activation_params": [1.0]}, r"Relu has 1 parameters instead of 0[\s\S]*Give none"),
    ],
)
def test_wrong_activations_are_refused(attributes: dict[str, Any], message: str) -> None:
    """With what is known or missing."""
    with pytest.raises(InvalidArgument, match=message):
        contrib("FusedConv", [_X, _W], **attributes)


def test_a_summand_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="Z must have the shape of the convolution's result"):
        contrib("FusedConv", [_X, _W, None, _Z])
