"""LinearAttention-27: chunks against the reference's loop over time, for every rule; types; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_array.attention import linear_attention, linear_chunks
from ort_py_kit.kernel_runner import reference_outputs
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, run, sample

RULES = ("linear", "gated", "delta", "gated_delta")


def inputs_of(
    rule: str,
    *,
    batch: int = 2,
    heads: tuple[int, int] = (2, 2),
    time: int = 7,
    sizes: tuple[int, int] = (4, 3),
    keyed: bool = False,
    one_rate: bool = False,
    state: bool = True,
    decays: tuple[float, float] = (-1.0, 0.0),
    seed: int = 0,
) -> list[Any]:
    """Inputs of a rule, with keys of length 1 as models have them."""
    q_heads, kv_heads = heads
    key = sample((batch, time, kv_heads, sizes[0]), np.float32, seed + 1)
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    return [
        sample((batch, time, q_heads * sizes[0]), np.float32, seed),
        key.reshape(batch, time, kv_heads * sizes[0]),
        sample((batch, time, kv_heads * sizes[1]), np.float32, seed + 2),
        sample((batch, kv_heads, *sizes), np.float32, seed + 3) if state else None,
        sample((batch, time, kv_heads * (sizes[0] if keyed else 1)), np.float32, seed + 4, *decays)
        if "gated" in rule
        else None,
        sample((batch, time, 1 if one_rate else kv_heads), np.float32, seed + 5, 0, 1) if "delta" in rule else None,
    ]


def agree(rule: str, inputs: list[Any], heads: tuple[int, int], **attributes: Any) -> None:
    """Assert that output and state are the reference's, which loops over time in float32."""
    attributes |= {"update_rule": rule, "q_num_heads": heads[0], "kv_num_heads": heads[1]}
    actual = run("LinearAttention", inputs, outputs=2, **attributes)
    expected = reference_outputs("LinearAttention", inputs, outputs=2, **attributes)
    for left, right in zip(actual, expected, strict=True):
        assert_close(left, right)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3),
    heads=st.sampled_from([(1, 1), (2, 2), (4, 2), (3, 1)]),
    time=st.integers(1, 9),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    options=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    chunk=st.sampled_from([4, 8]),
    block=st.sampled_from([1, 100, 1 << 18]),
    seed=st.integers(0, 99),
)
def test_chunks_and_blocks_of_any_size_agree_with_the_reference(
    rule: str,
    batch: int,
    heads: tuple[int, int],
    time: int,
    sizes: tuple[int, int],
    options: tuple[bool, bool, bool],
    chunk: int,
    block: int,
    seed: int,
) -> None:
    """Over heads, sizes, both kinds of decay and of rate, with a past state and without."""
    keyed, one_rate, state = options
    inputs = inputs_of(
        rule,
        batch=batch,
        heads=heads,
        time=time,
        sizes=sizes,
        keyed=keyed,
        one_rate=one_rate,
        state=state,
        seed=seed,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_chunks, "_CHUNK", chunk)
        patch.setattr(linear_chunks, "_KEYED_CHUNK", chunk)
        patch.setattr(linear_attention, "_ELEMENTS", block)
        agree(rule, inputs, heads)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_long_sequences(rule: str, keyed: bool) -> None:
    """Several whole chunks and a rest, with heads of a realistic size."""
    inputs = inputs_of(rule, batch=1, heads=(4, 2), time=150, sizes=(32, 32), keyed=keyed)
    agree(rule, inputs, (4, 2), scale=0.25)


@pytest.mark.parametrize("rule", ["delta", "gated_delta"])
def test_equal_keys_do_not_spoil_the_correction(rule: str) -> None:
    """The system of a chunk is worst where all keys are the same and the rate is 1: the state holds the last value."""
    inputs = inputs_of(rule, batch=1, time=130, sizes=(8, 8), decays=(0.0, 0.0))
    inputs[1][...] = np.tile(np.eye(8, dtype=np.float32)[0], 2)
    inputs[5][...] = 1
    agree(rule, inputs, (2, 2))


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("low", [-2000.0, -40.0])
def test_strong_decays(keyed: bool, low: float) -> None:
    """A decay that forgets everything neither overflows nor spoils the steps after it."""
    for rule in ("gated", "gated_delta"):
        inputs = inputs_of(rule, time=100, sizes=(8, 8), keyed=keyed, decays=(-0.5, 0.0))
        inputs[4][:, 3::10] = low
        agree(rule, inputs, (2, 2))
        inputs[4][:, 5::20] = -np.inf
        agree(rule, inputs, (2, 2))


