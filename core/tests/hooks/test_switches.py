"""The environment switches that keep plug-ins out."""

from __future__ import annotations

import pytest

from ort_py.hooks.switches import ALLOW, BLOCK, blocked_reason, normalise_distribution


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BLOCK, raising=False)
    monkeypatch.delenv(ALLOW, raising=False)


def test_nothing_is_blocked_by_default() -> None:
    """Without switches everything may be loaded."""
    assert blocked_reason("AExecutionProvider", "pkg-a") == ""


@pytest.mark.parametrize("value", ["AExecutionProvider", "pkg-a", "Pkg_A", "pkg-a:AExecutionProvider", "x, pkg-a ,"])
def test_block_by_name_distribution_or_both(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """A provider is blocked by its name, by its distribution in any spelling, or by both."""
    monkeypatch.setenv(BLOCK, value)
    assert f"{BLOCK}={value}" in blocked_reason("AExecutionProvider", "pkg-a")


@pytest.mark.parametrize("value", ["BExecutionProvider", "pkg-b", "pkg-b:AExecutionProvider", " , "])
def test_block_of_another_does_nothing(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(BLOCK, value)
    assert blocked_reason("AExecutionProvider", "pkg-a") == ""


def test_a_distribution_is_no_provider_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that happens to be called like a blocked distribution's import name is blocked only by its own."""
    monkeypatch.setenv(BLOCK, "pkg-a")
    assert blocked_reason("pkg_a", "other") == ""


def test_allow_list_keeps_out_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an allow list is set, a provider it does not name is blocked, and plug-ins that are none are not."""
    monkeypatch.setenv(ALLOW, "pkg-a")
    assert blocked_reason("AExecutionProvider", "pkg-a") == ""
    assert f"{ALLOW}=pkg-a" in blocked_reason("BExecutionProvider", "pkg-b")
    assert blocked_reason("rules", "pkg-b", provider=False) == ""


def test_empty_allow_list_allows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable is not a list."""
    monkeypatch.setenv(ALLOW, "  ")
    assert blocked_reason("AExecutionProvider", "pkg-a") == ""


def test_block_beats_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in named in both lists is blocked."""
    monkeypatch.setenv(ALLOW, "pkg-a")
    monkeypatch.setenv(BLOCK, "AExecutionProvider")
    assert BLOCK in blocked_reason("AExecutionProvider", "pkg-a")


def test_distribution_names_are_normalised() -> None:
    assert normalise_distribution("Ort_Py..CPU") == "ort-py-cpu"
