"""MatMulNBits and MatMulBnb4 against onnxruntime, and a plain dequantisation for what it lacks or gets wrong."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py import errors
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.packed_weights import unpacked

from ..oracle import BF16, sample
from ..runtime_oracle import agree_with_runtime
from .closed_forms import DOMAIN, contrib, rounded_once


def _bytes(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def _fields(packed: Any, bits: int, size: int) -> Any:
    """The values in the bytes of the last axis, first the lowest bits."""
    parts = [(packed >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1)[..., :size]


def _inputs(
    m: int, n: int, k: int, bits: int, block: int, zeros: str, dtype: Any = np.float32, seed: int = 0
) -> list[Any]:
    blocks = -(-k // block)
    weights = _bytes(seed, n, blocks, block * bits // 8)
    scales = sample((n, blocks), dtype, seed + 1, 0.01, 0.2)
    packed = _bytes(seed + 2, n, -(-blocks * bits // 8))
    floats = sample((n, blocks), dtype, seed + 3, 0, 2**bits - 1)
    return [sample((m, k), dtype, seed + 4), weights, scales, {"": None, "packed": packed, "float": floats}[zeros]]


def _dequantized(inputs: list[Any], k: int, bits: int, block: int, g_idx: Any = None) -> Any:
    """float64 weights ``(n, k)``."""
    weights, scales, zeros = inputs[1:4]
    values = _fields(weights, bits, 8 * weights.shape[2] // bits).reshape(len(weights), -1)[:, :k].astype(np.float64)
    if zeros is None:
        zeros = np.full(scales.shape, 2 ** (bits - 1))
    elif zeros.dtype == np.uint8:
        zeros = _fields(zeros, bits, scales.shape[1])
    groups = np.arange(k) // block if g_idx is None else g_idx[:k]
    return (values - zeros[:, groups].astype(np.float64)) * scales[:, groups].astype(np.float64)


@pytest.mark.parametrize("m", [1, 5, 12])
@pytest.mark.parametrize("zeros", ["", "packed", "float"])
@pytest.mark.parametrize("k", [64, 50])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_matmul_n_bits(bits: int, k: int, zeros: str, m: int) -> None:
    """Few rows and more, with and without a last block that is not full; zero points fed and known at planning."""
    inputs = [*_inputs(m, 24, k, bits, 16, zeros), None, sample((24,), np.float32, 9)]
    attributes: dict[str, Any] = {"N": 24, "K": k, "bits": bits, "block_size": 16}
    if (bits, zeros) != (8, "float"):  # onnxruntime refuses floating-point zero points of 8 bits
        agree_with_runtime("MatMulNBits", inputs, opset=1, domain=DOMAIN, **attributes)
    exact = inputs[0].astype(np.float64) @ _dequantized(inputs, k, bits, 16).T + inputs[5]
    for constants in ((), (3,)) if inputs[3] is not None else ((),):
        (y,) = contrib("MatMulNBits", inputs, constants=constants, **attributes)
        rounded_once(y, exact, np.float32)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.sampled_from([2, 4, 8]),
    st.sampled_from([16, 32, 64]),
    st.integers(0, 7),
    st.integers(1, 9),
    st.integers(1, 100),
    st.sampled_from(["", "packed", "float"]),
    st.integers(0, 99),
)
def test_matmul_n_bits_of_any_shape(bits: int, block: int, m: int, n: int, k: int, zeros: str, seed: int) -> None:
    """Odd numbers of blocks, whose zero points do not fill their last byte; no rows at all."""
    inputs = _inputs(m, n, k, bits, block, zeros, seed=seed)
    (y,) = contrib("MatMulNBits", inputs, N=n, K=k, bits=bits, block_size=block)
    exact = inputs[0].astype(np.float64) @ _dequantized(inputs, k, bits, block).T
    np.testing.assert_allclose(y, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("zeros", ["", "packed"])
@pytest.mark.parametrize("k", [64, 50])
def test_matmul_n_bits_with_columns_in_any_order(k: int, zeros: str) -> None:
    """``g_idx`` says to which block a column belongs."""
    inputs = _inputs(3, 8, k, 4, 16, zeros)
    g_idx = np.random.default_rng(5).integers(0, 4, k).astype(np.int32)
    (y,) = contrib("MatMulNBits", [*inputs, g_idx], N=8, K=k, bits=4, block_size=16)
    rounded_once(y, inputs[0].astype(np.float64) @ _dequantized(inputs, k, 4, 16, g_idx).T, np.float32)


@pytest.mark.parametrize("zeros", ["", "packed", "float"])
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_matmul_n_bits_of_narrow_floats(dtype: Any, zeros: str) -> None:
    """Computed in float32 and rounded once."""
    inputs = _inputs(6, 8, 64, 4, 16, zeros, dtype)
    (y,) = contrib("MatMulNBits", inputs, N=8, K=64, bits=4, block_size=16)
    rounded_once(y, inputs[0].astype(np.float64) @ _dequantized(inputs, 64, 4, 16).T, dtype)


def test_matmul_n_bits_of_batches_and_flat_parameters() -> None:
    """Leading axes are rows; older exporters write scales and zero points flat."""
    inputs = _inputs(6, 8, 64, 4, 16, "packed")
    (y,) = contrib("MatMulNBits", inputs, N=8, K=64, bits=4, block_size=16)
    flat = [inputs[0].reshape(2, 3, 64), inputs[1], inputs[2].reshape(-1), inputs[3].reshape(-1)]
    np.testing.assert_array_equal(contrib("MatMulNBits", flat, N=8, K=64, bits=4, block_size=16)[0], y.reshape(2, 3, 8))


@pytest.mark.parametrize("place", ["input", "scale", "last scale"])
@pytest.mark.parametrize("m", [1, 12])
@pytest.mark.parametrize("zeros", ["", "packed", "float"])
@pytest.mark.parametrize("k", [64, 50])
@pytest.mark.parametrize("bits", [4, 8])
def test_infinities(bits: int, k: int, zeros: str, m: int, place: str) -> None:
    """They reach the results that they reach with dequantised weights, with the same signs."""
    inputs = _inputs(m, 8, k, bits, 16, zeros)
    if place == "input":
        inputs[0][0, 3] = np.inf
    else:
        inputs[2][2, 0 if place == "scale" else -1] = np.inf
        inputs[0] = np.abs(inputs[0])
    with np.errstate(invalid="ignore"):
        expected = (inputs[0][:, None].astype(np.float64) * _dequantized(inputs, k, bits, 16)).sum(2)
        (y,) = contrib("MatMulNBits", inputs, N=8, K=k, bits=bits, block_size=16)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m", [2, 7])
def test_weights_of_several_parts(m: int) -> None:
    """More weights than are unpacked at once."""
    n, k = 700, 1024
    inputs = _inputs(m, n, k, 4, 32, "packed")
    (y,) = contrib("MatMulNBits", inputs, N=n, K=k, bits=4, block_size=32)
    np.testing.assert_allclose(y, inputs[0] @ _dequantized(inputs, k, 4, 32).T, rtol=1e-3, atol=1e-2)


_SMALL = _inputs(2, 8, 64, 4, 16, "packed")


@pytest.mark.parametrize(
    ("changes", "attributes", "message"),
    [
        ({}, {"N": 0}, r"N is 0 and K is 64[\s\S]*both must be positive"),
        ({}, {"bits": 3}, r"bits is 3[\s\S]*2, 4 or 8"),
        ({}, {"block_size": 24}, r"block_size is 24[\s\S]*power of two"),
        ({0: np.ones((2, 63), np.float32)}, {}, r"last axis must have K=64 entries[\s\S]*inputs that were fed"),
        ({1: _bytes(0, 8, 4, 7)}, {}, r"B has shape \[8, 4, 7\] instead of \[8, 4, 8\][\s\S]*attributes N, K"),
        ({2: np.ones((8, 3), np.float32)}, {}, r"scales has shape \[8, 3\]"),
        ({3: _bytes(0, 8, 4)}, {}, r"zero_points has shape \[8, 4\] instead of \[8, 2\]"),
        ({3: np.ones((8, 2), np.float32)}, {}, r"zero_points has shape \[8, 2\] instead of \[8, 4\]"),
        ({4: np.zeros(63, np.int32)}, {}, r"g_idx has shape \[63\][\s\S]*Leave it out"),
        ({4: np.full(64, 4, np.int32)}, {}, "Index 4 is out of range"),
        ({5: np.ones(7, np.float32)}, {}, r"bias has shape \[7\]"),
    ],
)
def test_matmul_n_bits_refuses(changes: dict[int, Any], attributes: dict[str, int], message: str) -> None:
    """Attributes and sizes that do not fit each other."""
    inputs = [*_SMALL, None, None]
    for index, value in changes.items():
        inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib("MatMulNBits", inputs, **{"N": 8, "K": 64, "bits": 4, "block_size": 16, **attributes})


def test_prepacked_weights_are_refused() -> None:
    with pytest.raises(errors.NotImplemented, match=r"weight_prepacked=1\)[\s\S]*weight_prepacked=0"):
        contrib("MatMulNBits", _SMALL, N=8, K=64, bits=4, block_size=16, weight_prepacked=1)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_fields_of_bytes(bits: int) -> None:
    """The first value is in the lowest bits; what the last byte has too many is cut off."""
    packed = _bytes(0, 3, 4)
    size = 4 * 8 // bits - 1
    np.testing.assert_array_equal(unpacked(np, packed, bits, size), _fields(packed, bits, size))


_TABLES = {  # FP4 in twelfths; NF4 to the seven digits of float32
    0: np.array([0, 0.0625, 8, 12, 4, 6, 2, 3, 0, -0.0625, -8, -12, -4, -6, -2, -3]) / 12,
    1: np.array(
        [
            *(-1, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.09105004, 0),
            *(0.0795803, 0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.562617, 0.7229568, 1),
        ]
    ),
}


def _bnb4_weights(packed: Any, absmax: Any, kind: int, n: int, k: int, block: int) -> Any:
    codes = np.stack([packed >> 4, packed & 15], -1).reshape(-1)[: n * k]
    return (_TABLES[kind][codes] * np.repeat(absmax.astype(np.float64), block)[: n * k]).reshape(n, k)


def _bnb4_inputs(m: int, n: int, k: int, block: int, inner: int, dtype: Any = np.float32) -> list[Any]:
    return [
        sample((m, inner), dtype, 0, -0.1, 0.1),
        _bytes(1, -(-n * k // 2)),
        sample((-(-n * k // block),), dtype, 2, 0.1, 2),
    ]


@pytest.mark.parametrize(("n", "k"), [(24, 32), (7, 33), (1, 5), (40, 48)])
@pytest.mark.parametrize("kind", [0, 1])
def test_matmul_bnb4(kind: int, n: int, k: int) -> None:
    """Both tables; rows that begin and end within blocks and bytes."""
    inputs = _bnb4_inputs(3, n, k, 16, k)
    agree_with_runtime("MatMulBnb4", inputs, opset=1, domain=DOMAIN, N=n, K=k, block_size=16, quant_type=kind)


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float16), BF16], ids=str)
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("transposed", [0, 1])
def test_matmul_bnb4_of_all_types(transposed: int, kind: int, dtype: Any) -> None:
    """With ``transB=0`` too, where onnxruntime's CPU takes a wrong stride (and reads beyond the weights)."""
    n, k = 700, 1000  # more than is unpacked at once
    inputs = _bnb4_inputs(2, n, k, 64, k if transposed else n, dtype)
    (y,) = contrib("MatMulBnb4", inputs, N=n, K=k, block_size=64, quant_type=kind, transB=transposed)
    weights = _bnb4_weights(inputs[1], inputs[2], kind, n, k, 64)
    rounded_once(y, inputs[0].astype(np.float64) @ (weights.T if transposed else weights), dtype)


@pytest.mark.parametrize(
    ("changes", "attributes", "message"),
    [
        ({}, {"quant_type": 2}, r"quant_type is 2[\s\S]*FP4"),
        ({}, {"block_size": 8}, "block_size is 8"),
        ({0: np.ones((2, 5), np.float32)}, {}, "last axis must have K=6 entries"),
        ({0: np.ones((2, 5), np.float32)}, {"transB": 0}, "last axis must have N=4 entries"),
        ({1: _bytes(0, 11)}, {}, re.escape("B has shape [11] instead of [12]")),
        ({2: np.ones(3, np.float32)}, {}, re.escape("absmax has shape [3] instead of [2]")),
    ],
)
def test_matmul_bnb4_refuses(changes: dict[int, Any], attributes: dict[str, int], message: str) -> None:
    """Attributes and sizes that do not fit each other."""
    inputs = _bnb4_inputs(2, 4, 6, 16, 6)
    for index, value in changes.items():
        inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib("MatMulBnb4", inputs, **{"N": 4, "K": 6, "block_size": 16, "quant_type": 0, **attributes})
