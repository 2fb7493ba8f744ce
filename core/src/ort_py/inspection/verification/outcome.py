"""The outcome of one verified run: plain records. Does not depend on sessions."""

from __future__ import annotations

from enum import StrEnum

from ort_py.inspection.comparison.deviation import Deviation
from ort_py.lazy_dataclass import dataclass


class Outcome(StrEnum):
    """The outcomes of a verification.

    AGREED: All outputs agree within the table of tolerances. TIE: They differ, and the first difference is made by a
    node that decides – rounds, compares, sorts, takes an index – where values that agree within the table lead to both
    results. DRIFT: They differ, each node computes what it should from what it is given, and the run gives the same
    once more: errors within the tolerance add up. MISMATCH: A node computes something wrong, or a run gave what it does
    not give once more. FAILED: The run could not be repeated.
    """

    AGREED = "agreed"
    TIE = "tie"
    DRIFT = "drift"
    MISMATCH = "mismatch"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DifferingOutput:
    """An output beyond the tolerance.

    Attributes:
        deviation: Difference from the NumPy provider's result.
    """

    name: str
    deviation: Deviation

    def __str__(self) -> str:
        return f"output '{self.name}': {self.deviation}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The cause of differing outputs.

    Attributes:
        outcome: Tie, drift or mismatch.
        node, value, provider: The first node whose result differs, that result, and who ran the node; ``""`` where
            there is none.
        region: Names of all nodes that it was computed together with, where that was a compiled region.
    """

    outcome: Outcome
    reason: str
    node: str = ""
    value: str = ""
    provider: str = ""
    region: tuple[str, ...] = ()


class Stopped(Exception):
    """The session is being closed."""
