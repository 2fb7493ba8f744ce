"""Comparing 8-bit results with onnxruntime where one of its results depends on the processor.

float32 rounds each step of a formula, and onnxruntime's steps differ by processor (fused multiply-add or not) and by
which operand is a scalar. So a value close to the middle between two integers may become either; all others must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..oracle import run
from ..runtime_oracle import runtime_outputs
from ..standin import array_module, to_device, to_host

__all__ = ["DOMAIN", "agree_but_for_ties", "assert_quantized", "number", "on_device", "random_eight"]

DOMAIN = "com.microsoft"

_CLOSE = 1e-3
"""How close to the middle between two integers a value may become either."""


def number(value: float, dtype: Any = np.float32) -> Any:
    """A tensor of shape ``()``."""
    return np.array(value, dtype)


def random_eight(shape: Sequence[int], dtype: Any, seed: int = 0) -> Any:
    """Seeded values over the whole range of an 8-bit type."""
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def assert_quantized(actual: Any, exact: Any, dtype: Any) -> None:
    """Assert that `actual` is `exact` (float64), rounded half to even and saturated, but for ties."""
    info = np.iinfo(dtype)
    assert actual.dtype == dtype
    assert actual.shape == np.shape(exact)
    wanted = np.clip(np.rint(exact), info.min, info.max)
    tie = np.abs(np.abs(exact - np.floor(exact)) - 0.5) < _CLOSE
    np.testing.assert_array_equal(np.where(tie, wanted, actual), wanted)
    assert (np.abs(actual.astype(np.float64) - wanted) <= 1).all()


def agree_but_for_ties(
    op_type: str, inputs: Sequence[Any], exact: Any, *, constants: Sequence[int] = (), **attributes: Any
) -> None:
    """Assert that the kernel and onnxruntime are both `exact`, rounded and saturated, but for ties."""
    dtype = inputs[0].dtype
    (actual,) = run(op_type, inputs, domain=DOMAIN, opset=1, constants=constants, **attributes)
    assert_quantized(actual, exact, dtype)
    (theirs,) = runtime_outputs(op_type, inputs, opset=1, domain=DOMAIN, **attributes)
    assert_quantized(theirs, exact, dtype)


def on_device(op_type: str, inputs: Sequence[Any], outputs: int = 1, **attributes: Any) -> None:
    """Assert that the kernel gives on the stand-in array module what it gives on NumPy."""
    given = [None if x is None else to_device(x) for x in inputs]
    # Constants come as device arrays here, which asarray takes as well.
    actual = run(op_type, given, xp=array_module, domain=DOMAIN, opset=1, outputs=outputs, **attributes)
    expected = run(op_type, inputs, domain=DOMAIN, opset=1, outputs=outputs, **attributes)
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(to_host(left), right)
