"""GroupQueryAttention against onnxruntime: prompts, decoding, ragged batches, windows, quantised and sliding caches."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_array.contrib.window_cache import resident
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16
from .attention_oracle import agree, attended, f32, i32, on_device, runtime, unchanged
from .closed_forms import contrib, rounded_once

OP = "GroupQueryAttention"
HEADS, KEY_HEADS, SIZE = 4, 2, 16
NODE: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS}
FLOAT3, FLOAT4 = (np.float32,) * 3, (np.float32,) * 4
_ANGLES = np.arange(64)[:, None] * 0.3 ** np.arange(8)
COS, SIN = np.cos(_ANGLES).astype(np.float32), np.sin(_ANGLES).astype(np.float32)


def new(batch: int, rows: int, added: int | None = None, seed: int = 0) -> list[Any]:
    """Queries, keys and values of new positions."""
    added = rows if added is None else added
    return [f32((batch, rows, HEADS * SIZE), seed), *(f32((batch, added, KEY_HEADS * SIZE), seed + n) for n in (1, 2))]


def past(batch: int, rows: int, seed: int = 5) -> list[Any]:
    """Cached keys and values."""
    return [f32((batch, KEY_HEADS, rows, SIZE), seed + n) for n in (0, 1)]


def heads(x: Any) -> Any:
    """Heads to the second axis."""
    return x.reshape(*x.shape[:2], -1, SIZE).swapaxes(1, 2)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    ends=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    room=st.integers(0, 4),
    rotary=st.sampled_from([{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}]),
    positions=st.booleans(),
    more=st.sampled_from([{}, {"local_window_size": 3}, {"softcap": 1.5, "scale": 2.0}, {"smooth_softmax": 1}]),
    bias=st.sampled_from([None, (1, 1), (0, HEADS)]),
    sink=st.booleans(),
    packed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_decoding(
    ends: list[int],
    room: int,
    rotary: dict[str, Any],
    positions: bool,
    more: dict[str, Any],
    bias: tuple[int, int] | None,
    sink: bool,
    packed: bool,
    seed: int,
) -> None:
    """One position of each of some sequences of other lengths, in pasts with and without room."""
    batch, total = len(ends), max(ends) + 1
    parts: list[Any] = new(batch, 1, seed=seed)
    if packed:
        parts = [np.concatenate(parts, axis=2), None, None]
    inputs = [*parts, *past(batch, max(ends) + room, seed), i32(*ends), i32(total)]
    inputs += [COS, SIN] if rotary else [None, None]
    ids = np.random.default_rng(seed).integers(0, 60, (batch, 1))
    inputs += [ids if positions and rotary else None]
    inputs += [None if bias is None else f32((bias[0] or batch, bias[1], 1, total), seed)]
    inputs += [f32((HEADS,), seed + 9) if sink else None]
    agree(OP, inputs, FLOAT3, **NODE, **rotary, **more)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    room=st.sampled_from([None, 0, 12]),
    more=st.sampled_from([{}, {"local_window_size": 2}, {"causal": 0}, {"softcap": 1.5}, {"do_rotary": 1}]),
    seed=st.integers(0, 99),
)
def test_a_first_prompt(lengths: list[int], room: int | None, more: dict[str, Any], seed: int) -> None:
    """Sequences padded on the right to the longest: what follows a sequence's end is of no meaning."""
    batch, total = len(lengths), max(lengths)
    cache: list[Any] = [None, None] if room is None else past(batch, room)
    inputs = [*new(batch, total, seed=seed), *cache, i32(*(n - 1 for n in lengths)), i32(total), COS, SIN]
    results = contrib(OP, inputs, outputs=3, **NODE, **more)
    expected = runtime(OP, inputs, FLOAT3, **NODE, **more)
    for entry, length in enumerate(lengths):
        assert_close(results[0][entry, :length], expected[0][entry, :length])
    assert np.isfinite(results[0]).all()
    assert_close(results[1:], expected[1:])


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    rows=st.integers(2, 5),
    before=st.integers(1, 6),
    buffer=st.booleans(),
    more=st.sampled_from([{}, {"local_window_size": 3}, {"causal": 0}, {"softcap": 1.5, "do_rotary": 1}]),
    output=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_a_prompt_behind_a_past(
    rows: int, before: int, buffer: bool, more: dict[str, Any], output: int, seed: int
) -> None:
    """Several positions behind a past, with scores or probabilities on demand; hidden scores are 0."""
    total = before + rows
    inputs = [*new(1, rows, seed=seed), *past(1, total + 2 if buffer else before), i32(total - 1), i32(total), COS, SIN]
    kinds = FLOAT4 if output else FLOAT3
    agree(OP, inputs, kinds, qk_output=output, **NODE, **more)


