"""LinearAttention and CausalConvWithState of com.microsoft against onnxruntime; windows against single steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16
from .attention_oracle import agree, f32, on_device
from .closed_forms import contrib, rounded_once

LINEAR, CONV = "LinearAttention", "CausalConvWithState"
TWO = (np.float32, np.float32)


def linear(
    batch: int,
    time: int,
    heads: tuple[int, int, int],
    rule: str,
    *,
    past: bool = False,
    keyed: bool = False,
    one: bool = False,
) -> list[Any]:
    """Inputs with heads of queries, keys and values, sizes 4 and 6."""
    queries, keys, values = heads
    inputs: list[Any] = [f32((batch, time, queries * 4)), f32((batch, time, keys * 4), 1) / 2]
    inputs += [f32((batch, time, values * 6), 2), f32((batch, values, 4, 6), 3) if past else None]
    inputs += [-np.abs(f32((batch, time, values * (4 if keyed else 1)), 4)) if "gated" in rule else None]
    inputs += [np.abs(f32((batch, time, 1 if one else values), 5)) if "delta" in rule else None]
    return inputs


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 2),
    time=st.integers(0, 9),
    heads=st.sampled_from([(2, 2, 2), (4, 2, 2), (2, 2, 4), (2, 1, 4), (4, 2, 4), (4, 1, 2)]),
    rule=st.sampled_from(["linear", "gated", "delta", "gated_delta"]),
    past=st.booleans(),
    keyed=st.booleans(),
    one=st.booleans(),
    scale=st.sampled_from([0.0, 0.7]),
)
def test_linear_attention_agrees_with_onnxruntime(
    batch: int, time: int, heads: tuple[int, int, int], rule: str, past: bool, keyed: bool, one: bool, scale: float
) -> None:
    """All rules; more, as many or fewer query than value heads; keys that values share."""
    inputs = linear(batch, time, heads, rule, past=past, keyed=keyed, one=one)
    agree(LINEAR, inputs, TWO, q_num_heads=heads[0], kv_num_heads=heads[2], update_rule=rule, scale=scale)


def test_inputs_that_a_rule_does_not_use_are_ignored() -> None:
    """onnxruntime ignores them; ONNX's operator refuses them."""
    agree(LINEAR, linear(2, 3, (2, 2, 2), "gated_delta"), TWO, q_num_heads=2, kv_num_heads=2, update_rule="linear")


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    time=st.integers(1, 7),
    window=st.integers(1, 8),
    past=st.booleans(),
    rule=st.sampled_from(["gated_delta", "linear"]),
)
def test_a_window_of_states(time: int, window: int, past: bool, rule: str) -> None:
    """Slot j holds what a call without the last steps leaves; onnxruntime's CPU has no windows."""
    inputs = linear(2, time, (4, 2, 2), rule, past=past)
    attributes: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule, "outputs": 2}
    given_past = inputs[3]
    if past:
        inputs[3] = f32((window, *given_past.shape), 9)
        inputs[3][-1] = given_past
    y, states = contrib(LINEAR, inputs, state_window=window, **attributes)
    inputs[3] = given_past
    for slot in range(window):
        steps = time - window + slot + 1
        if steps < 1:
            assert not states[slot].any()
            continue
        cut = [x if x is None or i == 3 else x[:, :steps].copy() for i, x in enumerate(inputs)]
        part, state = contrib(LINEAR, cut, **attributes)
        assert_close(states[slot], state)
        assert_close(y[:, :steps], part)


def naive_linear(q: Any, k: Any, v: Any, state: Any, decay: Any, beta: Any) -> tuple[Any, Any]:
    """The recurrence in float64 for one head, step by step."""
    q, k, v, state, decay, beta = (x.astype(np.float64) for x in (q, k, v, state, decay, beta))
    rows = []
    for t in range(q.shape[0]):
        state = state * np.exp(decay[t])
        state = state + np.outer(k[t], beta[t] * (v[t] - k[t] @ state))
        rows.append(q[t] @ state / np.sqrt(q.shape[1]))
    return np.array(rows), state


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
@pytest.mark.parametrize("kind", [np.dtype(np.float16), BF16, np.dtype(np.float32)], ids=str)
def test_narrow_floats(dtype: Any, kind: Any, window: int) -> None:
    """States may be of another type; sums are float32 throughout."""
    inputs = [x.astype(dtype) for x in linear(1, 5, (1, 1, 1), "gated_delta", past=True)]
    past = f32((1, 1, 4, 6), 3).astype(kind)
    inputs[3] = np.stack((past, past)) if window else past
    y, states = contrib(LINEAR, inputs, outputs=2, q_num_heads=1, kv_num_heads=1, state_window=window)
    q, k, v, _, decay, beta = (x[0] for x in inputs)
    exact, state = naive_linear(q, k, v, past[0, 0], decay, beta)
    rounded_once(y[0], exact, dtype)
    rounded_once(states[-1][0, 0] if window else states[0, 0], state, kind)


