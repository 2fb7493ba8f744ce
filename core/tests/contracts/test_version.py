"""Contract versions: ranges that meet, and warnings about deprecated ones."""

from __future__ import annotations

import pytest

from ort_py.contracts import API_VERSION, CORE_API_RANGE, ApiRange, version


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (ApiRange(1, 1), ApiRange(1, 3), True),
        (ApiRange(3, 5), ApiRange(1, 3), True),
        (ApiRange(4, 5), ApiRange(1, 3), False),
        (ApiRange(1, 1), ApiRange(2, 3), False),
    ],
)
def test_ranges_meet_where_they_share_a_version(one: ApiRange, other: ApiRange, meet: bool) -> None:
    assert one.meets(other) is meet
    assert other.meets(one) is meet


def test_a_range_reads_as_words() -> None:
    assert str(ApiRange(2, 2)) == "2"
    assert str(ApiRange(1, 3)) == "1 to 3"


def test_the_core_drives_the_version_it_describes() -> None:
    """And those that are not deprecated are among those it drives."""
    assert CORE_API_RANGE.last == API_VERSION
    assert CORE_API_RANGE.first <= version.OLDEST_CURRENT <= API_VERSION


def test_a_current_version_needs_no_remark() -> None:
    assert version.deprecation(ApiRange(API_VERSION, API_VERSION)) == ""


def test_a_deprecated_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the versions that stay; a range that reaches into them is not deprecated."""
    monkeypatch.setattr(version, "OLDEST_CURRENT", 2)
    monkeypatch.setattr(version, "API_VERSION", 3)
    assert version.deprecation(ApiRange(1, 1)) == (
        "it is written for contract version 1, which is deprecated: a later core will drive 2 to 3 only"
    )
    assert version.deprecation(ApiRange(1, 2)) == ""
