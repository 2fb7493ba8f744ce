"""SparseAttention against onnxruntime over layouts, and against a naive softmax where sequences differ in length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_array.contrib import sparse_attention
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16
from .attention_oracle import agree, attended, f32, i32, on_device
from .closed_forms import contrib, rounded_once

OP = "SparseAttention"
HEADS, KEY_HEADS, SIZE, BLOCK, LONGEST = 4, 2, 16, 16, 64
NODE: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "sparse_block_size": BLOCK}
_ANGLES = np.arange(LONGEST)[:, None] * 0.3 ** np.arange(8)
COS, SIN = np.cos(_ANGLES).astype(np.float32), np.sin(_ANGLES).astype(np.float32)


def layouts(count: int, seed: int, share: float = 0.5) -> Any:
    """Random lower triangular tables with a full diagonal."""
    table = np.tril(np.random.default_rng(seed).random((count, LONGEST // BLOCK, LONGEST // BLOCK)) < share)
    return table | np.eye(LONGEST // BLOCK, dtype=np.bool_)


def compressed(table: Any) -> list[Any]:
    """Row and column indices of tables; shorter layouts are padded with -1."""
    rows = np.stack([np.concatenate(([0], np.cumsum(one.sum(axis=1)))) for one in table]).astype(np.int32)
    columns = np.full((len(table), rows[:, -1].max()), -1, np.int32)
    for layout, one in enumerate(table):
        columns[layout, : one.sum()] = np.nonzero(one)[1]
    return [rows, columns]


def call(rows: int, lengths: Sequence[int], table: Any, seed: int = 0, packed: bool = False) -> list[Any]:
    """All inputs but the caches of angles."""
    batch = len(lengths)
    parts: list[Any] = [f32((batch, rows, HEADS * SIZE), seed)]
    parts += [f32((batch, rows, KEY_HEADS * SIZE), seed + n) for n in (1, 2)]
    if packed:
        parts = [np.concatenate(parts, axis=2), None, None]
    cache = [f32((batch, KEY_HEADS, LONGEST, SIZE), seed + n) for n in (3, 4)]
    return [*parts, *cache, *compressed(table), i32(max(lengths)), i32(*lengths)]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 2),
    rows=st.sampled_from([1, 5, 20, 40]),
    before=st.sampled_from([0, 7, 16, 24]),
    count=st.sampled_from([1, 2, 4]),
    share=st.sampled_from([0.3, 0.8, 1.0]),
    rotary=st.integers(0, 1),
    packed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_agrees_with_onnxruntime(
    batch: int, rows: int, before: int, count: int, share: float, rotary: int, packed: bool, seed: int
) -> None:
    """Prompts, steps and chunks over buffers; one layout or several, dense ones too."""
    inputs = call(rows, [before + rows] * batch, layouts(count, seed, share), seed, packed)
    inputs += [COS, SIN] if rotary else []
    agree(OP, inputs, (np.float32,) * 3, shared={1: 3, 2: 4}, do_rotary=rotary, **NODE)


def seen_by(table: Any, starts: Sequence[int], rows: int, keys: int) -> Any:
    """``(batch, heads, rows, keys)``: blocks and causality."""
    every = []
    for start in starts:
        queries, positions = np.arange(start, start + rows)[:, None], np.arange(keys)
        blocks = table[:, queries // BLOCK, positions // BLOCK] & (positions <= queries)
        every.append(np.tile(blocks, (HEADS // len(table), 1, 1)))
    return np.stack(every)


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float16), BF16], ids=str)
def test_sequences_of_other_lengths(dtype: Any) -> None:
    """Each at its own place; onnxruntime mixes their probabilities up. Narrow floats are rounded once."""
    table, lengths = layouts(2, 3), (40, 17)
    inputs = [x.astype(dtype) if x.dtype == np.float32 else x for x in call(3, lengths, table)]
    y, keys, values = contrib(OP, inputs, outputs=3, **NODE)
    heads = [x.reshape(2, 3, -1, SIZE).swapaxes(1, 2) for x in inputs[:3]]
    expected = [x.copy() for x in inputs[3:5]]
    for entry, length in enumerate(lengths):
        for whole, new in zip(expected, heads[1:], strict=True):
            whole[entry, :, length - 3 : length] = new[entry]
    np.testing.assert_array_equal(keys, expected[0])
    np.testing.assert_array_equal(values, expected[1])
    seen = seen_by(table, [length - 3 for length in lengths], 3, 40)
    rounded_once(y, attended(heads[0], keys[:, :, :40], values[:, :, :40], SIZE**-0.5, seen=seen), dtype)


def test_a_padded_prompt() -> None:
    """Rows within a sequence are those of the sequence alone."""
    table = layouts(2, 5)
    inputs = call(40, (40, 23), table)
    (y, *_) = contrib(OP, [*inputs, COS, SIN], outputs=3, do_rotary=1, **NODE)
    alone = [x[1:, :23].copy() if index < 3 else x for index, x in enumerate(inputs)]
    alone[3:5] = [x[1:] for x in inputs[3:5]]
    alone[7:] = [i32(23), i32(23)]
    (expected, *_) = contrib(OP, [*alone, COS, SIN], outputs=3, do_rotary=1, **NODE)
    assert_close(y[1:, :23], expected)


@pytest.mark.parametrize("lengths", [(40, 40), (40, 36)], ids=str)
def test_long_prompts_are_cut(lengths: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """In runs of rows, each with its own mask, and with the same result."""
    inputs = call(30, lengths, layouts(2, 7))
    whole = contrib(OP, inputs, outputs=3, **NODE)
    monkeypatch.setattr(sparse_attention, "_ELEMENTS", 1000)
    assert_close(contrib(OP, inputs, outputs=3, **NODE), whole)


def test_on_another_array_module() -> None:
    """The layouts and lengths are read on the host."""
    inputs = [*call(3, (40, 17), layouts(2, 3)), COS, SIN]
    on_device(OP, inputs, 3, (5, 6, 7, 8), do_rotary=1, **NODE)


@pytest.mark.parametrize(
    ("change", "attributes", "message"),
    [
        ({}, {"sparse_block_size": 0}, "sparse_block_size is 0"),
        ({}, {"kv_num_heads": 3}, "num_heads is 4 and kv_num_heads 3"),
        ({3: f32((2, 2, 40, 16))}, {}, "past_key must have the shape"),
        ({7: i32(65)}, {}, r"total_sequence_length is 65[\s\S]*64 rows of cache and layouts for 64 positions"),
        ({8: i32(40, 2)}, {}, r"key_total_sequence_lengths is \[40, 2\][\s\S]*\[3, 40\]"),
        ({8: i32(40)}, {}, "must have one entry for each of 2 sequences"),
        ({5: np.zeros((3, 5), np.int32)}, {}, "layouts that divide 4 heads"),
        ({6: np.zeros((1, 5), np.int32)}, {}, "block_col_indices"),
        ({6: np.full((2, 10), 4, np.int32)}, {}, "The layouts name blocks outside their 4 rows and columns"),
        ({5: np.array([[0, 1, 3, 2, 4]] * 2, np.int32)}, {}, "Rows must begin at 0 and not fall"),
        ({5: np.array([[0, 1, 3, 5, 90]] * 2, np.int32)}, {}, "end within the columns"),
        ({}, {"do_rotary": 1}, "cos_cache or sin_cache is absent"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[int, Any], attributes: dict[str, Any], message: str) -> None:
    """With what was given and what would fit."""
    inputs = call(3, (40, 17), layouts(2, 3))
    for index, value in change.items():
        inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib(OP, inputs, outputs=3, **{**NODE, **attributes})
