"""Defects at single versions of an operator are found at those versions; versions without a case are reported
separately.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ort_py.discovery import default_catalog
from tests.kit.broken.versions import PROVIDERS
from tests.kit.inner import run_inside

pytest_plugins = ("pytester",)

pytestmark = pytest.mark.slow  # ONNX's cases are made, and the kit runs a dozen times

SUITE = """
from ort_py_kit import ProviderSuite

class TestBroken(ProviderSuite):
    provider = "{name}ExecutionProvider"
    plugin = "tests.kit.broken.versions"
    cases = ("node/test_{case}",)
"""

FOUND: dict[str, tuple[str, set[str], str]] = {
    "PadsTheWrongSide": (
        "maxpool",
        {"MaxPool-8", "MaxPool-10", "MaxPool-11", "MaxPool-12"},
        "test_maxpool_2d_same_low",
    ),
    "NormalisesOneAxis": ("softmax", {"Softmax-11"}, "test_softmax_axis_"),
    "ForgetsTheLowerBound": ("clip", {"Clip-6"}, "test_clip"),
    "MirrorsTheEdge": ("reflect_pad", {"Pad-2"}, "test_reflect_pad"),
    "ClaimsWhatNobodyHas": ("relu", {"Relu-1"}, "a kernel of ClaimsWhatNobodyHasExecutionProvider claims this version"),
}
"""For each provider the cases it is tried with, the versions that fail, and what is said of them."""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Providers are forgotten afterwards."""
    default_catalog().reset()
    yield
    default_catalog().reset()


def judged(pytester: pytest.Pytester, name: str, case: str, *arguments: str) -> pytest.RunResult:
    """The kit's verdict on the versions of a provider's operators."""
    return run_inside(pytester, SUITE.format(name=name, case=case), "-p", "ort_py_kit.plugin", "-rfs", *arguments)


@pytest.mark.parametrize("name", sorted(FOUND))
def test_it_is_found_at_its_versions(name: str, pytester: pytest.Pytester) -> None:
    """The versions with the defect fail, all others pass or are skipped."""
    case, versions, said = FOUND[name]
    printed = judged(pytester, name, case, "-k", "test_operator_version").stdout.str()
    assert set(re.findall(r"FAILED .*\[version/([\w.]+-\d+)\]", printed)) == versions, printed
    assert said in printed


def test_every_provider_has_its_defect() -> None:
    """The table and the test below name all of them."""
    below = {"HasItsOwn", "DeclinesEverything"}
    assert {f"{name}ExecutionProvider" for name in below.union(FOUND)} == set(PROVIDERS)


def test_the_newest_version_is_right(pytester: pytest.Pytester) -> None:
    """ONNX's own cases do not find the defect at older versions, which is why there is a test for each version."""
    result = judged(pytester, "PadsTheWrongSide", "maxpool", "-k", "test_backend_case")
    assert "failed" not in result.parseoutcomes()
    assert result.parseoutcomes()["passed"] > 10


def test_cases_that_ran_elsewhere_are_skipped(pytester: pytest.Pytester) -> None:
    """With the provider's refusal, and counted; they do not pass."""
    result = judged(
        pytester, "PadsTheWrongSide", "averagepool_2d_default", "-k", "test_backend_case or version/Average"
    )
    assert "passed" not in result.parseoutcomes()
    printed = result.stdout.str()
    assert "not run by PadsTheWrongSideExecutionProvider: AveragePool: no kernel for AveragePool" in printed
    assert "1 ONNX cases, runs nodes of 0 (0 operators); 1 not run" in printed


def test_runs_that_a_region_declined_are_not_run(pytester: pytest.Pytester) -> None:
    """Other providers answered them: neither the version nor ONNX's case passes."""
    result = judged(pytester, "DeclinesEverything", "relu", "-k", "version/Relu-14 or test_relu]")
    assert result.parseoutcomes()["skipped"] == 2
    assert "passed" not in result.parseoutcomes()
    assert "its region declined the run: not today" in result.stdout.str()


def test_unreached_versions_are_listed(pytester: pytest.Pytester) -> None:
    """The summary names them, beside the failure."""
    printed = judged(pytester, "ClaimsWhatNobodyHas", "relu", "-k", "test_operator_version").stdout.str()
    assert "claimed versions that no case reached: version/Relu-1" in printed


@pytest.mark.parametrize("line", ["version/Relu-1", "version/Relu-*"])
def test_an_unreached_version_can_be_expected(line: str, pytester: pytest.Pytester) -> None:
    """By name, or with all versions of its operator."""
    listed = pytester.makefile(".txt", wrong=f"{line}: nobody has such models")
    text = SUITE.format(name="ClaimsWhatNobodyHas", case="relu") + f"    expected_failures = {str(listed)!r}\n"
    result = run_inside(pytester, text, "-k", "version/Relu-1] or failures_are_cases")
    assert result.parseoutcomes()["xfailed"] == 1
    assert "failed" not in result.parseoutcomes()


@pytest.mark.parametrize(("line", "outcome"), [("", "failed"), ("version/com.acme.*: beside the kernel", "passed")])
def test_operators_of_other_domains_are_listed(line: str, outcome: str, pytester: pytest.Pytester) -> None:
    """Kernels of operators that ONNX does not define need a sample, or a line that says where they are tested."""
    listed = pytester.makefile(".txt", mine=line)
    text = SUITE.format(name="HasItsOwn", case="relu") + f"    expected_failures = {str(listed)!r}\n"
    result = run_inside(pytester, text, "-k", "other_operators or failures_are_cases")
    assert result.parseoutcomes()[outcome] >= 1
    if not line:
        assert "version/com.acme.Squeak-1" in result.stdout.str()


def test_versions_that_do_not_exist_are_mistakes(pytester: pytest.Pytester) -> None:
    """A line for a version that ONNX never had is refused."""
    listed = pytester.makefile(".txt", mine="version/Relu-7: why")
    text = SUITE.format(name="ClaimsWhatNobodyHas", case="relu") + f"    expected_failures = {str(listed)!r}\n"
    result = run_inside(pytester, text, "-k", "failures_are_cases")
    assert result.parseoutcomes()["failed"] == 1
    assert "version/Relu-7" in result.stdout.str()
