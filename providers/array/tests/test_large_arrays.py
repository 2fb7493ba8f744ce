"""Operators that take steps over large arrays in parts give the results of whole steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_py_array.attention.core import grown
from ort_py_array.einsum import _contracted
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .oracle import agree, run, sample
from .runtime_oracle import runtime_outputs

_CONTRIB: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let eight elements be a large array, and cut it into parts of the least size."""
    agree("EyeLike", [sample((2, 2), np.float32)])  # what is patched has been imported by then
    run("Normalizer", [sample((1, 1), np.float32)], domain="ai.onnx.ml")
    run("CDist", [sample((1, 1), np.float32)] * 2, **_CONTRIB)
    for name, module in list(sys.modules.items()):
        if name.startswith("ort_py_array") and hasattr(module, "LARGE_PART"):
            monkeypatch.setattr(module, "LARGE_PART", 8)

    def parallel_for(_self: Any, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        for start in range(0, rows, grain):
            fn(start, min(start + grain, rows))

    monkeypatch.setattr(LocalKernelContext, "parallel_for", parallel_for)


@pytest.mark.parametrize("k", [0, 3, -4, 100, -100, 2**63 - 1, -(2**63)])
def test_eye_like(k: int) -> None:
    (y,) = run("EyeLike", [sample((7, 9), np.float32)], k=k)
    np.testing.assert_array_equal(y, np.eye(7, 9, max(-100, min(k, 100)), dtype=np.float32))


def test_gather_nd() -> None:
    """Tuples of several lengths, behind axes of a batch and without."""
    x = sample((3, 4, 5, 6), np.float32)
    rng = np.random.default_rng(1)
    agree("GatherND", [x, rng.integers(-3, 3, (70, 3))])
    agree("GatherND", [x, rng.integers(-3, 3, (3, 9, 2))], batch_dims=1)
    agree("GatherND", [x, rng.integers(-5, 5, (3, 4, 9, 1))], batch_dims=2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=str)
@pytest.mark.parametrize("axes", [(0, 2, 3), (1,), (3,)], ids=str)
def test_mean_variance_normalization(axes: tuple[int, ...], dtype: Any) -> None:
    x = sample((3, 4, 5, 2), dtype)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axes, keepdims=True)) / (wide.std(axes, keepdims=True) + 1e-9)
    (y,) = run("MeanVarianceNormalization", [x], axes=axes)
    np.testing.assert_allclose(y, expected, rtol=1e-3 if dtype == np.float16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("dtype", [np.int32, np.float32], ids=str)
def test_normalizer(norm: str, dtype: Any) -> None:
    """Long rows, and a row of zeros."""
    x = sample((3, 20), dtype)
    x[1] = 0
    size = {"MAX": x.max(1), "L1": np.abs(x).sum(1), "L2": np.sqrt((x.astype(np.float64) ** 2).sum(1))}[norm]
    (y,) = run("Normalizer", [x], domain="ai.onnx.ml", norm=norm)
    np.testing.assert_allclose(y, x / np.where(size == 0, 1, size)[:, None], rtol=1e-6)


@pytest.mark.parametrize("shape", [(40, 3), (3, 40)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
def test_cdist(shape: tuple[int, int], dtype: Any) -> None:
    a, b = sample(shape, dtype), sample((5, shape[1]), dtype, 1)
    exact = ((a[:, None].astype(np.float64) - b[None]) ** 2).sum(-1)
    np.testing.assert_allclose(run("CDist", [a, b], **_CONTRIB)[0], exact, rtol=1e-5)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_few_greatest(axis: int, largest: int) -> None:
    """Many equal elements among them."""
    agree("TopK", [sample((300, 280), np.int16), np.array([9])], outputs=2, axis=axis, largest=largest)


@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=str)
def test_simplified_layer_normalization(dtype: Any) -> None:
    """Rows that are longer than a part."""
    x, scale = sample((3, 50), dtype), sample((50,), dtype, 1)
    wide = x.astype(np.float64)
    inverse = 1 / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
    y, given = run("SimplifiedLayerNormalization", [x, scale], axis=1, opset=17, outputs=2)
    np.testing.assert_allclose(y, wide * inverse * scale, rtol=2e-3 if dtype == np.float16 else 1e-5, atol=1e-6)
    np.testing.assert_allclose(given, inverse, rtol=1e-6)


def test_skip_layer_normalization() -> None:
    """A mean and a shift, too."""
    inputs = [sample((2, 3, 50), np.float32), sample((2, 3, 50), np.float32, 1)]
    inputs += [sample((50,), np.float32, seed) for seed in (2, 3)]
    attributes: dict[str, Any] = {**_CONTRIB, "outputs": 4, "epsilon": 1e-5}
    total = (inputs[0] + inputs[1]).astype(np.float64)
    centred = total - total.mean(2, keepdims=True)
    y, _, _, added = run("SkipLayerNormalization", inputs, **attributes)
    expected = centred / np.sqrt(total.var(2, keepdims=True) + 1e-5) * inputs[2] + inputs[3]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(added, total, rtol=1e-6)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions one by one."""
    from ort_py_array.vision import roi_align

    monkeypatch.setattr(roi_align, "_REGIONS", 1)
    inputs = [sample((2, 3, 7, 9), np.float32), np.array([[0, 0, 4, 5], [1, 2, 8, 6], [3, 0, 5, 3]], np.float32)]
    inputs.append(np.array([0, 1, 1]))
    attributes: dict[str, Any] = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "mode": mode}
    (expected,) = runtime_outputs("RoiAlign", inputs, opset=16, **attributes)
    np.testing.assert_allclose(run("RoiAlign", inputs, opset=16, **attributes)[0], expected, rtol=1e-5, atol=1e-6)


def test_attention() -> None:
    """Heads and rows one by one."""
    q, k, v = (sample((2, 3, 5, 8), np.float32, seed) for seed in range(3))
    agree("Attention", [q, k, v], is_causal=1, softcap=2.0)


def test_a_past_grows() -> None:
    past, new = sample((2, 3, 4, 5), np.float32), sample((2, 3, 1, 5), np.float32, 1)
    context = LocalKernelContext(make_node_spec("Identity", [past]))
    np.testing.assert_array_equal(grown(context, past, new), np.concatenate((past, new), 2))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_dynamic_quantize_lstm(direction: str) -> None:
    from .contrib.test_dynamic_quantize_lstm import HIDDEN, TOLERANCE, _inputs

    inputs = _inputs(2 if direction == "bidirectional" else 1, 2, np.uint8, True)
    attributes: dict[str, Any] = {**_CONTRIB, "outputs": 3, "hidden_size": HIDDEN, "direction": direction}
    expected = runtime_outputs("DynamicQuantizeLSTM", inputs, **attributes)
    for left, right in zip(run("DynamicQuantizeLSTM", inputs, **attributes), expected, strict=True):
        np.testing.assert_allclose(left, right, atol=TOLERANCE)


@pytest.mark.parametrize("equation", ["abcd,de->abce", "ab,cd->dbca", "abc,abd->bdca"])
def test_a_contraction_is_cut_along_several_letters(equation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short axes have too few entries for one to be cut alone."""
    from ort_py_array import einsum

    monkeypatch.setattr(einsum, "_PART", 4)
    terms = equation.partition("->")[0].split(",")
    operands = [sample([2 + "abcde".index(label) % 2 for label in term], np.float32) for term in terms]
    context = LocalKernelContext(make_node_spec("Identity", [operands[0]]))
    expected = np.einsum(equation, *(x.astype(np.float64) for x in operands))
    np.testing.assert_allclose(_contracted(context, equation, operands), expected, rtol=1e-5, atol=1e-6)
