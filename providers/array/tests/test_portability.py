"""Kernels run on any array module that has the names NumPy and CuPy share: the stand-in in `standin`.

Every backend case whose kernel is not listed as host-only here is run on stand-in arrays, host inputs excepted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .backend_cases import Case, cases, compare, definition_for, run_case
from .standin import StandInArray, array_module, to_device, to_host

HOST_ONLY: dict[str, str] = {}
"""Operators that make sense on the host alone, and why."""

_NO_MULTIPLY_AT = "CuPy's multiply has no `at`; a device provider needs a kernel of its own for this reduction"

HOST_ONLY_CASES: dict[str, str] = {
    "test_scatter_elements_with_reduction_mul": _NO_MULTIPLY_AT,
    "test_scatternd_multiply": _NO_MULTIPLY_AT,
}
"""Cases of other operators that only the host can run, and why."""


def _on_device(case: Case) -> bool:
    values = (*case.inputs, *case.expected)
    return all(value is None or (isinstance(value, np.ndarray) and value.dtype.kind != "O") for value in values)


@pytest.mark.parametrize("name", sorted(name for name, case in cases().items() if _on_device(case)))
def test_backend_case_on_the_stand_in(name: str, request: pytest.FixtureRequest) -> None:
    """The kernel gives what is expected with arrays that refuse NumPy and every implicit wait."""
    case = cases()[name]
    reason = HOST_ONLY.get(case.op_type) or HOST_ONLY_CASES.get(name)
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    host_outputs = definition_for(case).host_outputs
    actual: list[Any] = run_case(case, array_module, to_device)
    for index, (left, right) in enumerate(zip(actual, case.expected, strict=True)):
        assert isinstance(left, StandInArray) == (index not in host_outputs)
        compare(to_host(left), right, case)