X, W, B = f32((2, 6, 9)), f32((6, 1, 4), 1), f32((6,), 2)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    length=st.integers(1, 9),
    taps=st.integers(1, 4),
    dilation=st.integers(1, 3),
    last=st.booleans(),
    bias=st.booleans(),
    past=st.booleans(),
    activation=st.sampled_from(["none", "silu", "swish"]),
)
def test_convolution_agrees_with_onnxruntime(
    length: int, taps: int, dilation: int, last: bool, bias: bool, past: bool, activation: str
) -> None:
    """Gaps between taps, channels on one axis or on all last ones, shorter inputs than states."""
    steps = (taps - 1) * dilation
    x = f32((2, length, 2, 3) if last else (2, 6, length))
    state = f32((2, steps, 2, 3) if last else (2, 6, steps), 3) if past else None
    inputs = [x, f32((6, 1, taps), 1), B if bias else None, state]
    agree(CONV, inputs, TWO, activation=activation, dilation=dilation, channels_last=int(last))


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    length=st.integers(1, 7),
    window=st.integers(1, 8),
    dilation=st.integers(1, 2),
    last=st.booleans(),
    past=st.booleans(),
)
def test_a_window_of_convolution_states(length: int, window: int, dilation: int, last: bool, past: bool) -> None:
    """Slot j holds what a call without the last steps leaves; onnxruntime's CPU has no windows."""
    steps, axis = 3 * dilation, 1 if last else 2
    x = f32((2, length, 6) if last else (2, 6, length))
    own = f32((2, steps, 6) if last else (2, 6, steps), 3)
    states_before = None
    if past:
        states_before = f32((window, *own.shape), 9)
        states_before[-1] = own
    attributes: dict[str, Any] = {"channels_last": int(last), "dilation": dilation, "outputs": 2}
    y, states = contrib(CONV, [x, W, B, states_before], state_window=window, **attributes)
    assert_close(y, contrib(CONV, [x, W, B, own if past else None], **attributes)[0])
    for slot in range(window):
        count = length - window + slot + 1
        if count < 1:
            assert not states[slot].any()
            continue
        cut = np.take(x, np.arange(count), axis=axis)
        assert_close(states[slot], contrib(CONV, [cut, W, B, own if past else None], **attributes)[1])


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_convolution_of_narrow_floats(dtype: Any) -> None:
    x, w, b, s = (value.astype(dtype) for value in (X, W, B, f32((2, 6, 6), 3)))
    y, state = contrib(CONV, [x, w, b, s], outputs=2, dilation=2)
    whole = np.concatenate((s, x), axis=2)
    wide = whole.astype(np.float64)
    taps = w.astype(np.float64)
    exact = sum(wide[:, :, 2 * tap : 2 * tap + 9] * taps[:, :, tap] for tap in range(4))
    rounded_once(y, exact + b.astype(np.float64)[:, None], dtype)
    np.testing.assert_array_equal(state, whole[:, :, -6:])


def test_on_another_array_module() -> None:
    """Windows, gaps, repeated heads and channels last."""
    inputs = linear(2, 4, (2, 1, 4), "gated_delta", past=True)
    inputs[3] = np.stack([inputs[3]] * 3)
    on_device(LINEAR, inputs, 2, q_num_heads=2, kv_num_heads=4, state_window=3)
    on_device(CONV, [f32((2, 4, 2, 3)), W, B, f32((3, 2, 6, 2, 3))], 2, channels_last=1, dilation=2, state_window=3)


@pytest.mark.parametrize(
    ("change", "attributes", "message"),
    [
        ({}, {"state_window": 9}, r"state_window is 9[\s\S]*\[0, 8\]"),
        ({}, {"state_window": 2}, "past_state must hold 2 states"),
        ({}, {"q_num_heads": 3}, "with 3 query and 2 value heads do not fit"),
        ({}, {"kv_num_heads": 0}, "0 value heads do not fit"),
        ({0: f32((2, 12))}, {}, "do not fit"),
        ({3: f32((1, 2, 2, 4, 6)), 4: f32((2,))}, {"state_window": 1}, r"decay must be \(batch, time, columns\)"),
        ({4: None}, {}, "The rule 'gated_delta' needs input 'decay'"),
        ({}, {"update_rule": "other"}, "update_rule is 'other'"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[int, Any], attributes: dict[str, Any], message: str) -> None:
    """With what was given and what would fit."""
    inputs = linear(2, 3, (4, 2, 2), "gated_delta", past=True)
    for index, value in change.items():
        inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib(LINEAR, inputs, outputs=2, **{"q_num_heads": 4, "kv_num_heads": 2, **attributes})


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, W], {"ndim": 2}, r"ndim is 2 and dilation 1[\s\S]*Use ndim 1"),
        ([X, W], {"dilation": 0}, "dilation 0"),
        ([X, W], {"state_window": -1}, "state_window is -1"),
        ([X, W, B, f32((2, 6, 3))], {"state_window": 2}, "past_state must hold 2 states"),
        ([X, W, B, f32((2, 6, 2))], {}, r"The state must have the shape \[2, 6, 3\]"),
        ([X[0], W], {"channels_last": 1}, "at least three axes"),
        ([f32((2, 9, 6)), W, B, f32((2, 3, 5))], {"channels_last": 1}, "must have the channels of the input"),
    ],
)
def test_a_convolution_that_does_not_fit_is_refused(
    inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    """With what was given and what would fit."""
    with pytest.raises(InvalidArgument, match=message):
        contrib(CONV, inputs, outputs=2, **attributes)
