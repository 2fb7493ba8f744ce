"""Results of `ort_py.tune`: a row for each placement that was tried, the fastest, and whether it is remembered.

Plain values with a table and JSON. It does not depend on sessions or clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from ort_py.lazy_dataclass import dataclass
from ort_py.printable import one_line


@dataclass(frozen=True, slots=True)
class TunedCandidate:
    """One placement that was tried.

    Attributes:
        name: Description in words.
        providers: The providers that take part, in order.
        nodes: Nodes that each provider runs.
        milliseconds: Median of one run, of the quietest block; None where it was not measured.
        created: Seconds that making its session took.
        runs: Runs that were timed.
        remark: Why it was not measured, or not to the end.
    """

    name: str
    providers: tuple[str, ...]
    nodes: Mapping[str, int] = field(default_factory=dict)
    milliseconds: float | None = None
    fastest: float | None = None
    created: float = 0.0
    runs: int = 0
    remark: str = ""


@dataclass(frozen=True, slots=True)
class TuningReport:
    """Placements of one model on this machine.

    Attributes:
        candidates: All that were tried; the session's own order first.
        chosen: The fastest; the session's own order where no other is faster by a margin.
        remembered: Whether sessions will use it.
        remark: Why it is not remembered.
    """

    model: str
    candidates: tuple[TunedCandidate, ...]
    chosen: TunedCandidate
    remembered: bool = False
    remark: str = ""

    @property
    def gain(self) -> float:
        """Speed of the chosen placement relative to the session's own order; 1 if that was not measured."""
        first, best = self.candidates[0].milliseconds, self.chosen.milliseconds
        return first / best if first and best else 1.0

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return {
            "model": self.model,
            "chosen": self.chosen.name,
            "providers": list(self.chosen.providers),
            "gain": self.gain,
            "remembered": self.remembered,
            "remark": self.remark,
            "candidates": [{**asdict(one), "nodes": dict(one.nodes)} for one in self.candidates],
        }

    def __str__(self) -> str:
        rows = [("placement", "ms a run", "fastest", "made in", "nodes")]
        for one in self.candidates:
            nodes = ", ".join(f"{name}: {count}" for name, count in one.nodes.items())
            mark = "* " if one is self.chosen else "  "
            remarks = "; ".join(text for text in (nodes, one.remark) if text)
            name = one_line(mark + one.name)
            rows.append((name, _ms(one.milliseconds), _ms(one.fastest), f"{one.created:.2f} s", one_line(remarks)))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join([*map(str.ljust, row[:4], widths), row[4]]).rstrip() for row in rows]
        kept = (
            "remembered: sessions of this model use it"
            if self.remembered
            else f"not remembered: {one_line(self.remark)}"
        )
        return "\n".join([*lines, f"{self.chosen.name}: {self.gain:.2f} times as fast as the order given; {kept}"])


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
