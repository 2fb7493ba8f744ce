"""QAttention of com.microsoft against onnxruntime, and Attention of dequantised inputs where its CPU lacks a type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..runtime_oracle import addable
from .attention_oracle import agree, f32, i32, on_device
from .closed_forms import contrib, rounded_once

OP, HEADS = "QAttention", 3
EIGHT = [np.uint8, np.int8]


def eight(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Seeded values over the whole range of an 8-bit type."""
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def scales(column: bool) -> Any:
    """Scales of the weights: one, or one per column."""
    return np.abs(f32((36,), 5)) / 100 if column else np.array(0.004, np.float32)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 2),
    rows=st.integers(1, 5),
    width=st.sampled_from([6, 12, 400]),
    kind=st.sampled_from(EIGHT),
    column=st.booleans(),
    zeros=st.sampled_from([(False, False), (True, False), (True, True)]),
    past=st.sampled_from([None, 3]),
    causal=st.integers(0, 1),
    known=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_agrees_with_onnxruntime(
    batch: int,
    rows: int,
    width: int,
    kind: Any,
    column: bool,
    zeros: tuple[bool, bool],
    past: int | None,
    causal: int,
    known: bool,
    seed: int,
) -> None:
    """uint8 inputs; zero points and scales of all or of each column; sums beyond what float32 adds exactly."""
    weights = addable(eight((width, 36), kind, seed + 1))
    inputs: list[Any] = [eight((batch, rows, width), np.uint8, seed), weights, f32((36,))]
    inputs += [np.array(0.02 / width, np.float32), scales(column)]
    inputs += [i32(*np.random.default_rng(seed).integers(1, rows + (past or 0) + 1, batch)) if not causal else None]
    inputs += [np.array(seed, np.uint8) if zeros[0] else None]
    zero = eight((36,), kind, seed) // 8 if column else np.array(7, kind)
    inputs += [zero if zeros[1] else None, f32((2, batch, HEADS, past, 4), seed) if past else None]
    constants = (1, 7) if known and zeros[1] else (1,) if known else ()
    agree(OP, inputs, (np.float32,) * 2, constants=constants, num_heads=HEADS, unidirectional=causal)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("weight", EIGHT)
@pytest.mark.parametrize("kind", EIGHT)
def test_other_types(kind: Any, weight: Any, dtype: Any) -> None:
    """int8 inputs and float16 results, which onnxruntime's CPU lacks: Attention of what the integers stand for."""
    x, w = eight((2, 5, 12), kind), eight((12, 36), weight, 1)
    x_scale, w_scale = np.array(1 / 64, dtype), (scales(True) + 0.001).astype(dtype)
    x_zero, w_zero = np.array(3, kind), eight((36,), weight, 2)
    bias, past = f32((36,)).astype(dtype), f32((2, 2, HEADS, 3, 4)).astype(dtype)
    inputs = [x, w, bias, x_scale, w_scale, None, x_zero, w_zero, past]
    y, present = contrib(OP, inputs, outputs=2, num_heads=HEADS, unidirectional=1)
    wide = (x - x_zero.astype(np.float64)) * x_scale, (w - w_zero.astype(np.float64)) * w_scale
    same = [value.astype(np.float32) for value in (*wide, bias)]
    arguments: dict[str, Any] = {"outputs": 2, "num_heads": HEADS, "unidirectional": 1}
    exact = contrib("Attention", [*same, None, past.astype(np.float32)], **arguments)
    rounded_once(y, exact[0], dtype)
    rounded_once(present, exact[1], dtype)


def test_on_another_array_module() -> None:
    """Fed weights, and zero points of columns."""
    inputs = [eight((2, 5, 12), np.uint8), eight((12, 36), np.int8), f32((36,)), np.array(0.01, np.float32)]
    inputs += [scales(True), i32(3, 5), np.array(9, np.uint8), eight((36,), np.int8, 2)]
    on_device(OP, inputs, 2, num_heads=HEADS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({4: f32((35,))}, "The weights' scale must have one entry, or one per column"),
        ({7: np.zeros(3, np.int8)}, "The weights' zero point must have one entry"),
        ({3: f32((2,))}, "knows one scale and one zero point a tensor"),
        ({6: np.zeros(2, np.uint8)}, "knows one scale and one zero point a tensor"),
        ({2: f32((35,))}, r"the weights \(size, columns\) and the bias"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[int, Any], message: str) -> None:
    """With what was given and what would fit."""
    inputs = [eight((2, 5, 12), np.uint8), eight((12, 36), np.int8), f32((36,)), np.array(0.01, np.float32)]
    inputs += [scales(True), None, np.array(9, np.uint8), eight((36,), np.int8, 2)]
    for index, value in change.items():
        inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib(OP, inputs, num_heads=HEADS)
