"""Attention-23, 24, 25: the reference and onnxruntime over heads, caches, masks and windows; types; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, FLOATS, agree, i64, run, sample
from ..runtime_oracle import agree_with_runtime

Q, K, V = (sample((2, 4, 3, 8), np.float32, seed) for seed in range(3))
PACKED = [x.swapaxes(1, 2).reshape(2, 3, 32) for x in (Q, K, V)]


@st.composite
def nodes(draw: Any, version: int) -> tuple[list[Any], dict[str, Any]]:
    """Inputs and attributes that one version allows."""
    batch, key_heads, group = (draw(st.integers(1, 3)) for _ in range(3))
    rows, new, past = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(0, 3))
    cache = draw(st.sampled_from(["none", "inside", "outside"] if version > 23 else ["none", "inside"]))
    seed = draw(st.integers(0, 99))
    past = past if cache == "inside" else 0
    heads, keys = key_heads * group, past + new
    q = sample((batch, heads, rows, 4), np.float32, seed)
    k = sample((batch, key_heads, new, 4), np.float32, seed + 1)
    v = sample((batch, key_heads, new, 2), np.float32, seed + 2)
    inputs: list[Any] = [q, k, v, None]
    attributes: dict[str, Any] = {"is_causal": draw(st.integers(0, 1))}
    if draw(st.booleans()):
        attributes["scale"] = 0.7
    if draw(st.booleans()):
        inputs[:3] = [x.swapaxes(1, 2).reshape(batch, x.shape[2], -1) for x in (q, k, v)]
        attributes |= {"q_num_heads": heads, "kv_num_heads": key_heads}
    kind = draw(st.sampled_from(["none", "bool", "float", "-inf"]))
    if kind != "none":
        # The reference takes the rows of the causal frontier from the mask, so that one of a single row loses it.
        lead = (dim if draw(st.booleans()) else 1 for dim in (batch, heads))
        shape = (*lead, rows if attributes["is_causal"] or draw(st.booleans()) else 1)
        mask = sample((*shape, keys)[draw(st.integers(0, 2)) :], np.float32, seed + 3)
        hidden = np.where(mask > 1, -np.inf, mask).astype(np.float32)
        inputs[3] = {"bool": mask > 0, "float": mask, "-inf": hidden}[kind]
    if cache == "inside":
        inputs += [sample((batch, key_heads, past, size), np.float32, seed + 4) for size in (4, 2)]
    if cache == "outside":
        lengths = draw(st.lists(st.integers(0, keys), min_size=batch, max_size=batch))
        inputs += [None, None, i64(*lengths)]
    if version > 24:
        attributes |= {name: draw(st.sampled_from([-1, 0, 2])) for name in ("left_window_size", "right_window_size")}
    softcap = draw(st.sampled_from([0.0, 2.0]))
    # Where scores are capped, the reference gives the capped ones for mode 0 too, against the text of the operator.
    attributes |= {"softcap": softcap, "qk_matmul_output_mode": draw(st.integers(1 if softcap else 0, 3))}
    return inputs, attributes


@pytest.mark.parametrize("version", [23, 24, 25])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_version_agrees_with_the_reference(version: int, data: st.DataObject) -> None:
    """Result, present keys and values and the matrix, over heads, layouts, caches, masks, caps and windows."""
    inputs, attributes = data.draw(nodes(version))
    agree("Attention", inputs, opset=version, outputs=4, **attributes)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    heads=st.sampled_from([(1, 1), (2, 2), (4, 2), (6, 3)]),
    packed=st.booleans(),
    causal=st.integers(0, 1),
    past=st.integers(0, 4),
    mask=st.sampled_from(["none", "bool", "float"]),
    seed=st.integers(0, 99),
)
def test_it_agrees_with_onnxruntime(
    heads: tuple[int, int], packed: bool, causal: int, past: int, mask: str, seed: int
) -> None:
    """Self-attention with and without a past, as decoders use it."""
    rows = 4
    inputs: list[Any] = [sample((2, count, rows, 8), np.float32, seed + count) for count in (heads[0], *heads[1:] * 2)]
    attributes: dict[str, Any] = {"is_causal": causal}
    if packed:
        inputs = [x.swapaxes(1, 2).reshape(2, rows, -1) for x in inputs]
        attributes |= {"q_num_heads": heads[0], "kv_num_heads": heads[1]}
    values = sample((rows, rows + past), np.float32, seed + 9)
    values[:, 0] = 1.0  # onnxruntime and the text differ about rows without a key
    inputs.append({"none": None, "bool": values > 0, "float": values}[mask])
    if past:
        inputs += [sample((2, heads[1], past, 8), np.float32, seed + n) for n in (20, 21)]
    agree_with_runtime("Attention", inputs, opset=23, outputs=3 if past else 1, **attributes)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("version", [23, 24, 25])
def test_every_floating_type(version: int, dtype: Any) -> None:
    """Queries, keys, values, masks and all results in one type."""
    inputs = [x.astype(dtype) for x in (Q, K, V, sample((3, 3), np.float32, 5))]
    agree("Attention", inputs, opset=version, outputs=4, qk_matmul_output_mode=3)


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16), np.dtype(np.float64)], ids=str)
def test_values_of_another_type_than_keys(dtype: Any) -> None:
    """T2 is the type of the values and of the present values; the result has that of the queries."""
    y, present_key, present_value = run("Attention", [Q, K, V.astype(dtype)], outputs=3)
    (expected,) = run("Attention", [Q, K, V.astype(dtype).astype(np.float32)])
    assert (present_key.dtype, present_value.dtype) == (np.float32, dtype)
    assert_close(y, expected)


@pytest.mark.parametrize(
    "dtype",
    [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, BF16, np.float16],
    ids=str,
)
def test_a_mask_of_any_number_is_added(dtype: Any) -> None:
    """Only a boolean mask hides; one of integers is cast and added, as the body of the function says."""
    mask = sample((3, 3), dtype, 5)
    (y,) = run("Attention", [Q, K, V, mask])
    (expected,) = run("Attention", [Q, K, V, mask.astype(np.float32)])
    assert_close(y, expected)


@pytest.mark.parametrize("precision", [1, 10, 11, 16])
def test_the_precision_of_the_softmax(precision: int) -> None:
    """Every type that the attribute may name."""
    types = {1: np.float32, 10: np.float16, 11: np.float64, 16: BF16}
    y, _, _, p = run("Attention", [Q, K, V], outputs=4, softmax_precision=precision, qk_matmul_output_mode=3)
    exact = run("Attention", [x.astype(np.float64) for x in (Q, K, V)], outputs=4, qk_matmul_output_mode=3)
    assert y.dtype == p.dtype == np.float32
    np.testing.assert_array_equal(p, p.astype(types[precision]).astype(np.float32))
    tolerance = 1.6e-2 if precision == 16 else 2e-3 if precision == 10 else 1e-4
    np.testing.assert_allclose(p, exact[3], rtol=4 * tolerance, atol=tolerance)
    np.testing.assert_allclose(y, exact[0], rtol=4 * tolerance, atol=4 * tolerance)


def test_mode_0_is_the_bare_product_even_where_scores_are_capped() -> None:
    """The text says so; the reference overwrites it with the capped scores."""
    matrix = run("Attention", [Q, K, V], outputs=4, softcap=0.5)[3]
    assert_close(matrix, (np.matmul(Q, K.swapaxes(2, 3)) / np.sqrt(np.float32(8))).astype(np.float32))


def test_a_mask_for_one_key_is_broadcast_in_version_23_and_padded_later() -> None:
    """Version 24 pads any shorter mask with -inf, as its function body does; version 23 only broadcasts."""
    mask = np.zeros((3, 1), np.float32)
    older, newer = (run("Attention", [Q, K, V, mask], opset=version)[0] for version in (23, 24))
    assert_close(older, run("Attention", [Q, K, V])[0])
    assert_close(newer, np.broadcast_to(V[:, :, :1], Q.shape).copy())


@pytest.mark.parametrize("version", [23, 24, 25])
def test_a_mask_of_one_row_leaves_the_causal_frontier_alone(version: int) -> None:
    """The frontier is computed independently of the mask, which is then broadcast, whatever its rank."""
    mask = sample((3,), np.float32, 5)
    (expected,) = run("Attention", [Q, K, V, np.broadcast_to(mask, (3, 3)).copy()], opset=version, is_causal=1)
    for shape in ((3,), (1, 3), (1, 1, 3), (1, 1, 1, 3)):
        assert_close(run("Attention", [Q, K, V, mask.reshape(shape)], opset=version, is_causal=1)[0], expected)


def test_a_scalar_mask_changes_nothing() -> None:
    """One number for all scores cancels in the softmax."""
    (y,) = run("Attention", [Q, K, V, np.float32(3.0).reshape(())], opset=23)
    assert_close(y, run("Attention", [Q, K, V])[0])


def test_without_a_past_the_present_is_what_was_given() -> None:
    """Keys and values of packed inputs come out with their heads apart, without a copy."""
    _, key, value = run("Attention", PACKED, outputs=3, q_num_heads=4, kv_num_heads=4)
    np.testing.assert_array_equal(key, K)
    np.testing.assert_array_equal(value, V)
    assert np.shares_memory(key, PACKED[1])


def test_padding_behind_the_valid_keys_is_never_read() -> None:
    """NaN in the unused part of a cache outside does not reach the result."""
    keys, values = (np.concatenate((x, np.full_like(x, np.nan)), axis=2) for x in (K, V))
    lengths = i64(3, 3)
    (y,) = run("Attention", [Q, keys, values, None, None, None, lengths], opset=24)
    assert_close(y, run("Attention", [Q, K, V], opset=24)[0])


PAST = sample((2, 4, 2, 8), np.float32, 7)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([Q, PACKED[1], PACKED[2]], {}, "all have rank 3 or all rank 4"),
        ([Q[0, 0], K[0, 0], V[0, 0]], {}, "all have rank 3 or all rank 4"),
        (PACKED, {"q_num_heads": 4}, "need the attributes q_num_heads and kv_num_heads"),
        (PACKED, {"q_num_heads": 5, "kv_num_heads": 5}, "cannot be split into 5 heads"),
        (PACKED, {"q_num_heads": 4, "kv_num_heads": 0}, "cannot be split into 0 heads"),
        ([Q, K, V], {"q_num_heads": 2}, "contradict the inputs' second axes"),
        ([Q, K[:, :3], V[:, :3]], {}, "4 query heads cannot share 3 key heads"),
        ([Q, K, V[:, :, :2]], {}, "do not belong together"),
        ([Q, K, V, None, PAST], {}, "past_key and past_value belong together"),
        ([Q, K, V, None, PAST, PAST, i64(1, 1)], {}, "exclude nonpad_kv_seqlen"),
        ([Q, K, V, None, PAST[:, :2], PAST], {}, "past does not fit"),
        ([Q, K, V, None, PAST, PAST[..., :4]], {}, "past does not fit"),
        ([Q, K, V, None, None, None, i64(1)], {}, "not one number per batch entry"),
        ([Q, K, V, None, None, None, i64(1, 4)], {}, "beyond the 3 keys"),
        ([Q, K, V, None, None, None, i64(-1, 1)], {}, "beyond the 3 keys"),
        ([Q, K, V, np.zeros((2, 3), np.float32)], {}, "mask does not broadcast"),
        ([Q, K, V], {"left_window_size": -2}, "left_window_size is -2"),
        ([Q, K, V], {"right_window_size": -3}, "right_window_size is -3"),
        ([Q, K, V], {"qk_matmul_output_mode": 4}, "qk_matmul_output_mode is 4"),
        ([Q, K, V], {"softmax_precision": 7}, "softmax_precision is 7"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    """The message names the node and says what to do."""
    with pytest.raises(InvalidArgument, match=message) as caught:
        run("Attention", inputs, opset=25, **attributes)
    assert "Attention_under_test" in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize("keys", [2, 4])
def test_version_23_has_no_shorter_masks(keys: int) -> None:
    """It adds the mask to the scores, whose last axis has an entry for each key."""
    with pytest.raises(InvalidArgument, match="does not have an entry for each key"):
        run("Attention", [Q, K, V, np.zeros((3, keys), np.float32)], opset=23)
