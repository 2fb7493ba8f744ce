"""The kernels give what the ONNX reference gives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.contracts import kernel_defs
from ort_py.errors import KernelNotFoundError
from ort_py_hello import kernels
from ort_py_kit.kernel_runner import reference_outputs, run_kernel
from ort_py_kit.tolerances import assert_close

DEFINITIONS = kernel_defs(kernels)
TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int64]


def _sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_relu(dtype: Any) -> None:
    """Negative values become zero in every type."""
    x = _sample((3, 4), dtype)
    assert_close(run_kernel(DEFINITIONS, "Relu", [x]), reference_outputs("Relu", [x]))


def test_relu_keeps_nan() -> None:
    (y,) = run_kernel(DEFINITIONS, "Relu", [np.array([np.nan, -1], np.float32)])
    np.testing.assert_array_equal(y, np.array([np.nan, 0], np.float32))


@pytest.mark.parametrize("dtype", TYPES)
def test_add_broadcasts(dtype: Any) -> None:
    """Shapes are matched from the right."""
    a, b = _sample((2, 1, 4), dtype), _sample((3, 1), dtype, seed=1)
    assert_close(run_kernel(DEFINITIONS, "Add", [a, b]), reference_outputs("Add", [a, b]))


@pytest.mark.parametrize(("op_type", "opset"), [("Relu", 6), ("Relu", 13), ("Add", 7), ("Add", 13)])
def test_older_versions_are_covered(op_type: str, opset: int) -> None:
    """The declared range of schema versions is looked up as declared."""
    x = _sample((2, 2), np.float32)
    inputs = [x] * (1 if op_type == "Relu" else 2)
    assert_close(run_kernel(DEFINITIONS, op_type, inputs, opset=opset), reference_outputs(op_type, inputs, opset=opset))


def test_the_version_with_another_meaning_is_not_covered() -> None:
    """Add 6 broadcasts by attributes, so it is left to others."""
    x = _sample((2, 2), np.float32)
    with pytest.raises(KernelNotFoundError):
        run_kernel(DEFINITIONS, "Add", [x, x], opset=6)
