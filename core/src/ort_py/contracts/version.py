"""The version of the contracts in this folder, and how a plug-in states what it was written for.

A plug-in declares the range it supports; the core supports a range too. They fit where the ranges meet, so neither
side has to be released with the other. The version grows by one when a required member changes meaning; new optional
members with a default do not change it. An old version is deprecated first, for two minor releases of the core and half
a year at least, and then leaves the core's range; see ``docs/plugin-author/versioning.md``.
"""

from __future__ import annotations

from ort_py.lazy_dataclass import dataclass

API_VERSION = 1
"""Version of the contracts described here. A plug-in written today declares ``ApiRange(1, 1)``."""


@dataclass(frozen=True, slots=True)
class ApiRange:
    """Contract versions from `first` to `last`, both included."""

    first: int
    last: int

    def meets(self, other: ApiRange) -> bool:
        """Return whether the two ranges have a version in common."""
        return self.first <= other.last and other.first <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


CORE_API_RANGE = ApiRange(1, API_VERSION)
"""Contract versions this core can drive."""

OLDEST_CURRENT = 1
"""Versions of `CORE_API_RANGE` before this one are deprecated: used as before, with a remark in the record."""


def deprecation(written_for: ApiRange) -> str:
    """Warning about a plug-in that is compatible through deprecated versions only; ``""`` if there is nothing to warn
    about.
    """
    if written_for.last >= OLDEST_CURRENT:
        return ""
    return (
        f"it is written for contract version {written_for}, which is deprecated: a later core will drive "
        f"{OLDEST_CURRENT} to {API_VERSION} only"
    )
