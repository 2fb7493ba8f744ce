"""Processors' worth of time that control groups allow this process: of its own groups and all above, the smallest.

Knows no thread counts: `thread_count` makes one of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ort_py.execution.control_groups import group_folders, text_of

__all__ = ["CpuQuota", "cpu_quota"]


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """A bound.

    Attributes:
        processors: Processors' worth of time, above 0; not always whole.
        group: Path of the group that sets it, as this process sees it.
    """

    processors: float
    group: str


def cpu_quota(root: Path = Path("/")) -> CpuQuota | None:
    """The tightest quota of this process, or None.

    Args:
        root: Where the file system begins; tests have one of their own.
    """
    found = [
        CpuQuota(processors, group.name)
        for group in group_folders("cpu", root)
        if (processors := _READERS[group.version](group.path)) is not None
    ]
    return min(found, key=lambda quota: quota.processors, default=None)


def _version_2(folder: Path) -> float | None:
    try:
        quota, period = text_of(folder / "cpu.max").split()[:2]
        return _ratio(int(quota), int(period))  # "max" is not a number
    except ValueError:
        return None


def _version_1(folder: Path) -> float | None:
    try:
        quota, period = (int(text_of(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    except ValueError:
        return None
    return _ratio(quota, period)


def _ratio(quota: int, period: int) -> float | None:
    return quota / period if quota > 0 and period > 0 else None


_READERS = {1: _version_1, 2: _version_2}
