"""Widening narrow floats and rounding back, at sizes where it is done in integer arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_array.precision import rounded, wide_constant, widened
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .oracle import BF16, run, sample

_SIZES = [7, 20_000, 100_000]


def _wide(size: int) -> Any:
    """float32 of all magnitudes that float16 knows, and beyond."""
    x = np.exp2(sample((size,), np.float32, 1, -30, 20)) * np.sign(sample((size,), np.float32, 2))
    x[:5] = 0.0, np.inf, -np.inf, np.nan, 65519.9
    return x.astype(np.float32)


@pytest.mark.parametrize("size", _SIZES)
def test_rounding_is_that_of_numpy(size: int) -> None:
    """To the bit, in a new array, in a given one, and in one with strides."""
    for x in (_wide(size), sample((size,), np.float32, 3)):
        with np.errstate(over="ignore"):
            expected = x.astype(np.float16)
            out, strided = np.empty(size, np.float16), np.empty(2 * size, np.float16)[::2]
            for result in (rounded(x, out.dtype), rounded(x, out.dtype, out), rounded(x, out.dtype, strided)):
                np.testing.assert_array_equal(result, expected)
        assert rounded(x, x.dtype) is x
        assert rounded(x, out.dtype, out) is out


@pytest.mark.parametrize("dtype", [np.float16, BF16], ids=str)
@pytest.mark.parametrize("size", _SIZES)
def test_widening_is_exact(size: int, dtype: Any) -> None:
    """Every value is the same number as float32."""
    with np.errstate(over="ignore"):
        x = _wide(size).astype(dtype)
    np.testing.assert_array_equal(widened(np, x), x.astype(np.float32))


def _context(dtype: Any, constants: dict[int, Any]) -> LocalKernelContext:
    node = make_node_spec("MatMul", [np.zeros((2, 3), dtype), np.zeros((3, 2), dtype)])
    return LocalKernelContext(node, np, constants)


def test_constants_are_widened_once() -> None:
    """Where they are known and narrow; what is not is left to the call."""
    weights = sample((3, 2), np.float16)
    wide = wide_constant(_context(np.float16, {1: weights}), 1)
    assert wide is not None
    np.testing.assert_array_equal(wide, weights.astype(np.float32))
    assert wide_constant(_context(np.float16, {}), 1) is None
    assert wide_constant(_context(np.float16, {1: weights}), 2) is None
    assert wide_constant(_context(np.float32, {1: weights.astype(np.float32)}), 1) is None


@pytest.mark.parametrize("dtype", [np.float16, BF16], ids=str)
@pytest.mark.parametrize(
    ("op_type", "shapes", "domain", "attributes"),
    [
        ("MatMul", [(2, 4, 3), (3, 5)], "", {}),
        ("Gemm", [(4, 3), (5, 3), (5,)], "", {"transB": 1, "alpha": 0.5}),
        ("Conv", [(1, 3, 6, 6), (4, 3, 3, 3), (4,)], "", {}),
        ("FusedMatMul", [(4, 3), (5, 3)], "com.microsoft", {"transB": 1}),
    ],
)
def test_products_with_constants_give_the_same(
    op_type: str, shapes: list[tuple[int, ...]], domain: str, attributes: dict[str, Any], dtype: Any
) -> None:
    """Weights that are known, or fed: the same bits."""
    if domain and dtype == BF16:
        dtype = np.dtype(np.float16)  # the type that operator has
    inputs = [sample(shape, dtype, number) for number, shape in enumerate(shapes)]
    known, fed = (run(op_type, inputs, domain=domain, constants=constants, **attributes)[0] for constants in ((1,), ()))
    np.testing.assert_array_equal(known, fed)
