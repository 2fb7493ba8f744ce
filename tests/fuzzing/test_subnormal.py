"""Subnormal numbers of bfloat16 may be zeroes; nothing else is excused by that."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest

from tests.fuzzing.cases import Case
from tests.fuzzing.compare import difference, spread_of
from tests.fuzzing.runners import run_numpy


def _judged(kind: str, body: str, x: list[float], place: int, value: float) -> str:
    """The judgement of a result of which one element is another."""
    dtype: Any = {"bfloat16": ml_dtypes.bfloat16, "float": np.float32}[kind]
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({kind}[N] x) => ({kind}[N] y) {body}'
    case = Case(onnx.parser.parse_model(text), [{"x": np.array(x).astype(dtype)}])
    (exact,) = run_numpy(case).outcomes
    assert exact.outputs is not None
    result = exact.outputs[0]
    changed = result.copy()
    changed[place] = value
    return difference(changed, result, spread_of(case, case.feeds[0]), 0, result)


def test_the_logarithm_of_a_subnormal_number_is_open() -> None:
    """-infinity is the logarithm of 0, and of no normal number."""
    assert _judged("bfloat16", "{ y = Log(x) }", [1e-39, 1e-30], 0, -np.inf) == ""
    assert _judged("bfloat16", "{ y = Log(x) }", [1e-39, 1e-30], 1, -np.inf) != ""


def test_computed_subnormal_numbers_are_open() -> None:
    """The largest of products that are all subnormal may be the first, and the smallest may not."""
    body = "{ a = Mul(x, x) y = Hardmax(a) }"
    assert _judged("bfloat16", body, [1e-20, 3e-20, 2e-20], 0, 1.0) == ""
    assert _judged("bfloat16", body, [1e-9, 3e-9, 2e-9], 0, 1.0) != ""


@pytest.mark.parametrize("body", ["{ y = Log(x) }", "{ a = Relu(x) y = Log(a) }"])
def test_float32_keeps_its_subnormal_numbers(body: str) -> None:
    """The page on semantics promises it."""
    assert _judged("float", body, [1e-39, 1.0], 0, -np.inf) != ""