def test_ragged_prompts_behind_pasts() -> None:
    """Sequences of other lengths, several positions of each: what each gets by itself. onnxruntime takes but one."""
    cache, parts = past(2, 9), new(2, 4)
    y, keys, _ = contrib(OP, [*parts, *cache, i32(12, 8), i32(13), COS, SIN], outputs=3, do_rotary=1, **NODE)
    for entry, end in enumerate((12, 8)):
        alone = [x[entry : entry + 1].copy() for x in (*parts, *cache)]
        expected = runtime(OP, [*alone, i32(end), i32(end + 1), COS, SIN], FLOAT3, do_rotary=1, **NODE)
        assert_close(y[entry : entry + 1], expected[0])
        assert_close(keys[entry : entry + 1, :, : end + 1], expected[1][:, :, : end + 1])
        assert not keys[entry, :, end + 1 :].any()


@pytest.mark.parametrize(("rows", "total"), [(1, 9), (9, 9)])
def test_keys_of_another_node(rows: int, total: int) -> None:
    """Keys and values of no rows: the past has them all."""
    agree(OP, [*new(1, rows, 0), *past(1, 9), i32(total - 1), i32(total)], FLOAT3, **NODE)


def test_positions_of_a_first_prompt_begin_at_the_first() -> None:
    ids = np.full((2, 6), 3)
    agree(OP, [*new(2, 6), None, None, i32(5, 5), i32(6), COS, SIN, ids], FLOAT3, do_rotary=1, **NODE)


def test_normalised_heads_keep_their_type() -> None:
    """Heads of float16 are float16 again before they are rotated and stored, and so are the results."""
    inputs = [*new(1, 4), None, None, i32(3), i32(4), *[None] * 7, *[np.ones(SIZE, np.float32)] * 2]
    narrow = [x.astype(np.float16) if x is not None and x.dtype == np.float32 else x for x in inputs]
    results = contrib(OP, narrow, outputs=3, **NODE)
    for result, exact in zip(results, contrib(OP, inputs, outputs=3, **NODE), strict=True):
        assert result.dtype == np.float16
        np.testing.assert_allclose(result, exact, atol=5e-3)


def test_normalised_heads() -> None:
    """Queries and keys divided by their root mean square. onnxruntime's CPU refuses these inputs."""
    parts, weights = new(1, 4), [1 + f32((SIZE,), 3), 1 + f32((SIZE,), 4)]
    inputs = [*parts, *past(1, 5), i32(8), i32(9), *[None] * 7, *weights]
    results = contrib(OP, inputs, outputs=3, qk_norm_epsilon=1e-3, **NODE)
    scaled = []
    for x, weight in zip(parts[:2], weights, strict=True):
        split = x.reshape(1, 4, -1, SIZE).astype(np.float64)
        scaled.append(split / np.sqrt((split**2).mean(-1, keepdims=True) + 1e-3) * weight)
    before = [x.reshape(1, 4, -1).astype(np.float32) for x in scaled]
    expected = runtime(OP, [*before, parts[2], *past(1, 5), i32(8), i32(9)], FLOAT3, **NODE)
    assert_close(results, expected)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_narrow_floats(dtype: Any) -> None:
    """Computed in float32, rounded once; the cache has the same type."""
    q, k, v, *cache = (x.astype(dtype) for x in (*new(2, 3), *past(2, 5)))
    y, keys, _ = contrib(OP, [q, k, v, *cache, i32(7, 6), i32(8)], outputs=3, **NODE)
    for entry, end in enumerate((8, 7)):
        at = slice(entry, entry + 1)
        both = [
            np.concatenate((old[at, :, : end - 3], heads(x[at])), axis=2) for old, x in zip(cache, (k, v), strict=True)
        ]
        seen = np.arange(end) <= np.arange(end - 3, end)[:, None]
        rounded_once(y[at], attended(heads(q[at]), both[0], both[1], SIZE**-0.5, seen=seen), dtype)
        np.testing.assert_array_equal(keys[at, :, :end], both[0])


