"""MultiHeadAttention and DecoderMaskedMultiHeadAttention against onnxruntime, and the forms that its CPU lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import BF16
from .attention_oracle import agree, attended, f32, i32, on_device, runtime
from .closed_forms import contrib, rounded_once

HEADS, SIZE = 3, 4
MULTI, DECODER = "MultiHeadAttention", "DecoderMaskedMultiHeadAttention"
Q, K, V = f32((2, 5, 12)), f32((2, 7, 12), 1), f32((2, 7, 12), 2)
BIAS = f32((36,), 3)
ONE = [f32((2, 1, 12), seed) for seed in (4, 5, 6)]
PAST = [f32((2, HEADS, 3, SIZE), seed) for seed in (7, 8)]
BUFFER = [f32((2, HEADS, 9, SIZE), seed) for seed in (9, 10)]
CACHES = [f32((2, HEADS, 7, SIZE), seed) for seed in (11, 12)]
BEAMS = np.random.default_rng(0).integers(0, 2, (1, 2, 9)).astype(np.int32)


def split(x: Any) -> Any:
    """Heads to the second axis."""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3),
    rows=st.integers(1, 5),
    added=st.integers(1, 6),
    past=st.sampled_from([None, 0, 3]),
    size=st.sampled_from([SIZE, 2]),
    form=st.sampled_from(["none", "lengths", "by key", "by query"]),
    bias=st.booleans(),
    scores=st.sampled_from([None, (1, 1), (1, HEADS), (0, HEADS)]),
    seed=st.integers(0, 99),
)
def test_it_agrees_with_onnxruntime(
    batch: int,
    rows: int,
    added: int,
    past: int | None,
    size: int,
    form: str,
    bias: bool,
    scores: tuple[int, int] | None,
    seed: int,
) -> None:
    """Result, presents and scores over lengths, pasts, biases and masks of queries to other keys."""
    size = SIZE if past is not None else size
    keys = added + (past or 0)
    mask = None
    rng = np.random.default_rng(seed)
    if form == "lengths":
        mask = rng.integers(1, keys + 1, batch).astype(np.int32)
    elif form != "none":
        mask = (rng.random((batch, rows, keys) if form == "by query" else (batch, keys)) < 0.7).astype(np.int32)
        mask[..., 0] = 1
    width = HEADS * size
    inputs: list[Any] = [
        f32((batch, rows, 12), seed),
        f32((batch, added, 12), seed + 1),
        f32((batch, added, width), seed),
    ]
    inputs += [f32((24 + width,), seed + 2) if bias else None, mask]
    inputs += [None if scores is None else f32((scores[0] or batch, scores[1], rows, keys), seed + 3)]
    if past is not None:
        inputs += [f32((batch, HEADS, past, SIZE), seed + n) for n in (4, 5)]
    agree(MULTI, inputs, (np.float32,) * 4, num_heads=HEADS)


@pytest.mark.parametrize("past", [[], PAST])
def test_causal_attention_to_itself(past: list[Any]) -> None:
    """Each query sees the past and what is before it.

    onnxruntime forgets the last row where there are other keys than queries, and the past where no present is asked.
    """
    inputs = [Q, *(x[:, :5].copy() for x in (K, V)), None, None, None, *past]
    agree(MULTI, inputs, (np.float32,) * 3, num_heads=HEADS, unidirectional=1, scale=0.3)


def test_causal_attention_to_other_keys() -> None:
    """Query i sees the first i + 1 keys, the last query too."""
    (y,) = contrib(MULTI, [Q, K, V], num_heads=HEADS, unidirectional=1)
    seen = np.tri(5, 7, dtype=np.bool_)
    np.testing.assert_allclose(y, attended(split(Q), split(K), split(V), 0.5, seen=seen), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [None, BIAS], ids=["plain", "bias"])
def test_packed_inputs_are_the_separate_ones(bias: Any) -> None:
    """Keys with values, or all three in one array. onnxruntime's CPU has neither."""
    q, k, v = (x.reshape(2, -1, HEADS, SIZE) for x in (Q, K[:, :5], V[:, :5]))
    (expected,) = contrib(MULTI, [Q, K[:, :5], V[:, :5], bias], num_heads=HEADS)
    pairs, triples = np.stack((k, v), axis=3), np.stack((q, k, v), axis=3)
    (y,) = contrib(MULTI, [Q, pairs, None, bias], num_heads=HEADS)
    np.testing.assert_array_equal(y, expected)
    (y,) = contrib(MULTI, [triples, None, None, bias], num_heads=HEADS)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("extra", [[], [BIAS], [None, i32(3, 7)]], ids=["plain", "bias", "lengths"])
