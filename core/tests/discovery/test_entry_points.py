"""Facts about a provider from metadata and environment alone."""

from __future__ import annotations

import pytest

from ort_py.discovery import RecordState
from ort_py.discovery.entry_points import PROVIDER_GROUP, installed_record, scan_providers
from ort_py.hooks.entry_points import InstalledEntryPoint


def _entry(name: str, distribution: str) -> InstalledEntryPoint:
    return InstalledEntryPoint(name, distribution, "1.0", f"{distribution}.plugin", PROVIDER_GROUP)


A, OTHER_A, B = _entry("A", "pkg-a"), _entry("A", "pkg-z"), _entry("B", "pkg-b")


def test_one_of_a_name_is_installed() -> None:
    """Nothing is known but that it is there."""
    record = installed_record(A, [A, B])
    assert (record.name, record.distribution, record.version, record.entry_point) == (
        "A",
        "pkg-a",
        "1.0",
        "pkg-a.plugin",
    )
    assert (record.state, record.reason, record.factory) == (RecordState.INSTALLED, "", None)


def test_two_of_a_name_conflict_and_both_are_named() -> None:
    """Neither wins; each record names the other and says how to go on."""
    for entry, rival in ((A, OTHER_A), (OTHER_A, A)):
        record = installed_record(entry, [A, B, OTHER_A])
        assert record.state is RecordState.CONFLICT
        assert record.reason == (
            f"the name is claimed by two distributions: {entry.distribution} 1.0 and {rival.distribution} 1.0"
        )
        assert f"Ask for '{entry.distribution}:A'" in record.fix


def test_a_name_of_ours_stays_ours() -> None:
    """Installing another package that claims a provider of ort-py does not disable it."""
    ours, theirs = _entry("CPUExecutionProvider", "ort_py.CPU"), _entry("CPUExecutionProvider", "aaa-imposter")
    entries = [ours, theirs]
    assert installed_record(ours, entries).state is RecordState.INSTALLED
    assert "aaa-imposter 1.0 claims the same name" in installed_record(ours, entries).reason
    yielded = installed_record(theirs, entries)
    assert yielded.state is RecordState.YIELDED
    assert yielded.fix == "Ask for 'aaa-imposter:CPUExecutionProvider'."


def test_blocking_ends_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocked provider takes part in nothing."""
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "pkg-z")
    assert installed_record(A, [A, OTHER_A]).state is RecordState.INSTALLED
    blocked = installed_record(OTHER_A, [A, OTHER_A])
    assert blocked.state is RecordState.BLOCKED
    assert blocked.reason == "blocked by the environment variable ORT_PY_BLOCK_PROVIDERS=pkg-z"


def test_scan_of_this_environment() -> None:
    """The group is the one plug-ins declare."""
    assert all(entry.group == "ort_py.providers" for entry in scan_providers().entries)