def test_a_cache_of_a_narrower_type() -> None:
    """New rows are rounded into it, and read from there as those of the past are."""
    parts, cache = new(1, 3), [x.astype(np.float16) for x in past(1, 5)]
    y, keys, values = contrib(OP, [*parts, *cache, i32(7), i32(8)], outputs=3, **NODE)
    both = [np.concatenate((old, heads(x).astype(np.float16)), axis=2) for old, x in zip(cache, parts[1:], strict=True)]
    np.testing.assert_array_equal(keys, both[0])
    np.testing.assert_array_equal(values, both[1])
    seen = np.arange(8) <= np.arange(5, 8)[:, None]
    assert_close(y, attended(heads(parts[0]), both[0], both[1], SIZE**-0.5, seen=seen).astype(np.float32))


def test_float16_agrees_with_onnxruntime() -> None:
    inputs = [x.astype(np.float16) for x in (*new(2, 1), *past(2, 9))]
    inputs += [i32(9, 4), i32(10), COS.astype(np.float16), SIN.astype(np.float16)]
    agree(OP, inputs, (np.float16,) * 3, do_rotary=1, **NODE)


_SCALES = {
    "PER_TENSOR": {8: np.array([0.01], np.float32), 4: np.array([0.2], np.float32)},
    "PER_CHANNEL": {
        8: (0.01 + 0.005 * f32((1, KEY_HEADS, 1, SIZE))).astype(np.float32),
        4: (0.2 + 0.1 * f32((1, KEY_HEADS, 1, SIZE))).astype(np.float32),
    },
}


