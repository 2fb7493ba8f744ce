"""Element types named by attributes: found, or refused with those that are allowed."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.contracts.kernel import ALL_FLOATS
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.element_types import attribute_type
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .oracle import BF16

CONTEXT = LocalKernelContext(make_node_spec("RandomNormal", []))


def test_allowed_types() -> None:
    """A number of an allowed type is its NumPy form."""
    assert attribute_type(CONTEXT, "dtype", 1, ALL_FLOATS) == np.float32
    assert attribute_type(CONTEXT, "dtype", DataType.BFLOAT16, ALL_FLOATS) == BF16


@pytest.mark.parametrize(("number", "text"), [(6, r"int32 \(6\)"), (0, r"undefined \(0\)"), (-5, r"undefined \(-5\)")])
def test_other_numbers(number: int, text: str) -> None:
    """Types that the operator cannot make, and numbers of no type, are refused; the message lists the allowed."""
    with pytest.raises(InvalidArgument, match=f"RandomNormal cannot make elements of type {text}") as caught:
        attribute_type(CONTEXT, "dtype", number, ALL_FLOATS)
    assert "'dtype'" in caught.value.fix
    assert "tensor(bfloat16)" in caught.value.fix
