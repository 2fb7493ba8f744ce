"""Softmax along every axis: the results of NumPy's kernels, and no reference code of oneDNN."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.execution.plan import Plan
from providers.onednn.tests.models import model, node, run_here, run_plain


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("sizes", [(2, 21, 8, 8), (2, 5, 7, 3)])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_rows_are_contiguous_in_fast_code(plans: list[Plan], op_type: str, sizes: tuple[int, ...], axis: int) -> None:
    """Rows along an earlier axis are turned where oneDNN has only reference code for their stride."""
    feeds = {"x": np.random.default_rng(1).standard_normal(sizes, np.float32)}
    data = model([node(op_type, "x", "y", axis=axis)], feeds, {})
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])
    made = [step.primitive for plan in plans for step in plan.steps if step.primitive is not None]
    assert made
    assert not any(primitive.is_reference for primitive in made)