def stored(batch: int, rows: int, bits: int) -> list[Any]:
    """A random cache of 8- or 4-bit numbers."""
    rng = np.random.default_rng(bits)
    if bits == 8:
        return [rng.integers(-128, 128, (batch, KEY_HEADS, rows, SIZE)).astype(np.int8) for _ in "kv"]
    return [rng.integers(0, 256, (batch, KEY_HEADS, rows, SIZE // 2)).astype(np.uint8) for _ in "kv"]


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_caches(bits: int, kind: str) -> None:
    """New keys are rounded into the cache, some beyond its range, and all read from there."""
    scale = _SCALES[kind][bits]
    inputs = [*new(2, 1), *stored(2, 9, bits), i32(9, 4), i32(10), *[None] * 5, scale, scale]
    inputs[1] = inputs[1] * 4
    store = np.int8 if bits == 8 else np.uint8
    attributes: dict[str, Any] = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    agree(OP, inputs, (np.float32, store, store), **NODE, **attributes)


@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantised_first_prompt(bits: int) -> None:
    """Without a past, which onnxruntime does not take: as with an empty one."""
    scale = _SCALES["PER_TENSOR"][bits]
    attributes = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": bits, **NODE}
    rest = [i32(5, 5), i32(6), *[None] * 5, scale, scale]
    results = contrib(OP, [*new(2, 6), None, None, *rest], outputs=3, **attributes)
    expected = contrib(OP, [*new(2, 6), *stored(2, 0, bits), *rest], outputs=3, **attributes)
    assert_close(results, expected)


def test_a_cache_of_eight_bit_floats() -> None:
    """Saturated at 448 times the scale. onnxruntime's CPU lacks the type."""
    kind = np.dtype(ml_dtypes.float8_e4m3fn)
    parts, scale = new(1, 2), np.array([0.002], np.float32)
    cache = [(f32((1, KEY_HEADS, 3, SIZE), seed) * 100).astype(kind) for seed in (5, 6)]
    inputs = [*parts, *cache, i32(4), i32(5), *[None] * 5, scale, scale]
    attributes = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", **NODE}
    y, keys, values = contrib(OP, inputs, outputs=3, **attributes)
    both = []
    for old, x, present in zip(cache, parts[1:], (keys, values), strict=True):
        added = np.clip(heads(x) / scale, -448, 448).astype(kind)
        whole = np.concatenate((old, added), axis=2)
        np.testing.assert_array_equal(present, whole)
        both.append(whole.astype(np.float64) * scale)
    seen = np.arange(5) <= np.arange(3, 5)[:, None]
    assert_close(y, attended(heads(parts[0]), both[0], both[1], SIZE**-0.5, seen=seen).astype(np.float32))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    window=st.integers(1, 4),
    slack=st.integers(0, 3),
    rows=st.integers(1, 9),
    before=st.integers(0, 12),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_sliding_cache(window: int, slack: int, rows: int, before: int, bias: bool, seed: int) -> None:
    """It keeps the last positions and gives up some at once, in whatever steps they come."""
    capacity, total = window + slack, before + rows
    inputs = [*new(1, rows, seed=seed), *past(1, capacity), i32(total - 1), i32(total), COS, SIN, None]
    inputs += [f32((1, HEADS, rows, total), seed)] if bias else []
    attributes = {"local_window_size": window, "sliding_window_cache": 1, "do_rotary": 1, **NODE}
    results = contrib(OP, inputs, outputs=3, **attributes)
    expected = runtime(OP, inputs, FLOAT3, **attributes)
    assert_close(results[0], expected[0])
    kept = resident(total, capacity, window)
    assert min(total, window) <= kept <= min(total, capacity)
    for left, right in zip(results[1:], expected[1:], strict=True):
        assert_close(left[:, :, :kept], right[:, :, :kept])
        assert not left[:, :, kept:].any()  # of which the operator says nothing


def test_a_sliding_cache_of_ragged_sequences() -> None:
    """Each holds its own positions; a bias is read where these are."""
    inputs = [*new(2, 1), *past(2, 6), i32(11, 4), i32(12), None, None, None, f32((1, 1, 1, 12), 3)]
    attributes = {"local_window_size": 4, "sliding_window_cache": 1, **NODE}
    y, keys, _ = contrib(OP, inputs, outputs=3, **attributes)
    expected = runtime(OP, inputs, FLOAT3, **attributes)
    assert_close(y, expected[0])
    for entry, total in enumerate((12, 5)):
        kept = resident(total, 6, 4)
        assert_close(keys[entry, :, :kept], expected[1][entry, :, :kept])


def test_inputs_stay_as_they_were() -> None:
    """A past that is fed again gives the same again."""
    inputs = [*new(2, 1), *past(2, 12), i32(9, 4), i32(10), COS, SIN]
    before = [x.copy() for x in inputs]
    results = contrib(OP, inputs, outputs=3, do_rotary=1, **NODE)
    unchanged(inputs, before)
    assert not any(np.shares_memory(y, x) for y in results for x in inputs)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)], ids=str)
def test_nothing_gives_nothing(shape: tuple[int, int]) -> None:
    inputs = [*new(*shape), None, None, np.full(shape[0], shape[1] - 1, np.int32), i32(shape[1])]
    y, keys, _ = contrib(OP, inputs, outputs=3, **NODE)
    assert y.shape == (*shape, HEADS * SIZE)
    assert keys.shape == (shape[0], KEY_HEADS, shape[1], SIZE)


IDS, UNIT = np.array([[9], [4]]), np.ones(1, np.float32)
_EIGHT = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
EIGHT_BITS = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
_FOUR = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 4}


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ([*new(2, 1), *past(2, 12), i32(9, 4), i32(10), COS, SIN, IDS], {"do_rotary": 1, "qk_output": 1}),
        ([*new(2, 4), None, None, i32(3, 1), i32(4), COS, SIN], {"do_rotary": 1, "local_window_size": 2}),
        ([*new(2, 1), *past(2, 6), i32(11, 4), i32(12)], {"local_window_size": 4, "sliding_window_cache": 1}),
        ([*new(2, 1), *stored(2, 9, 8), i32(9, 4), i32(10), *[None] * 5, _SCALES["PER_CHANNEL"][8], UNIT], _EIGHT),
        ([*new(2, 1), *stored(2, 9, 4), i32(9, 4), i32(10), *[None] * 5, UNIT, UNIT], _FOUR),
    ],
    ids=["decoding", "prompt", "sliding", "8 bits", "4 bits"],
)  # fmt: skip
def test_on_another_array_module(inputs: list[Any], attributes: dict[str, Any]) -> None:
    on_device(OP, inputs, 4 if "qk_output" in attributes else 3, (5, 6), **NODE, **attributes)


