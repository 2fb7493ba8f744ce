"""Attention through cuDNN's fused graph: heads, masks, frontiers and pasts mean what ONNX says."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py_array import kernel_defs
from ort_py_cuda.kernels.attention import KERNELS
from ort_py_cuda.kernels.fused_attention import causality
from ort_py_kit.kernel_runner import run_kernel
from providers.cuda.tests.cudnn.on_host import Host, close, cudnn_on_host

BATCH, HEADS, KEY_HEADS, LENGTH, SIZE = 2, 4, 2, 17, 8
MICROSOFT = "com.microsoft"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """cuDNN on the host."""
    return cudnn_on_host(monkeypatch)


def _values(seed: int, *shape: int, dtype: Any = np.float16) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _library(operator: str, inputs: list[Any], **options: Any) -> list[Any]:
    with np.errstate(all="ignore"):  # the engine runs kernels so
        return run_kernel(kernel_defs(), operator, inputs, **options)


def _mask(kind: str, keys: int) -> Any:
    rng = np.random.default_rng(41)
    if kind == "none":
        return None
    if kind == "boolean":
        mask = rng.random((LENGTH, keys)) > 0.4
        mask[3] = False  # a query that sees nothing
        return mask
    if kind == "padding":
        mask = rng.random((BATCH, 1, 1, keys)) > 0.4
        mask[0, ..., :6] = False  # so that causal queries at the beginning see nothing
        return mask
    shape = (BATCH, HEADS, LENGTH, keys) if kind == "numbers of heads" else (BATCH, 1, LENGTH, keys)
    mask = np.where(rng.random(shape) > 0.3, rng.standard_normal(shape), -np.inf).astype(np.float16)
    mask[0, 0, 2] = -np.inf
    return mask


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [0, 5])
@pytest.mark.parametrize("mask", ["none", "boolean", "padding", "numbers", "numbers of heads"])
def test_attention(mask: str, past: int, causal: int, packed: bool, host: Host) -> None:
    """Grouped heads in both forms; rows that see no key are zeros; present keys and values are the library's."""
    q = _values(1, BATCH, HEADS, LENGTH, SIZE)
    k, v = (_values(seed, BATCH, KEY_HEADS, LENGTH, SIZE) for seed in (2, 3))
    options: dict[str, Any] = {"is_causal": causal, "scale": 0.3}
    if packed:
        q, k, v = (np.ascontiguousarray(one.swapaxes(1, 2)).reshape(BATCH, LENGTH, -1) for one in (q, k, v))
        options |= {"q_num_heads": HEADS, "kv_num_heads": KEY_HEADS}
    before = [_values(seed, BATCH, KEY_HEADS, past, SIZE) for seed in (4, 5)] if past else []
    inputs = [q, k, v, _mask(mask, LENGTH + past), *before]
    expected = _library("Attention", inputs, outputs=3, **options)
    found = host.run(KERNELS, "Attention", inputs, outputs=3, **options)
    for one, other in zip(found, expected, strict=False):
        close(one, other, "float16")
    # A frontier behind a past has no form with a bias in cuDNN.
    assert host.executed == ([] if past and causal and mask != "none" else [0])


@pytest.mark.parametrize("mask", [False, True])
def test_bfloat16(mask: bool, host: Host) -> None:
    """Masks are made in float32 and rounded."""
    inputs = [_values(seed, BATCH, HEADS, LENGTH, SIZE, dtype=ml_dtypes.bfloat16) for seed in (1, 2, 3)]
    if mask:
        numbers = np.where(np.random.default_rng(42).random((LENGTH, LENGTH)) > 0.3, 0.5, -np.inf)
        inputs.append(numbers.astype(ml_dtypes.bfloat16))
    expected = _library("Attention", inputs)
    close(host.run(KERNELS, "Attention", inputs)[0], expected[0], ml_dtypes.bfloat16)
    assert host.executed == [0]


