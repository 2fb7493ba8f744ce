"""The short way of the row normalisations against the general one, which float64 takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_array import kernel_defs
from ort_py_kit.kernel_runner import run_kernel
from ort_py_kit.tolerances import assert_close

RANDOM = np.random.default_rng(31)
MICROSOFT = "com.microsoft"


def _random(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape)


@pytest.mark.parametrize("shape", [(5,), (2, 3, 8), (90, 1000)])
@pytest.mark.parametrize(
    ("operator", "parameters"),
    [
        ("LayerNormalization", 1),
        ("LayerNormalization", 2),
        ("RMSNormalization", 1),
        ("SimplifiedLayerNormalization", 1),
    ],
)
def test_rows(operator: str, parameters: int, shape: tuple[int, ...]) -> None:
    """The rows have one block or several, with and without a shift."""
    inputs = [_random(*shape), *(_random(shape[-1]) for _ in range(parameters))]
    opset = {"LayerNormalization": 17, "RMSNormalization": 23, "SimplifiedLayerNormalization": 17}[operator]
    (expected,) = run_kernel(kernel_defs(), operator, inputs, opset=opset, axis=-1, epsilon=0.01)
    narrow = [array.astype(np.float32) for array in inputs]
    (result,) = run_kernel(kernel_defs(), operator, narrow, opset=opset, axis=-1, epsilon=0.01)
    assert_close(result, expected.astype(np.float32))


@pytest.mark.parametrize("shape", [(2, 3, 8), (90, 1000)])
@pytest.mark.parametrize("mask", [[True], [True, False, False, True], [True] * 4])
def test_sums(shape: tuple[int, ...], mask: list[bool]) -> None:
    """The sum with a bias is the fourth output, or stays inside; the general way gives the statistics too."""
    x, skip, scale, shift, bias = (
        array.astype(np.float32) for array in (_random(*shape), _random(*shape), *(_random(shape[-1]) for _ in "sbb"))
    )
    results = run_kernel(
        kernel_defs(),
        "SkipLayerNormalization",
        [x, skip, scale, shift, bias],
        domain=MICROSOFT,
        outputs=len(mask),
        output_mask=mask,
        epsilon=0.01,
    )
    total = x + skip + bias
    (expected,) = run_kernel(kernel_defs(), "LayerNormalization", [total, scale, shift], opset=17, epsilon=0.01)
    assert_close(results[0], expected)
    if len(mask) == 4:
        assert_close(results[-1], total)
