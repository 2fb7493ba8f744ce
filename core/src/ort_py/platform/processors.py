"""The processors of this machine: their facts, the number of threads that this process may use on them, and priority.

The number of threads is the smallest of the scheduler's affinity, the quota of control groups, the environment and the
session's option, and comes with its reason. This is the one module that asks the operating system for processors; every
call is guarded, so that it answers everywhere. Control groups are read by `control_groups`.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import threading
from collections.abc import Mapping

from ort_py.lazy_dataclass import dataclass
from ort_py.platform.control_groups import cpu_quota

_VARIABLES = ("ORT_PY_NUM_THREADS", "OMP_NUM_THREADS")

_LOWEST = 19
"""The nice value of work that takes only what all others leave."""


@dataclass(frozen=True, slots=True)
class ThreadCount:
    """A number of threads and what limited it.

    Attributes:
        count: Threads, at least 1.
        reason: The bound that decided, in words.
        native: Number of threads that each native library with its own threads, above all BLAS, is set to during runs.
        executor: Manner in which a session's runs are executed, sequentially or in parallel, and why.
    """

    count: int
    reason: str
    native: tuple[str, ...] = ()
    executor: str = ""


_default = 0
"""Threads that the program set for sessions that ask for none themselves; 0 leaves it open."""


def set_default_threads(count: int) -> None:
    """Set how many threads sessions made from now on use where their options leave it open.

    Args:
        count: Threads; 0 or less takes the bound away.
    """
    global _default  # noqa: PLW0603 - a setting of the process, as the pool itself is
    _default = max(0, count)


def thread_count(
    option: int = 0, environment: Mapping[str, str] = os.environ, root: str | os.PathLike[str] = "/"
) -> ThreadCount:
    """The number of threads to use.

    Args:
        option: Threads that the session's options ask for; 0 or less leaves it open.
        root: Root of the file system that describes control groups.
    """
    bounds = [_processors()]
    quota = cpu_quota(root)
    if quota is not None:
        reason = f"cgroup CPU quota of {quota.processors:g} in {quota.group}"
        bounds.append(ThreadCount(max(1, math.ceil(quota.processors)), reason))
    for name in _VARIABLES:
        # OMP_NUM_THREADS may be a list, one entry a nesting level.
        text = environment.get(name, "").split(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            bounds.append(ThreadCount(int(text), f"{name}={text}"))
    if option > 0:
        bounds.append(ThreadCount(option, f"intra_op_num_threads={option}"))
    elif _default:
        bounds.append(ThreadCount(_default, f"set_global_thread_pool_sizes({_default})"))
    return min(bounds, key=lambda bound: bound.count)


def _processors() -> ThreadCount:
    affinity = getattr(os, "sched_getaffinity", None)  # POSIX only
    if affinity is not None:
        count = len(affinity(0))
        return ThreadCount(count, f"{count} processor(s) in the scheduler's affinity mask")
    count = os.cpu_count() or 1
    return ThreadCount(count, f"{count} processor(s)")


def processor_facts(root: str | os.PathLike[str] = "/") -> dict[str, str]:
    """Properties of the first processor that the system reports, e.g. ``vendor_id``, ``model name``, ``flags``; empty
    if nothing.

    Args:
        root: Root of the file system; tests have one of their own.
    """
    try:
        path = os.path.join(root, "proc/cpuinfo")
        with open(path, encoding="utf-8", errors="replace") as file:
            first = file.read(1 << 14).partition("\n\n")[0]  # all processors of a machine have the same features
    except OSError:  # another system
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


_PRODUCTS = (("amx_", 4e12), ("vnni", 8e11), ("avx", 4e11))
"""Multiply-adds of narrow numbers that a core does in a second at most, by a part of the name of an instruction set. A
tile of AMX does 1,024 of 8 bits in a cycle, two units of 512 bits 128; no core has more than 6 GHz."""

_HALF_PRODUCTS = (("amx_fp16", 4e12),)
"""The same for float16. Two units of 512 bits do 64 in a cycle, of which no core with them has more than 3 GHz then."""

_WIDE_PRODUCTS = 2e11
"""The same for numbers of 32 bits and more, on x86-64: 32 in a cycle."""

_ANY_PRODUCTS = 4e12
"""On processors that tell nothing: some have units for matrices behind their libraries."""


@functools.cache
def products_per_second(bits: int, *, halves: bool = False) -> float:
    """Multiply-adds that a core of this machine cannot exceed in a second.

    Args:
        bits: Width of the narrowest numbers that are multiplied.
        halves: Whether those are float16.
    """
    flags = processor_facts().get("flags", "")
    if not flags:
        return _ANY_PRODUCTS
    if bits >= 32:
        return _WIDE_PRODUCTS
    rates = _HALF_PRODUCTS if halves else _PRODUCTS
    return next((most for name, most in rates if name in flags), _WIDE_PRODUCTS)


def lower_priority() -> bool:
    """Give the calling thread the lowest priority, for good; returns whether that was possible."""
    # Linux schedules each thread by a nice value of its own; elsewhere that value belongs to the whole process.
    if not sys.platform.startswith("linux"):
        return False
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
    except OSError:  # a sandbox may forbid it
        return False
    return True
