"""How many threads this process may use, and why: min(affinity, cgroup quota, environment, option).

The one module that asks the operating system for processors; every call is guarded, so that it answers everywhere.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ThreadCount", "thread_count"]

_VARIABLES = ("ORT_PY_NUM_THREADS", "OMP_NUM_THREADS")
_CGROUP_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ThreadCount:
    """A number of threads and what limited it.

    Attributes:
        count: Threads, at least 1.
        reason: The bound that decided, in words.
    """

    count: int
    reason: str


def thread_count(
    option: int = 0, environment: Mapping[str, str] = os.environ, cgroup_root: Path = _CGROUP_ROOT
) -> ThreadCount:
    """The number of threads to use.

    Args:
        option: What the session's options ask for; 0 or less leaves it open.
        environment: Environment variables.
        cgroup_root: Where the cgroup file system is mounted.
    """
    bounds = [_processors()]
    quota = _cgroup_quota(cgroup_root)
    if quota is not None:
        bounds.append(ThreadCount(max(1, math.ceil(quota)), f"cgroup CPU quota of {quota:g}"))
    for name in _VARIABLES:
        # OMP_NUM_THREADS may be a list, one entry a nesting level.
        text = environment.get(name, "").split(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            bounds.append(ThreadCount(int(text), f"{name}={text}"))
    if option > 0:
        bounds.append(ThreadCount(option, f"intra_op_num_threads={option}"))
    return min(bounds, key=lambda bound: bound.count)


def _processors() -> ThreadCount:
    affinity = getattr(os, "sched_getaffinity", None)  # POSIX only
    if affinity is not None:
        count = len(affinity(0))
        return ThreadCount(count, f"{count} processor(s) in the scheduler's affinity mask")
    count = os.cpu_count() or 1
    return ThreadCount(count, f"{count} processor(s)")


def _cgroup_quota(root: Path) -> float | None:
    """Processors' worth of time a cgroup allows: v2's ``cpu.max``, else v1's two files."""
    try:
        quota, period = (root / "cpu.max").read_text().split()[:2]
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        pass  # no cgroup v2: ask v1
    try:
        quota_us = int((root / "cpu" / "cpu.cfs_quota_us").read_text())
        period_us = int((root / "cpu" / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None
