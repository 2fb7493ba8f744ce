"""`python -m benchmarks.soak [NAME …] [--minutes N] [--duty SHARE] [--bound MIB]`: does memory grow while time passes?

Sessions are made, run with changing shapes, run in threads, with bound outputs and with inputs that make them fail, and
closed. Resident memory is taken every few seconds; the first part of the time does not count. The slope is the median
of the slopes of all pairs of samples (Theil and Sen), which a few high samples do not move. The exit status is 1 where
it is above the bound. Needs the development requirements and Linux, whose ``/proc`` tells.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.cpu_role import cpu_role
from benchmarks.soak_work import MADE, Soak
from tests.support.process_memory import private_bytes, resident_bytes

__all__ = ["Sample", "main", "slope"]

_MIB = 1 << 20
_DEFAULTS = (MADE, "ppocr-v4-rec", "minilm-int8", "silero-vad", "slanet-plus")
_WARM_UP = 0.2
"""Share of the time that does not count: caches of shapes fill, and the heap finds its size."""
_ROWS = 10
_BOUND = 0.25


@dataclass(frozen=True, slots=True)
class Sample:
    """The process at one time.

    Attributes:
        seconds: Since the beginning.
        resident: Bytes in memory.
        threads: Python threads.
        counts: What was done until then.
    """

    seconds: float
    resident: int
    threads: int = 0
    counts: Counter[str] = field(default_factory=Counter)


def slope(samples: Sequence[Sample]) -> float:
    """Growth of resident memory in MiB a minute: the median over all pairs of samples; 0 for fewer than two."""
    found = [
        (later.resident - earlier.resident) / (later.seconds - earlier.seconds)
        for place, earlier in enumerate(samples)
        for later in samples[place + 1 :]
        if later.seconds > earlier.seconds
    ]
    return statistics.median(found) * 60 / _MIB if found else 0.0


def soak(work: Callable[[], None], seconds: float, duty: float, every: float, counts: Counter[str]) -> list[Sample]:
    """Repeat `work`, and take samples between its calls.

    Args:
        work: A round.
        seconds: How long.
        duty: Share of the time that it works; it sleeps in between.
        every: Seconds between samples.
        counts: What the work counts.
    """
    samples: list[Sample] = []
    began = time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        if not samples or now - samples[-1].seconds >= every:
            samples.append(Sample(now, resident_bytes(), threading.active_count(), Counter(counts)))
        work()
        worked = time.monotonic() - began - now
        time.sleep(min(worked * (1 / duty - 1), max(0.0, seconds - now - worked)))
    samples.append(Sample(time.monotonic() - began, resident_bytes(), threading.active_count(), Counter(counts)))
    return samples


def _table(samples: Sequence[Sample]) -> str:
    kinds = sorted({kind for sample in samples for kind in sample.counts})
    lines = [f"{'minutes':>8} {'resident MiB':>13} {'least':>7} {'most':>7} {'threads':>8} " + _cells(kinds)]
    for part in range(_ROWS):
        chosen = samples[len(samples) * part // _ROWS : len(samples) * (part + 1) // _ROWS]
        if chosen:
            resident = [sample.resident / _MIB for sample in chosen]
            last, middle = chosen[-1], statistics.median(resident)
            lines.append(
                f"{last.seconds / 60:8.1f} {middle:13.1f} {min(resident):7.1f} {max(resident):7.1f} {last.threads:8} "
                + _cells([last.counts[kind] for kind in kinds])
            )
    return "\n".join(lines)


def _cells(values: Sequence[object]) -> str:
    return " ".join(f"{value!s:>9}" for value in values)


def main(arguments: list[str]) -> int:
    """Print the table and the slope; 1 where memory grows."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description="Memory of a process that works for long.")
    parser.add_argument("names", nargs="*", help=f"models of the catalogue, or {MADE} ({', '.join(_DEFAULTS)})")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--duty", type=float, default=1.0, help="share of the time that it works (1)")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples (5)")
    parser.add_argument("--bound", type=float, default=_BOUND, help=f"MiB a minute that are no growth ({_BOUND})")
    parser.add_argument("--seed", type=int, default=0, help="of shapes and of the order of models (0)")
    chosen = parser.parse_args(arguments)
    if not 0 < chosen.duty <= 1:
        parser.error("--duty is a share: above 0, and 1 at most")
    print(cpu_role(), flush=True)
    work = Soak(chosen.names or _DEFAULTS, chosen.seed)
    try:
        samples = soak(work.round, chosen.minutes * 60, chosen.duty, chosen.every, work.counts)
        private = private_bytes()
    finally:
        work.close()
    counted = [sample for sample in samples if sample.seconds >= _WARM_UP * chosen.minutes * 60]
    grown = slope(counted)
    print(_table(samples))
    print(f"private at the end {private / _MIB:.1f} MiB")
    verdict = "grows" if grown > chosen.bound else "is flat"
    print(
        f"memory {verdict}: {grown:+.3f} MiB a minute over the last {1 - _WARM_UP:.0%} of {chosen.minutes:g} minutes"
        f" ({len(counted)} samples; the bound is {chosen.bound:g})"
    )
    return int(grown > chosen.bound)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