def test_keys_and_values_from_caches(extra: list[Any]) -> None:
    """Cross attention: a bias reaches the queries alone."""
    agree(MULTI, [Q, *CACHES, *extra], num_heads=HEADS)


def test_a_mask_of_the_new_keys_alone() -> None:
    """(batch, new keys) says nothing of the past, which stays visible."""
    mask = np.array([[1, 0, 1, 1, 0, 1, 1], [0, 0, 1, 1, 1, 1, 0]], np.int32)
    whole = np.concatenate((np.ones((2, 3), np.int32), mask), axis=1)
    (y,) = contrib(MULTI, [Q, K, V, None, mask, None, *PAST], num_heads=HEADS)
    (expected,) = contrib(MULTI, [Q, K, V, None, whole, None, *PAST], num_heads=HEADS)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("beams", [None, BEAMS], ids=["plain", "beams"])
def test_a_buffer(beams: Any) -> None:
    """past_sequence_length says how much of it is filled; rows of the past may come from other beams."""
    agree(MULTI, [*ONE, None, None, None, *BUFFER, i32(6), beams], (np.float32,) * 3, num_heads=HEADS)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_narrow_floats(dtype: Any) -> None:
    """Summed in float32 and rounded once, scores too."""
    q, k, v, bias = (x.astype(dtype) for x in (Q, K, V, BIAS))
    y, keys, _, scores = contrib(MULTI, [q, k, v, bias], outputs=4, num_heads=HEADS)
    parts = zip((q, k, v), np.split(bias.astype(np.float64), 3), strict=True)
    wide = [split(x.astype(np.float64) + own) for x, own in parts]
    rounded_once(y, attended(wide[0], wide[1], wide[2], 0.5), dtype)
    rounded_once(keys, wide[1], dtype)
    rounded_once(scores, wide[0] @ wide[1].swapaxes(2, 3) * 0.5, dtype)


@pytest.mark.parametrize("mask", [None, np.array([[1, 0, 1, 1, 1, 0, 1], [1, 1, 1, 0, 0, 0, 1]], np.int32)])
@pytest.mark.parametrize("scores", [None, f32((1, HEADS, 1, 7), 3)], ids=["plain", "bias of scores"])
@pytest.mark.parametrize("bias", [None, BIAS], ids=["plain", "bias"])
def test_decoding_in_a_buffer(mask: Any, scores: Any, bias: Any) -> None:
    """Result, presents and scores of one position."""
    inputs = [*ONE, mask, scores, *BUFFER, i32(6), None, None, bias]
    attributes: dict[str, Any] = {"num_heads": HEADS, "past_present_share_buffer": 1, "output_qk": 1}
    agree(DECODER, inputs, (np.float32,) * 4, **attributes)


def test_decoding_with_beams() -> None:
    """Rows of the past come from the beams that cache_indirection names."""
    inputs = [*ONE, None, None, *BUFFER, i32(6), i32(2), BEAMS]
    agree(DECODER, inputs, (np.float32,) * 3, num_heads=HEADS, past_present_share_buffer=1)


@pytest.mark.parametrize("extra", [[], [np.array([[1, 0, 1, 1, 1, 0, 1]] * 2, np.int32)]], ids=["plain", "mask"])
def test_decoding_from_caches(extra: list[Any]) -> None:
    agree(DECODER, [ONE[0], *CACHES, *extra], num_heads=HEADS)


def test_decoding_of_caches_with_a_bias() -> None:
    agree(DECODER, [ONE[0], *CACHES, *[None] * 7, BIAS], num_heads=HEADS)


def test_decoding_of_a_packed_query() -> None:
    """Queries, keys and values of all heads are side by side; a past that is not a buffer grows."""
    attributes = {"num_heads": HEADS, "outputs": 3}
    results = contrib(DECODER, [np.concatenate(ONE, axis=2), None, None, None, None, *PAST], **attributes)
    expected = runtime(MULTI, [*ONE, None, None, None, *PAST], (np.float32,) * 3, num_heads=HEADS)
    for left, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