@pytest.mark.parametrize(
    ("change", "attributes", "message"),
    [
        ({}, {"num_heads": 3}, r"num_heads is 3 and kv_num_heads 2[\s\S]*positive multiple"),
        ({2: None}, {}, "A query must be"),
        ({1: f32((2, 1, 16)), 2: f32((2, 1, 16))}, {}, r"Key and value must be \(2, 1, 32\)"),
        ({3: None}, {}, "Of past_key and past_value only one is given"),
        ({3: f32((2, 2, 9, 8))}, {}, r"past_key must have the shape \(2, 2, rows, 16\)"),
        ({5: i32(9)}, {}, "seqlens_k must have one entry for each of 2 sequences"),
        ({5: i32(9, 10)}, {}, r"seqlens_k is \[9, 10\][\s\S]*Each entry must be in \[0, 9\]"),
        ({6: i32(0)}, {}, "total_sequence_length is 0"),
        ({6: i32(12), 5: i32(9, 11)}, {}, r"11 keys should stand before the new ones, but the past has 9 rows"),
        ({}, {"do_rotary": 1}, "cos_cache or sin_cache is absent"),
        ({7: COS, 8: SIN[:5]}, {"do_rotary": 1}, "cos_cache and sin_cache must both be"),
        ({7: COS[:7], 8: SIN[:7]}, {"do_rotary": 1}, r"Position 9 is outside the caches[\s\S]*positions 0 to 6"),
        ({7: COS, 8: SIN, 9: np.array([[1, 2]])}, {"do_rotary": 1}, r"position_ids must be \[2, 1\]"),
        ({7: COS, 8: SIN, 9: np.array([[-1], [2]])}, {"do_rotary": 1}, "Position -1 is outside"),
        ({}, {"local_window_size": 0}, r"local_window_size is 0[\s\S]*Use -1 for no window"),
        ({}, {"local_window_size": 2, "causal": 0}, "only causal attention has a window"),
        ({}, {"qk_output": 3}, "qk_output 3"),
        ({}, {"sliding_window_cache": 1}, "a sliding cache needs one"),
        ({}, {"sliding_window_cache": 1, "local_window_size": 12}, "A sliding cache of 9 rows for a window of 12"),
        ({}, {"k_quant_type": "PER_HEAD"}, r"k_quant_type is 'PER_HEAD'[\s\S]*Use 'NONE', 'PER_TENSOR'"),
        ({}, {"k_quant_type": "PER_TENSOR"}, r"Only one of k_quant_type and v_quant_type[\s\S]*Quantise both"),
        ({}, EIGHT_BITS, "k_scale is absent"),
        ({12: np.ones(3, np.float32), 13: UNIT}, _EIGHT, r"k_scale is of shape \[3\][\s\S]*32 entries"),
        ({12: UNIT, 13: UNIT}, EIGHT_BITS, "A cache of float32 cannot hold 8-bit k"),
        ({3: stored(2, 9, 8)[0], 4: stored(2, 9, 8)[1]}, {}, "The past is of int8, but k_quant_type"),
        ({14: np.ones(16, np.float32)}, {}, "q_norm_weight or k_norm_weight is absent"),
        ({1: f32((2, 0, 32)), 2: f32((2, 0, 32))}, {}, r"total_sequence_length is 10[\s\S]*cache of 9 rows"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change: dict[int, Any], attributes: dict[str, Any], message: str) -> None:
    """With what was given and what would fit."""
    inputs: list[Any] = [*new(2, 1), *past(2, 9), i32(9, 4), i32(10), *[None] * 9]
    for index, value in change.items():
        inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib(OP, inputs, outputs=3, **{**NODE, **attributes})


def test_odd_heads_have_no_pairs_of_four_bits() -> None:
    inputs = [f32((1, 2, 6)), f32((1, 2, 3)), f32((1, 2, 3)), None, None, i32(1), i32(2), *[None] * 5]
    inputs += [np.ones(1, np.float32)] * 2
    with pytest.raises(InvalidArgument, match="Heads of odd size"):
        contrib(OP, inputs, num_heads=2, kv_num_heads=1, **_FOUR)
