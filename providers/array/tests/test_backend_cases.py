"""The kernels give what ONNX's own backend suite expects, without an engine.

Cases that are known to fail are in ``backend.xfail.txt`` (case id, a colon, the reason), strictly: a case that passes
must leave the list.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .backend_cases import cases, compare, run_case

pytestmark = pytest.mark.slow  # thousands of cases; the tests of each family are quick

_XFAIL = Path(__file__).with_name("backend.xfail.txt")


def _expected_failures() -> dict[str, str]:
    lines = [line for line in _XFAIL.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {name.strip(): reason.strip() for name, _, reason in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("known", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize("name", sorted(cases()))
def test_backend_case(name: str, known: bool, request: pytest.FixtureRequest) -> None:
    """The result is within the case's own tolerances, with all inputs fed and with all but the first constant."""
    reason = _expected_failures().get(name)
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    case = cases()[name]
    actual = run_case(case, constants=known)
    assert len(actual) == len(case.expected)
    for left, right in zip(actual, case.expected, strict=True):
        compare(left, right, case)


def test_expected_failures_are_cases_that_exist() -> None:
    """The list names no case that is not collected, and gives a reason for each."""
    failures = _expected_failures()
    assert set(failures) <= set(cases())
    assert all(failures.values())
