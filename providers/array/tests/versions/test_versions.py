"""Every version of the operators in the rows of this folder, at every element type that version allows.

What hypothesis finds is reported with the row's operator, version and type.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from ort_py_kit.kernel_runner import reference_outputs
from ort_py_kit.tolerances import assert_close

from ..oracle import run
from .row import Given, Row, for_each_call
from .rows import ROWS

pytestmark = pytest.mark.slow  # thousands of drawn cases; each family's own tests are quick


def _expected(row: Row, version: int, call: Given) -> Any:
    if call.expected is not None:
        return call.expected
    return reference_outputs(
        row.op_type, call.inputs, domain=row.domain, opset=version, outputs=call.outputs, **call.attributes
    )


def _compare(row: Row, version: int, dtype: Any, call: Given) -> None:
    actual = run(row.op_type, call.inputs, domain=row.domain, opset=version, outputs=call.outputs, **call.attributes)
    if call.check is not None:
        call.check(actual)
        return
    shapes = [getattr(value, "shape", value) for value in call.inputs]
    context = f"{row.op_type}-{version} {dtype} of {shapes} {call.attributes}"
    for index, (left, right) in enumerate(zip(actual, _expected(row, version, call), strict=True)):
        wanted = right if isinstance(right, list | dict) or right is None else np.asarray(right)
        assert_close(left, wanted, context=f"{context}, output {index}")


@pytest.mark.parametrize(
    ("row", "version"),
    [
        pytest.param(row, version, id=f"{row.domain or 'ai.onnx'}.{row.op_type}-{version}-{number}")
        for number, row in enumerate(ROWS)
        for version in row.versions
    ],
)
def test_version(row: Row, version: int) -> None:
    """The kernel gives what the specification says, for each element type that the version allows."""
    for dtype in row.dtypes(version):
        for_each_call(row, version, dtype, partial(_compare, row, version, dtype))