def test_presents_are_new_arrays() -> None:
    """Also where they are the keys and values that were given."""
    _, key, value = contrib(MULTI, [Q, *CACHES], outputs=3, num_heads=HEADS)
    assert not np.shares_memory(key, CACHES[0])
    assert not np.shares_memory(value, CACHES[1])
    np.testing.assert_array_equal(key, CACHES[0])


def test_on_another_array_module() -> None:
    """With all that they can have."""
    inputs = [*ONE, BIAS, i32(7, 4), f32((1, 1, 1, 7)), *BUFFER, i32(6), BEAMS]
    on_device(MULTI, inputs, 4, (8,), num_heads=HEADS)
    inputs = [*ONE, None, None, *BUFFER, i32(6), i32(2), BEAMS, BIAS]
    on_device(DECODER, inputs, 3, (7, 8), num_heads=HEADS, past_present_share_buffer=1)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([Q], r"There is no key, and the query has shape \[2, 5, 12\][\s\S]*Connect the key"),
        ([Q[:, :, :11], K, V], "cannot be split into 3 heads"),
        ([Q, K], "Keys and values must be given in one form"),
        ([Q, CACHES[0], V], "Keys and values must be given in one form"),
        ([Q, CACHES[0][:, :2], CACHES[1][:, :2]], "The keys do not have 3 heads"),
        ([Q, np.zeros((2, 7, 3, 3, 4), np.float32)], "A key that packs values has the shape"),
        ([np.zeros((2, 5, 3, 2, 4), np.float32)], "A query that packs keys and values has 3 heads"),
        ([Q, K, V, BIAS[:30]], "The bias must have 36 entries"),
        ([Q, K, V, None, None, None, PAST[0]], "Of past_key and past_value only one is given"),
        ([Q, K, V, None, None, None, PAST[0], PAST[1][:1]], r"past_value \(2, 3, rows, 4\)"),
        ([Q, *CACHES, None, None, None, *PAST], "Keys that are a cache have no past"),
        (
            [Q, K, V, None, None, None, *BUFFER, i32(3)],
            r"past_sequence_length is 3[\s\S]*buffer of 9 rows, and 7 are added",
        ),
        ([Q, K, V, None, None, None, *BUFFER, i32(1, 2)], r"past_sequence_length is of shape \[2\]"),
        ([*ONE, None, None, None, *BUFFER, i32(6), BEAMS[:, :, :4]], "cache_indirection must be"),
        ([*ONE, None, None, None, *BUFFER, i32(6), BEAMS + 2], "is out of range for axis of size 2"),
        ([*ONE, None, None, None, *BUFFER, i32(6), BEAMS - 1], r"names a beam below 0[\s\S]*from 0 to 1"),
        ([Q, K[:1], V[:1], None, None, None, *PAST], "Query, key and value do not belong together"),
        ([Q, K, V[:, :5]], "Query, key and value do not belong together"),
        ([Q, K, V, None, np.ones((2, 4), np.int32)], "The mask of keys has shape"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], message: str) -> None:
    """With what was given and what would fit."""
    with pytest.raises(InvalidArgument, match=message):
        contrib(MULTI, inputs, num_heads=HEADS)


def test_decoding_more_than_one_position_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="decodes one position at a time"):
        contrib(DECODER, [Q, K, V], num_heads=HEADS)


def test_beams_without_their_sources_are_refused() -> None:
    """beam_width alone does not say where rows come from."""
    inputs = [*ONE, None, None, *BUFFER, i32(6), i32(2)]
    with pytest.raises(InvalidArgument, match=r"beam_width is 2[\s\S]*no cache_indirection"):
        contrib(DECODER, inputs, num_heads=HEADS, past_present_share_buffer=1)


@pytest.mark.parametrize("entries", [9, 11])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_bias_has_an_entry_for_each_key(rows: int, entries: int) -> None:
    """Those of the past included: a shorter one hides none."""
    query = f32((2, rows, 12))
    bias = np.zeros((1, 1, rows, entries), np.float32)
    with pytest.raises(InvalidArgument, match="does not have an entry for each key"):
        contrib(MULTI, [query, K, V, None, None, bias, *PAST], num_heads=HEADS, outputs=3)