def test_growth() -> None:
    """A positive decay lets the state grow, as the recurrence says."""
    agree("gated", inputs_of("gated", time=40, keyed=True, decays=(0.0, 0.2)), (2, 2))


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_narrow_floats_are_summed_in_float32(dtype: Any) -> None:
    """The result is that of float32, rounded once; the state has the type of the past state, or of the query."""
    attributes: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2}
    inputs = [None if x is None else x.astype(dtype) for x in inputs_of("gated_delta")]
    wide = [None if x is None else x.astype(np.float32) for x in inputs]
    expected = reference_outputs("LinearAttention", wide, outputs=2, **attributes)
    actual = run("LinearAttention", inputs, outputs=2, **attributes)
    for left, right in zip(actual, expected, strict=True):
        assert_close(left, right.astype(dtype))
    inputs[3] = wide[3]
    y, state = run("LinearAttention", inputs, outputs=2, **attributes)
    assert (y.dtype, state.dtype) == (dtype, np.float32)
    assert_close(state, expected[1])
    inputs[3] = None
    assert run("LinearAttention", inputs, outputs=2, **attributes)[1].dtype == dtype


def test_a_prompt_in_two_parts_is_the_prompt_in_one() -> None:
    """The state carries all that the steps before have written; the past is not written to."""
    inputs = inputs_of("gated_delta", time=20)
    attributes: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2}
    whole = run("LinearAttention", inputs, outputs=2, **attributes)
    past = inputs[3].copy()
    cut = [None if x is None else x if x.ndim == 4 else x[:, :13] for x in inputs]
    first, state = run("LinearAttention", cut, outputs=2, **attributes)
    rest = [state if index == 3 else None if x is None else x[:, 13:] for index, x in enumerate(inputs)]
    second, last = run("LinearAttention", rest, outputs=2, **attributes)
    assert_close(np.concatenate((first, second), axis=1), whole[0])
    assert_close(last, whole[1])
    np.testing.assert_array_equal(inputs[3], past)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_no_steps_and_no_batch(rule: str, keyed: bool) -> None:
    """Without a step the state stays; without a batch entry everything is empty."""
    inputs = inputs_of(rule, time=0, keyed=keyed)
    attributes: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule}
    y, state = run("LinearAttention", inputs, outputs=2, **attributes)
    assert y.shape == (2, 0, 6)
    np.testing.assert_array_equal(state, inputs[3])
    y, state = run("LinearAttention", inputs_of(rule, batch=0), outputs=2, **attributes)
    assert (y.shape, state.shape) == ((0, 7, 6), (0, 2, 4, 3))


GOOD = inputs_of("gated_delta")
HEADS = {"q_num_heads": 2, "kv_num_heads": 2}


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({}, {"update_rule": "quadratic"}, "update_rule is 'quadratic'"),
        ({4: None}, {}, "rule 'gated_delta' needs input 'decay'"),
        ({5: None}, {}, "rule 'gated_delta' needs input 'beta'"),
        ({}, {"update_rule": "delta"}, "rule 'delta' has no input 'decay'"),
        ({}, {"update_rule": "gated"}, "rule 'gated' has no input 'beta'"),
        ({}, {"q_num_heads": 3}, "q_num_heads is 3 and kv_num_heads 2"),
        ({}, {"kv_num_heads": 0}, "kv_num_heads 0"),
        ({0: GOOD[0][..., :7]}, {}, "cannot be split into 2 heads"),
        ({0: GOOD[0][0]}, {}, "cannot be split into 2 heads"),
        ({0: GOOD[0][..., :4]}, {}, "do not belong together"),
        ({2: GOOD[2][:, :3]}, {}, "do not belong together"),
        ({3: GOOD[3][:1]}, {}, r"past_state must have the shape \[2, 2, 4, 3\]"),
        ({4: GOOD[4][..., :1]}, {}, r"decay must have the shape \[2, 7, 2\] or \[2, 7, 8\]"),
        ({5: GOOD[5][:, :3]}, {}, r"beta must have the shape \[2, 7, 1\] or \[2, 7, 2\]"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[int, Any], attributes: dict[str, Any], message: str) -> None:
    """The message names the node and says what to do."""
    inputs = [changed.get(index, value) for index, value in enumerate(GOOD)]
    with pytest.raises(InvalidArgument, match=message) as caught:
        run("LinearAttention", inputs, outputs=2, **(HEADS | attributes))
    assert "LinearAttention_under_test" in str(caught.value)
    assert caught.value.fix