def test_a_growing_cache_is_not_copied_twice(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query behind a past is the library's before anything is made of the past."""
    inputs = [_values(seed, BATCH, HEADS, 1, SIZE) for seed in (1, 2, 3)]
    inputs += [None, *(_values(seed, BATCH, HEADS, 9, SIZE) for seed in (4, 5))]
    joined: list[int] = []

    def concatenate(pair: Any, axis: int, out: Any) -> Any:
        joined.append(axis)
        return np.concatenate(pair, axis, out)

    monkeypatch.setattr(host.xp, "concatenate", concatenate)
    host.run(KERNELS, "Attention", inputs, outputs=3)
    assert joined == [2, 2]


def test_frontiers() -> None:
    """The frontier's name for cuDNN is tested; one that hides nothing has none."""
    assert causality(5, 5, 0) == "top_left"
    assert causality(5, 9, 0) == "top_left"
    assert causality(5, 9, 4) == "bottom_right"
    assert causality(5, 9, 3) is None
    assert causality(1, 9, 8) == ""
    assert causality(7, 1, 0) == ""


@pytest.mark.parametrize(
    ("attributes", "outputs"),
    [
        ({"softcap": 2.0}, 1),
        ({"left_window_size": 3}, 1),
        ({"softmax_precision": 11}, 1),
        ({"qk_matmul_output_mode": 1}, 4),
    ],
)
def test_what_cudnn_lacks_is_the_librarys(attributes: dict[str, Any], outputs: int, host: Host) -> None:
    """Soft caps, windows, a softmax in float64, the matrix of scores."""
    inputs = [_values(seed, BATCH, HEADS, LENGTH, SIZE) for seed in (1, 2, 3)]
    expected = _library("Attention", inputs, outputs=outputs, **attributes)
    found = host.run(KERNELS, "Attention", inputs, outputs=outputs, **attributes)
    close(found[0], expected[0], "float16")
    assert host.executed == []


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((BATCH, HEADS, 1, SIZE), np.float16),  # one query: products of matrices
        ((BATCH, HEADS, LENGTH, 7), np.float16),  # heads that are not a multiple of 8
        ((BATCH, HEADS, LENGTH, SIZE), np.float32),
    ],
)
def test_shapes_and_types_that_cudnn_lacks_are_the_librarys(shape: tuple[int, ...], dtype: Any, host: Host) -> None:
    inputs = [_values(seed, *shape, dtype=dtype) for seed in (1, 2, 3)]
    expected = _library("Attention", inputs)
    found = host.run(KERNELS, "Attention", inputs)
    close(found[0], expected[0], dtype)
    assert host.executed == []


def test_a_plan_that_does_not_exist_is_asked_for_once(host: Host) -> None:
    """Then it is the library's, as it is without the front end."""
    host.frontend.refused = {"sdpa"}
    inputs = [_values(seed, BATCH, HEADS, LENGTH, SIZE) for seed in (1, 2, 3)]
    call, arrays = host.kernel(KERNELS, "Attention", inputs)
    expected = _library("Attention", inputs)
    for _ in range(2):
        with np.errstate(all="ignore"):
            close(call(*arrays)[0], expected[0], "float16")
    assert len(host.frontend.graphs) == 1
    assert host.executed == []


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("extras", ["none", "bias", "padding", "scores", "all"])
def test_multi_head_attention(extras: str, past: int, causal: int, host: Host) -> None:
    """With biases of the projections, lengths of keys, a bias of the scores and a past."""
    keys = LENGTH + past
    width = HEADS * SIZE
    inputs: list[Any] = [_values(seed, BATCH, LENGTH, width) for seed in (1, 2, 3)]
    inputs.append(_values(4, 3 * width) if extras in ("bias", "all") else None)
    inputs.append(np.array([keys, keys - 8], np.int32) if extras in ("padding", "all") and not past else None)
    inputs.append(_values(5, BATCH, 1, LENGTH, keys) if extras in ("scores", "all") else None)
    inputs += [_values(seed, BATCH, HEADS, past, SIZE) for seed in (6, 7)] if past else []
    options = {"domain": MICROSOFT, "num_heads": HEADS, "outputs": 3, "unidirectional": causal}
    expected = _library("MultiHeadAttention", inputs, **options)
    found = host.run(KERNELS, "MultiHeadAttention", inputs, **options)
    for one, other in zip(found, expected, strict=False):
        close(one, other, "float16")
    assert host.executed == ([] if past and causal and extras in ("scores", "all") else [0])


def test_packed_forms_are_the_librarys(host: Host) -> None:
    """Queries that hold keys and values."""
    inputs = [_values(1, BATCH, LENGTH, HEADS, 3, SIZE)]
    options = {"domain": MICROSOFT, "num_heads": HEADS}
    expected = _library("MultiHeadAttention", inputs, **options)
    close(host.run(KERNELS, "MultiHeadAttention", inputs, **options)[0], expected[0], "float16")
    assert host.executed == []
