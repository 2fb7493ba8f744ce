"""Results of a session's verification so far: plain records with a text. Does not depend on sessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A run whose results are wrong.

    Attributes:
        run: Number of the run in its session, counted from 1.
        outputs: Names of the outputs that differ beyond the tolerance.
        node: Name of the first node whose result differs; ``""`` where none was found.
        provider: The provider that ran the node.
        region: Names of all nodes that it was computed together with, where that was a compiled region.
        reason: The finding, in words.
    """

    run: int
    outputs: tuple[str, ...]
    node: str = ""
    value: str = ""
    provider: str = ""
    region: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        return f"run {self.run}, output(s) {', '.join(self.outputs)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """Counts of a session's runs by what became of them.

    Attributes:
        picked: Runs picked for verification. Each of them ends in one of the counts below, or is still waiting.
        agreed: All outputs agree within the table of tolerances.
        ties: Outputs differ because a node decided otherwise about values that agree: see `Outcome.TIE`.
        drifted: Outputs differ because errors within the tolerance add up; no single node is wrong.
        mismatched: Results that are wrong.
        failed: Runs that the NumPy provider could not repeat, or whose comparison failed.
        dropped: Runs that were not verified: too many were waiting, the run itself failed, or the session was closed.
        worst: Largest deviation of an output that agreed, as a multiple of what is tolerated: at most 1.
        mismatches: The last wrong results, the oldest first.
        not_compared: Names of outputs that depend on random operators.
        reason: Why runs are not verified any more; ``""`` while they are.
    """

    share: float = 0.0
    seen: int = 0
    picked: int = 0
    agreed: int = 0
    ties: int = 0
    drifted: int = 0
    mismatched: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0
    worst: float = 0.0
    mismatches: tuple[Mismatch, ...] = ()
    not_compared: tuple[str, ...] = ()
    reason: str = ""

    @property
    def verified(self) -> int:
        """Runs that were repeated and compared."""
        return self.agreed + self.ties + self.drifted + self.mismatched

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self), "verified": self.verified}

    def __str__(self) -> str:
        if not self.share:
            return "runs are not verified"
        counts = (
            f"{self.agreed} agreed, {self.ties} ties, {self.drifted} drifted, {self.mismatched} mismatched, "
            f"{self.failed} failed, {self.dropped} dropped, {self.waiting} waiting"
        )
        lines = [
            f"{self.picked} of {self.seen} runs picked (share {self.share:g}): {counts}",
            *map(str, self.mismatches),
        ]
        lines += [f"not compared, as they are random: {', '.join(self.not_compared)}"] if self.not_compared else []
        lines += [f"runs are not verified any more: {self.reason}"] if self.reason else []
        return "\n".join(lines)
