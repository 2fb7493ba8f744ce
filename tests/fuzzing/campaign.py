"""A long search: seeds in child processes, what they find made small, each kind of finding written once.

A child that dies or hangs is started again behind the seed that it was at; that seed is a finding.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Campaign", "Report"]

ROOT = Path(__file__).resolve().parents[2]
SECONDS_A_SEED = 180.0
"""Shrinking included; a child that is silent for longer hangs."""


@dataclass(slots=True)
class Report:
    """The result of a campaign.

    Attributes:
        done: Seeds that were run.
        found: Findings as the children reported them.
        counts: How often each kind occurred.
    """

    done: int = 0
    found: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    regions: int = 0


@dataclass(slots=True)
class Campaign:
    """A search over seeds.

    Attributes:
        work: What a child does with a seed: ``"graphs"``, ``"mutants"`` or ``"attacks"``.
        first: The first seed.
        count: How many seeds.
        seconds: How long to search; 0 for as long as it takes.
        workers: Child processes.
        settings: Passed to the children.
    """

    work: str
    first: int = 0
    count: int = 100
    seconds: float = 0.0
    workers: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self, tell: Any = None) -> Report:
        """Search; `tell` is called with each finding."""
        report = Report()
        end = time.monotonic() + self.seconds if self.seconds else float("inf")
        seeds = iter(range(self.first, self.first + self.count))
        children = [_Child(self, seeds) for _ in range(self.workers)]
        while any(child.alive for child in children):
            if time.monotonic() > end:
                break
            ready = select.select([child.output for child in children if child.alive], [], [], 1.0)[0]
            for child in children:
                if not child.alive:
                    continue
                if child.output in ready:
                    child.listen(report, tell)
                elif time.monotonic() - child.heard > SECONDS_A_SEED:
                    child.died(report, tell, hung=True)
        for child in children:
            child.stop()
        return report


class _Child:
    """One child process, which is given a seed at a time."""

    def __init__(self, campaign: Campaign, seeds: Any) -> None:
        self.campaign = campaign
        self.seeds = seeds
        self.alive = True
        self.seed: int | None = None
        self.stage = ""
        self.pending: dict[str, Any] | None = None
        self.start()

    def start(self) -> None:
        """Start the process, and give it a seed."""
        command = [sys.executable, "-m", "tests.fuzzing.worker", self.campaign.work, json.dumps(self.campaign.settings)]
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "ORT_PY_CACHE": "off",
            "PYTHONFAULTHANDLER": "1",
            "ORT_PY_PROBE_TIMEOUT": "60",
        }
        self.said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            bufsize=1,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.rest = b""
        self.heard = time.monotonic()
        self.give()

    def give(self) -> None:
        """Hand the next seed over."""
        self.seed = next(self.seeds, None)
        if self.seed is None:
            self.stop()
            return
        assert self.process.stdin is not None
        self.heard = time.monotonic()
        self.process.stdin.write(f"{self.seed}\n")
        self.process.stdin.flush()

    def listen(self, report: Report, tell: Any) -> None:
        """Read the lines that have come."""
        got = os.read(self.output.fileno(), 1 << 16)
        if not got:
            self.died(report, tell)
            return
        self.heard = time.monotonic()
        *lines, self.rest = (self.rest + got).split(b"\n")
        for line in lines:
            self._take(json.loads(line), report, tell)

    def _take(self, data: dict[str, Any], report: Report, tell: Any) -> None:
        if "stage" in data:
            self.stage, self.pending = data["stage"], data.get("pending", self.pending)
        elif "finding" in data:
            self.pending = None
            self._found(report, tell, data)
        elif "done" in data:
            report.done += 1
            report.counts.update(data.get("counts", {}))
            self.give()

    def _found(self, report: Report, tell: Any, data: dict[str, Any]) -> None:
        report.found.append(data)
        if tell is not None:
            tell(data)

    def died(self, report: Report, tell: Any, *, hung: bool = False) -> None:
        """The process ended or is silent: a finding, and another process."""
        if hung:
            self.process.send_signal(signal.SIGABRT)  # faulthandler says where it is
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.said.seek(0)
        said = self.said.read()
        self._close()
        if self.pending is not None:  # what it was making small
            self._found(report, tell, self.pending)
            report.counts[f"{self.pending['kind']} ({self.pending['who']})"] += 1
            self.pending = None
        # A child that ends itself has had trouble of its own; a signal is somebody's defect.
        kind = "peer" if "onnxruntime" in self.stage else "hang" if hung else "own" if code == 1 else "signal"
        text = f"stage '{self.stage}', exit {code}: {said[-1500:]}"
        report.done += 1
        report.counts[kind] += 1
        self._found(
            report,
            tell,
            {
                "finding": text,
                "kind": kind,
                "who": self.stage,
                "seed": self.seed,
                "signature": f"{kind} {self.stage} {said[-120:]}",
            },
        )
        self.start()

    def stop(self) -> None:
        """End the process."""
        if self.alive:
            self.alive = False
            self.process.kill()
            self.process.wait()
            self._close()

    def _close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.said):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was not read by who is dead
                    stream.close()


def quiet() -> None:
    """No log lines in the children."""
    logging.disable(logging.CRITICAL)


def signature_order(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One finding of each signature, those met most often first."""
    counts = Counter(one["signature"] for one in found)
    first: dict[str, dict[str, Any]] = {}
    for one in found:
        first.setdefault(one["signature"], one)
    return sorted(first.values(), key=lambda one: -counts[one["signature"]])
