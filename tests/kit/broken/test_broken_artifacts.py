"""Compiled regions that are kept wrongly are caught, each with a message that says what to change."""

from __future__ import annotations

import pytest

from ort_py.discovery import default_catalog
from ort_py_kit.suites.artifacts import damaged_forms
from tests.kit.broken.artifacts import PROVIDERS
from tests.kit.inner import run_inside

pytest_plugins = ("pytester",)

SUITE = """
from ort_py_kit import ProviderSuite
from tests.kit.broken.artifacts import VERSION

class TestBroken(ProviderSuite):
    provider = "{name}ExecutionProvider"
    plugin = "tests.kit.broken.artifacts"
    cases = False

    def stale_artifacts(self, artifact):
        yield artifact.replace(VERSION, b"acme-01 ")
"""

RESTORED, REFUSED = "test_artifacts_restore_to_equal_results", "test_what_does_not_fit_is_refused"

CAUGHT: dict[str, tuple[str, str, str]] = {
    "BelievesAnything": (REFUSED, "`validate` calls it VALID, and ", "a checksum of all of it"),
    "DiesOfDamage": (REFUSED, "the process ends with 11", "before the library sees a byte"),
    "IgnoresVersions": (REFUSED, "stale: `validate` calls it VALID, and `restore` takes it", "with which versions"),
    "DoubtsItself": (RESTORED, "calls it STALE in a process that differs in nothing", "`validate` says VALID of what"),
    "LeavesWeightsOut": (RESTORED, "what it restores computes other numbers: ", "all that a run needs: weights"),
    "LivesInATable": (RESTORED, "in another process, `restore` raises: KeyError", "never addresses or names"),
}
"""For each provider the check that finds it out, what it says, and a word of what to change."""


def judged(pytester: pytest.Pytester, name: str, check: str) -> pytest.RunResult:
    """The kit's verdict on a provider."""
    return run_inside(pytester, SUITE.format(name=name), "-k", check)


@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_it_is_caught(name: str, pytester: pytest.Pytester) -> None:
    """By the check named, which tells what it found and what to change."""
    check, found, fix = CAUGHT[name]
    printed = judged(pytester, name, check).stdout.str()
    assert f"TestBroken.{check} _" in printed, printed
    assert found in printed, printed
    assert [line for line in printed.splitlines() if line.startswith("What to change:") and fix in line], printed


def test_every_wrong_provider_has_its_check() -> None:
    """The table names all of them."""
    assert {f"{name}ExecutionProvider" for name in CAUGHT} == set(PROVIDERS) - {"KeepsArtifactsExecutionProvider"}


@pytest.mark.nightly  # every check, which sound providers pass in `tests/kit` too
def test_the_right_one_passes(pytester: pytest.Pytester) -> None:
    """The base class of the faulty ones is right in every respect."""
    outcomes = judged(pytester, "KeepsArtifacts", "").parseoutcomes()
    assert "failed" not in outcomes
    assert "errors" not in outcomes
    assert outcomes["passed"] > 25


def test_a_suite_leaves_no_provider_behind(pytester: pytest.Pytester) -> None:
    """The registration from its plug-in is removed with it."""
    assert judged(pytester, "KeepsArtifacts", "test_it_is_listed").parseoutcomes()["passed"] == 1
    assert default_catalog().record("KeepsArtifactsExecutionProvider") is None


def test_a_provider_that_keeps_nothing_is_skipped(pytester: pytest.Pytester) -> None:
    text = SUITE.format(name="BindsOnce").replace('"tests.kit.broken.artifacts"', '"tests.kit.broken.plugins"')
    result = run_inside(pytester, text, "-k", REFUSED, "-rs")
    assert result.parseoutcomes()["skipped"] == 1
    assert "keeps no artifacts" in result.stdout.str()


def test_damage_is_really_done() -> None:
    """Every form is another one than the artifact; short artifacts can be damaged too."""
    for artifact in (b"abcdefghijklmnop", b"a"):
        forms = dict(damaged_forms(artifact))
        assert len(forms) >= 4
        assert artifact not in forms.values()
