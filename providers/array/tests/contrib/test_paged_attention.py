"""PagedAttention against dense attention of each sequence by itself, in float64: onnxruntime has it for GPUs only."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_array.contrib.paged_attention import paged_attention
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .attention_oracle import f32, i32, on_device, unchanged
from .closed_forms import contrib
from .dense_attention import Batch, dense

OP = "PagedAttention"
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def compare(batch: Batch, *, dtype: Any = np.float32, outputs: int = 3, **more: Any) -> list[Any]:
    """Run the batch, and compare all that comes out with the closed form; gives what came out."""
    inputs = batch.inputs(dtype)
    results = contrib(OP, inputs, outputs=outputs, **batch.attributes, **more)
    expected = dense(batch, inputs, **more)
    tolerance = TOLERANCE[np.dtype(dtype).name]
    for result, wanted in zip(results, expected, strict=False):
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    return results


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    sequences=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=4),
    groups=st.sampled_from([(4, 2), (3, 3), (4, 1)]),
    rotary=st.sampled_from([{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1, "rotary_offset": 8}]),
    more=st.sampled_from([{}, {"local_window_size": 3}, {"softcap": 1.5, "scale": 2.0}, {"is_causal": 0}]),
    packed=st.booleans(),
    sink=st.booleans(),
    norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_batches(
    sequences: list[tuple[int, int]],
    groups: tuple[int, int],
    rotary: dict[str, Any],
    more: dict[str, Any],
    packed: bool,
    sink: bool,
    norm: bool,
    seed: int,
) -> None:
    """Prompts, decoding and both in one batch, sequences without new tokens among them; pages lie anywhere."""
    batch = Batch(sequences, *groups, packed=packed, sink=sink, norm=norm, pairs=4 if rotary else 0, seed=seed)
    compare(batch, **rotary, **more)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats(dtype: Any) -> None:
    """Computed in float32 and rounded; the output has the queries' type, also behind a norm."""
    (y, keys, _) = compare(Batch([(3, 2), (0, 4)], norm=True, pairs=8), dtype=dtype, do_rotary=1)
    assert y.dtype == keys.dtype == dtype


def test_what_lies_in_unused_rows_is_never_seen() -> None:
    """Unused pages and rows behind a sequence's end may hold anything."""
    compare(Batch([(5, 1), (2, 3), (0, 1)], rubbish=np.nan))


@pytest.mark.parametrize("causal", [0, 1])
def test_latent_caches(causal: int) -> None:
    """One row per token: keys, of which the first elements are values too."""
    batch = Batch([(5, 3), (0, 2), (7, 1)], heads=4, key_heads=1, latent=6)
    compare(batch, outputs=2, is_causal=causal)


