"""CausalConvWithState-27: the reference over lengths, taps and states; types; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_array.attention import causal_convolution
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, agree, run, sample

X, W = sample((2, 3, 6), np.float32), sample((3, 1, 4), np.float32, 1)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6)),
    taps=st.integers(1, 5),
    biased=st.booleans(),
    carried=st.booleans(),
    activation=st.sampled_from(["none", "silu", "swish"]),
    block=st.sampled_from([1, 30, 1 << 15]),
    seed=st.integers(0, 99),
)
def test_it_agrees_with_the_reference(
    shape: tuple[int, int, int], taps: int, biased: bool, carried: bool, activation: str, block: int, seed: int
) -> None:
    """Inputs longer and shorter than the filter, with a state and a bias and without, in blocks of any size."""
    batch, channels, _ = shape
    inputs = [
        sample(shape, np.float32, seed),
        sample((channels, 1, taps), np.float32, seed + 1),
        sample((channels,), np.float32, seed + 2) if biased else None,
        sample((batch, channels, taps - 1), np.float32, seed + 3) if carried else None,
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(causal_convolution, "_ELEMENTS", block)
        agree("CausalConvWithState", inputs, outputs=2, activation=activation)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_narrow_floats_are_summed_in_float32(dtype: Any) -> None:
    """The result is that of float32, rounded once; the state is copied."""
    inputs = [x.astype(dtype) for x in (X, W, sample((3,), np.float32, 2), sample((2, 3, 3), np.float32, 3))]
    y, state = run("CausalConvWithState", inputs, outputs=2, activation="silu")
    wide, carried = run("CausalConvWithState", [x.astype(np.float32) for x in inputs], outputs=2, activation="silu")
    np.testing.assert_array_equal(y, wide.astype(dtype))
    np.testing.assert_array_equal(state, carried.astype(dtype))


def test_a_sequence_in_steps_is_the_sequence_at_once() -> None:
    """One step at a time with the state carried gives the same as all steps together."""
    whole, last = run("CausalConvWithState", [X, W], outputs=2)
    state, steps = None, []
    for step in range(X.shape[2]):
        y, state = run("CausalConvWithState", [X[:, :, step : step + 1], W, None, state], outputs=2)
        steps.append(y)
    assert_close(np.concatenate(steps, axis=2), whole)
    np.testing.assert_array_equal(state, last)


@pytest.mark.parametrize("shape", [(0, 3, 6), (2, 3, 0)])
def test_empty_tensors(shape: tuple[int, ...]) -> None:
    """No batch entries, or no steps, which leave the state as it is."""
    past = sample((shape[0], 3, 3), np.float32, 3)
    y, state = run("CausalConvWithState", [np.zeros(shape, np.float32), W, None, past], outputs=2)
    assert y.shape == shape
    np.testing.assert_array_equal(state, past)
    assert not np.shares_memory(state, past)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, W], {"activation": "relu"}, "activation is 'relu'"),
        ([X[0], W], {}, "weight .channels, 1, taps."),
        ([X, W[:2]], {}, "weight .channels, 1, taps."),
        ([X, W[:, 0]], {}, "weight .channels, 1, taps."),
        ([X, W[..., :0]], {}, "weight .channels, 1, taps."),
        ([X, W, np.zeros(2, np.float32)], {}, r"bias must have the shape \[3\]"),
        ([X, W, None, np.zeros((2, 3, 4), np.float32)], {}, r"state must have the shape \[2, 3, 3\]"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    """The message names the node and says what to do."""
    with pytest.raises(InvalidArgument, match=message) as caught:
        run("CausalConvWithState", inputs, outputs=2, **attributes)
    assert "CausalConvWithState_under_test" in str(caught.value)
    assert caught.value.fix
