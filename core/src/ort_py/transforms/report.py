"""The report of the optimisation: each pass with nodes, seconds, rewrites, and the near matches that it left alone.

Filled by `pipeline` and `sweep`, read by users: plain data, with a text and a dictionary. It does not depend on graphs.
Lists are bounded, since a model may have tens of thousands of near matches; the numbers beside them count all.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ort_py.lazy_dataclass import dataclass
from ort_py.printable import one_line

_KEPT_REWRITES = 1000
_KEPT_REFUSALS = 200
_KEPT_NOTES = 20
_SHOWN = 3
"""Near matches of one pass in the text; all that are kept are in `PassReport.refusals`."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One place that was changed.

    Attributes:
        before: Names of the nodes that went; where none did, of the node that was looked at.
        after: Names of the new nodes; empty where only reads moved.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]

    def __str__(self) -> str:
        return one_line(f"{', '.join(self.before)} -> {', '.join(self.after) or 'nothing'}")


@dataclass(frozen=True, slots=True)
class RewriteRefusal:
    """A node that looked like a match and was left alone.

    Attributes:
        node: Its name, behind those of the nodes around it.
    """

    node: str
    reason: str

    def __str__(self) -> str:
        return one_line(f"{self.node}: {self.reason}")


@dataclass(slots=True)
class PassReport:
    """Result of one transform over all rounds.

    Attributes:
        changes: Places it changed.
        removed, made: Nodes it took out and put in.
        nodes_before, nodes_after: Nodes of the model around it, as if the passes had run one after the other.
        rewrites: The first 1,000 changes.
        refused: Near matches that are left.
        refusals: The first 200 of them.
        notes: Further remarks, each line once.
    """

    name: str
    level: int = 1
    seconds: float = 0.0
    changes: int = 0
    removed: int = 0
    made: int = 0
    nodes_before: int = 0
    nodes_after: int = 0
    rewrites: list[Rewrite] = field(default_factory=list)
    refusals: list[RewriteRefusal] = field(default_factory=list)
    refused: int = 0
    notes: tuple[str, ...] = ()

    def add(self, before: tuple[str, ...], after: tuple[str, ...], removed: int, made: int) -> None:
        self.changes += 1
        self.removed += removed
        self.made += made
        if len(self.rewrites) < _KEPT_REWRITES:
            self.rewrites.append(Rewrite(before, after))

    def note(self, lines: tuple[str, ...]) -> None:
        """Keep what a transform says."""
        self.notes = tuple(dict.fromkeys([*self.notes, *lines]))[:_KEPT_NOTES]

    def keep_refusals(self, reasons: dict[str, str]) -> None:
        """Take the near matches that are left in the end, by node."""
        self.refused = len(reasons)
        self.refusals = [RewriteRefusal(node, reason) for node, reason in list(reasons.items())[:_KEPT_REFUSALS]]

    def to_dict(self) -> dict[str, Any]:
        """All of it in lists, dictionaries, strings and numbers."""
        return {
            "name": self.name,
            "level": self.level,
            "seconds": self.seconds,
            "changes": self.changes,
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "rewrites": [{"before": list(one.before), "after": list(one.after)} for one in self.rewrites],
            "refused": self.refused,
            "refusals": [{"node": one.node, "reason": one.reason} for one in self.refusals],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.changes} changes, {self.nodes_before} -> {self.nodes_after} nodes, "
            f"{self.seconds * 1e3:.1f} ms"
        ]
        lines += [f"  left: {refusal}" for refusal in self.refusals[:_SHOWN]]
        if self.refused > _SHOWN:
            lines.append(f"  left: {self.refused - _SHOWN} more")
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(map(one_line, lines))


@dataclass(slots=True)
class OptimisationReport:
    """Result of the optimisation of a model.

    Attributes:
        passes: Each transform of the session's level, in order.
        rounds: Rounds until nothing changed.
        settled: Whether the last round changed nothing; else the bound on rounds was met.
        exhausted: Nodes that were given up because rules went on rewriting them, with the rules' names.
        disabled: Transforms that were switched off.
        nodes_before, nodes_after: Nodes of the model, nested graphs included.
        seconds: Time of all passes, and of what connects them.
        notes: Further remarks, such as names of transforms that do not exist.
    """

    passes: list[PassReport] = field(default_factory=list)
    rounds: int = 0
    settled: bool = True
    exhausted: list[str] = field(default_factory=list)
    disabled: tuple[str, ...] = ()
    nodes_before: int = 0
    nodes_after: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> PassReport:
        """The report of the transform of this name.

        Raises:
            KeyError: No such transform ran.
        """
        for one in self.passes:
            if one.name == name:
                return one
        raise KeyError(name)

    @property
    def changes(self) -> int:
        return sum(one.changes for one in self.passes)

    def to_dict(self) -> dict[str, Any]:
        """All of it in lists, dictionaries, strings and numbers."""
        return {
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "seconds": self.seconds,
            "rounds": self.rounds,
            "settled": self.settled,
            "exhausted": list(self.exhausted),
            "disabled": list(self.disabled),
            "notes": list(self.notes),
            "passes": [one.to_dict() for one in self.passes],
        }

    def lines(self) -> list[str]:
        """The report for people, passes that found nothing left out."""
        lines = [
            f"{self.nodes_before} nodes became {self.nodes_after} in {self.rounds} rounds, {self.seconds * 1e3:.1f} ms"
        ]
        for one in self.passes:
            if one.changes or one.refusals or one.notes:
                lines += str(one).splitlines()
        if self.disabled:
            lines.append(f"switched off: {', '.join(self.disabled)}")
        lines += self.notes
        if not self.settled:
            lines.append(f"stopped after {self.rounds} rounds though the last one still changed something")
        lines += [f"given up: {line}" for line in self.exhausted]
        return list(map(one_line, lines))

    def __str__(self) -> str:
        return "\n".join(self.lines())