@pytest.mark.parametrize("stored", [np.int8, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
def test_quantised_caches(kind: str, stored: Any) -> None:
    """New rows are rounded into 8 bits; attention sees what was stored."""
    batch = Batch([(5, 3), (0, 2)])
    inputs = [*batch.inputs(np.float32), *[None] * 17][:17]
    scales: Any = np.full((2, 1, 16) if kind == "PER_CHANNEL" else (1,), 1 / 64, np.float32)
    scales = scales * (1 + np.arange(scales.size, dtype=np.float32).reshape(scales.shape) / 40)
    spread = scales if kind == "PER_TENSOR" else scales.reshape((1, 1, 2, 16))
    inputs[3:5] = [(np.rint(x / spread) if stored is np.int8 else x / spread).astype(stored) for x in inputs[3:5]]
    inputs[14] = inputs[15] = scales
    before = [x.astype(np.float32) * spread for x in inputs[3:5]]
    y, keys, values = contrib(OP, inputs, outputs=3, k_quant_type=kind, v_quant_type=kind, **batch.attributes)
    assert keys.dtype == values.dtype == stored
    plain = list(inputs)
    plain[3:5] = [x.astype(np.float32) * spread for x in (keys, values)]
    plain[10] = np.full(inputs[0].shape[0], -1, np.int32)
    expected = dense(batch, plain)
    np.testing.assert_allclose(y, expected[0], rtol=1e-4, atol=1e-4)
    unrounded = dense(batch, [*inputs[:3], *before, *inputs[5:10]])
    for result, exact in zip(plain[3:5], unrounded[1:], strict=True):
        np.testing.assert_allclose(result, exact, atol=0.07)


def test_two_values_a_byte() -> None:
    """Two's complements, the first in the low bits: what a cache of int8 with the same numbers gives."""
    batch = Batch([(5, 3), (0, 2), (8, 1)])
    inputs = [*batch.inputs(np.float32), *[None] * 17][:17]
    inputs[3:5] = [np.rint(np.clip(x, -1, 1) * 7).astype(np.int8) for x in inputs[3:5]]
    inputs[14] = inputs[15] = np.array([1 / 7], np.float32)
    kinds: dict[str, Any] = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", **batch.attributes}
    expected = contrib(OP, inputs, outputs=3, **kinds)

    def packed(x: Any) -> Any:
        return ((x[..., ::2] & 15) | (x[..., 1::2] << 4)).astype(np.uint8)

    inputs[3:5] = [packed(x) for x in inputs[3:5]]
    y, *caches = contrib(OP, inputs, outputs=3, k_cache_dtype="int4", v_cache_dtype="int4", **kinds)
    np.testing.assert_array_equal(y, expected[0])
    for cache, plain in zip(caches, expected[1:], strict=True):
        np.testing.assert_array_equal(cache, packed(plain))


def test_slots_say_where_rows_go() -> None:
    """And -1 that they go nowhere: the cache has them already."""
    batch = Batch([(5, 1), (2, 3)])
    inputs, slots = batch.inputs(np.float32), batch.slots()
    slots[2] = -1
    _, keys, _ = contrib(OP, [*inputs[:10], slots], outputs=3, **batch.attributes)
    wanted = inputs[3].copy().reshape((-1, 2, 16))
    wanted[slots[slots >= 0]] = inputs[1].reshape((-1, 2, 16))[slots >= 0]
    np.testing.assert_array_equal(keys.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("shared", [(), (3,), (3, 4)])
def test_writing_where_it_is_told(shared: tuple[int, ...]) -> None:
    """Into new memory the whole caches go, into their own only the new rows; the results are the same."""
    batch = Batch([(5, 1), (2, 3)], pairs=8)
    inputs = batch.inputs(np.float32)
    expected = dense(batch, inputs, do_rotary=1)
    attributes = {**batch.attributes, "do_rotary": 1}
    node = make_node_spec(OP, inputs, domain="com.microsoft", opset=1, outputs=3, attributes=attributes)
    forms = paged_attention(LocalKernelContext(node))
    given = [None if x is None else x.copy() for x in inputs]
    outs: list[Any] = [
        np.full((4, 64), 9, np.float32),
        *(given[at] if at in shared else np.empty_like(given[at]) for at in (3, 4)),
    ]
    results = forms.into(*given, *outs)  # type: ignore[attr-defined]
    for result, out, wanted in zip(results, outs, expected, strict=True):
        assert result is out
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_on_a_device() -> None:
    """Lengths and pages are read on the host, everything else stays where it is; no input is written to."""
    batch = Batch([(5, 1), (2, 3), (1, 1)], pairs=8, sink=True, norm=True)
    inputs = batch.inputs(np.float32)
    before = [None if x is None else x.copy() for x in inputs]
    on_device(OP, inputs, 3, (5, 6, 7, 10, 16), do_rotary=1, **batch.attributes)
    unchanged(inputs, before)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (5, i32(0, 1, 3), "for 4 tokens"),
        (5, i32(0, 5, 4), "never fall"),
        (6, i32(5), "one sequence at least"),
        (6, i32(5, -1), "not negative"),
        (7, np.array([[0], [1]], np.int32), "one row per sequence"),
        (7, np.array([[0, 99, 0], [1, 2, 3]], np.int32), "names the page 99"),
        (7, np.array([[-1, 2, 0], [1, 2, 3]], np.int32), "names the page -1"),
        (10, i32(0, 1, 2), "must have 4 entries"),
        (10, i32(0, 1, 2, 1000), "entry 1000"),
        (2, None, "beside it"),
        (4, None, "value_cache is absent"),
        (3, np.zeros((9, 4, 2, 8), np.float32), "A cache must be"),
        (9, None, "cos_cache or sin_cache"),
        (12, f32((16,)), "Give both"),
    ],
)
def test_refusals(place: int, value: Any, words: str) -> None:
    """Inputs that do not belong together raise before anything is read through them."""
    batch = Batch([(5, 1), (2, 3)], pairs=8)
    inputs = [*batch.inputs(np.float32), *[None] * 17][:17]
    inputs[place] = value
    with pytest.raises(InvalidArgument, match=words):
        contrib(OP, inputs, outputs=3, do_rotary=1, **batch.attributes)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"kv_cache_layout": "OTHER"}, "'SEPARATE' or 'LATENT'"),
        ({"kv_cache_layout": "LATENT"}, "Set kv_num_heads to 1"),
        ({"local_window_size": -2}, "a window of -1"),
        ({"rotary_offset": 4}, "multiple of 8"),
        ({"v_head_size": 8}, "only 'LATENT' caches"),
        ({"k_cache_dtype": "int4"}, "two values a byte"),
        ({"v_cache_dtype": "float16"}, "both caches are of one type"),
        ({"k_quant_type": "PER_TENSOR"}, "others are not"),
    ],
)
def test_attributes_that_are_refused(attributes: dict[str, Any], words: str) -> None:
    """Out of range, or of forms that are not there."""
    batch = Batch([(5, 1), (2, 3)])
    with pytest.raises(InvalidArgument, match=words):
        contrib(OP, batch.inputs(np.float32), outputs=3, **{**batch.attributes, **attributes})


def test_quantised_caches_that_are_refused() -> None:
    """Without a scale, or without a word that they are quantised."""
    batch = Batch([(5, 1)])
    inputs = batch.inputs(np.float32)
    inputs[3:5] = [x.astype(np.int8) for x in inputs[3:5]]
    with pytest.raises(InvalidArgument, match=r"k_quant_type is 'NONE' and the cache of int8"):
        contrib(OP, inputs, outputs=3, **batch.attributes)
    with pytest.raises(InvalidArgument, match="k_scale is absent"):
        contrib(OP, inputs, outputs=3, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", **batch.attributes)


def test_positions_outside_the_caches() -> None:
    """A sequence longer than the tables of angles."""
    batch = Batch([(70, 1)], pairs=8)
    with pytest.raises(InvalidArgument, match="Position 70"):
        contrib(OP, batch.inputs(np.float32), outputs=3, do_rotary=1, **batch.attributes)
