"""The outputs that a region has to make: what is known of them must hold, what is not may be anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.contracts import RequiredOutputs
from ort_py.errors import EPFail

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int64)


def test_unknown_shapes_and_types_may_be_anything() -> None:
    """Values decide some shapes, and an output that is not a tensor has no element type."""
    RequiredOutputs((None, (2,)), (FLOAT, None)).check([(7, 1), (2,)], [FLOAT, INT])


@pytest.mark.parametrize(
    ("shapes", "dtypes", "text"),
    [
        ([(3,), (2,)], [FLOAT, FLOAT], r"\[2\] of float32 where the operators require \[2\] of int64"),
        ([(4,), (2,)], [FLOAT, INT], r"\[4\] of float32 where the operators require \[3\] of float32"),
        ([(3,), ()], [FLOAT, INT], r"\[\] of int64 where the operators require \[2\] of int64"),
    ],
)
def test_a_difference_is_a_failure_of_the_provider(shapes: Any, dtypes: Any, text: str) -> None:
    """The error names the output."""
    with pytest.raises(EPFail, match=text):
        RequiredOutputs(((3,), (2,)), (FLOAT, INT)).check(shapes, dtypes)
