"""Dropout at inference and in training mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .oracle import FLOATS, run, sample


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
def test_inference_is_the_identity(opset: int, dtype: Any) -> None:
    """The data passes through as it is; the mask is all ones, bool from version 10 on."""
    x = sample((2, 3), dtype)
    result, mask = run("Dropout", [x], opset=opset, outputs=2)
    assert result is x
    assert mask.dtype == (bool if opset >= 10 else dtype)
    assert mask.astype(bool).all()
    assert run("Dropout", [x], opset=opset)[0] is x


def test_training_drops_the_ratio_and_scales_the_rest() -> None:
    """About a quarter is 0, the rest divided by 3/4, as the mask says."""
    x = np.ones(10_000, np.float32)
    result, mask = run("Dropout", [x, np.array(0.25, np.float32), np.array(True)], outputs=2)
    assert abs(mask.mean() - 0.75) < 0.03
    np.testing.assert_allclose(result, np.where(mask, 4 / 3, 0), rtol=1e-6)


def test_a_seed_repeats() -> None:
    """The same seed gives the same mask."""
    inputs = [np.ones(100, np.float32), np.array(0.5, np.float32), np.array(True)]
    masks = [run("Dropout", inputs, outputs=2, seed=3)[1] for _ in range(2)]
    np.testing.assert_array_equal(*masks)


def test_training_mode_before_opset_7() -> None:
    """Without `is_test` the first versions trained."""
    x = np.ones(1000, np.float32)
    assert run("Dropout", [x], opset=6, is_test=1)[0] is x
    assert 300 < np.count_nonzero(run("Dropout", [x], opset=6)[0]) < 700


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_extreme_ratios(ratio: float) -> None:
    """Nothing or everything is dropped, without a division by zero."""
    inputs = [np.ones(5, np.float32), np.array(ratio, np.float32), np.array(True)]
    assert run("Dropout", inputs)[0].tolist() == [1 - ratio] * 5
