"""One seed of the search with random graphs: draw, judge, shrink what fails, and say so."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.fuzzing.cases import Case, draw_case
from tests.fuzzing.contradictions import contradict
from tests.fuzzing.files import as_code, write_case
from tests.fuzzing.pruning import pruned
from tests.fuzzing.shrink import shrink
from tests.fuzzing.verdict import VARIANTS, Finding, judge

__all__ = ["GraphSearch", "signature"]

CONTRADICTED = 0.15
"""Share of the graphs into which one contradiction is planted."""


@dataclass(slots=True)
class GraphSearch:
    """Judges the case of each seed.

    Attributes:
        say: Called with stages and findings.
        opset: Operator set version of all graphs; 0 for any.
        main: Element type of most data; empty for any.
        providers: Names that the sessions are given; None for the default.
        most_nodes: Bound on the number of nodes.
        quiet: Kinds of findings that are counted only, separated by commas; what is disputed is.
        shrink_seconds: For each finding of a new kind; 0 for none.
        folder: Where small cases are written; empty for nowhere.
    """

    say: Callable[..., None]
    opset: int = 0
    main: str = ""
    providers: Sequence[str] | None = None
    most_nodes: int = 40
    shrink_seconds: float = 15.0
    folder: str = ""
    quiet: str = ""
    kinds: Counter[str] = field(default_factory=Counter)

    def run(self, seed: int) -> dict[str, int]:
        """Judge one seed; returns how often each kind of finding occurred."""
        case = draw_case(seed, opset=self.opset, main=self.main, most_nodes=self.most_nodes)
        rng = random.Random(seed)
        contradicted = rng.random() < CONTRADICTED
        if contradicted:
            model, done = contradict(case.model, rng)
            case.model = pruned(model)
            read = {one.name for one in case.model.graph.input}
            case.feeds = [{name: array for name, array in feeds.items() if name in read} for feeds in case.feeds]
            case.about += f"; {done}"
        chosen = [VARIANTS[0], rng.choice(VARIANTS[1:])]
        if self.providers is not None:
            chosen = [replace(one, providers=tuple(self.providers)) for one in chosen]
        counts: Counter[str] = Counter()

        def placed(placement: dict[str, int]) -> None:
            counts["sessions with regions"] += any(name != "CPUExecutionProvider" for name in placement)

        findings = judge(case, chosen, lambda stage: self.say(stage=stage), placed)
        reported: set[tuple[str, str]] = set()
        for one in findings:
            if (one.kind, one.who) in reported or (contradicted and (one.kind, one.who) == ("refuses", "numpy")):
                continue  # others may be more lenient with what is wrong
            reported.add((one.kind, one.who))
            counts[f"{one.kind} ({one.who})"] += 1
            if one.who != "numpy" and any(kind == one.kind and who != one.who for kind, who in reported):
                continue  # the same at another level
            self._report(seed, case, one, chosen)
        return dict(counts)

    def _report(self, seed: int, case: Case, one: Finding, variants: Sequence[Any]) -> None:
        if one.kind in {*self.quiet.split(","), "disputed"}:
            return
        rough = f"{one.kind} {one.who} {_error_class(one)}"
        self.kinds[rough] += 1
        small = case
        if self.shrink_seconds and self.kinds[rough] <= 400:
            ways = [way for way in variants if way.name == one.who]

            def staged(stage: str) -> None:
                self.say(stage=f"shrinking {one.kind} of {one.who}: {stage}")

            def fails(candidate: Case) -> bool:
                found = judge(candidate, ways, staged)
                return any(other.kind == one.kind and other.who == one.who and _alike(other, one) for other in found)

            # A runtime that crashes over a smaller case must not hide what was found.
            self.say(stage=f"shrinking {one.kind} of {one.who}", pending=self._described(seed, case, one, variants))
            small = shrink(case, fails, self.shrink_seconds)
            again = [other for other in judge(small, ways, staged) if other.kind == one.kind and other.who == one.who]
            one = again[0] if again else one
        if self.folder:
            folder = Path(self.folder)
            folder.mkdir(parents=True, exist_ok=True)
            write_case(folder / f"{one.kind}-{seed}.json", small, str(one)[:300])
        self.say(**self._described(seed, small, one, variants))

    def _described(self, seed: int, case: Case, one: Finding, variants: Sequence[Any]) -> dict[str, Any]:
        level = next((way.level for way in variants if way.name == one.who), "ORT_ENABLE_ALL")
        return {
            "finding": str(one),
            "kind": one.kind,
            "who": one.who,
            "seed": seed,
            "signature": signature(one, case),
            "operators": case.operators(),
            "about": case.about,
            "code": as_code(case, level, self.providers),
        }


def _error_class(one: Finding) -> str:
    return one.text.split(":", 2)[1].strip() if one.kind in {"untyped", "refuses"} and one.text.count(":") > 1 else ""


def _alike(other: Finding, one: Finding) -> bool:
    return _error_class(other) == _error_class(one)


def signature(one: Finding, case: Case) -> str:
    """The common key of two findings that are probably the same."""
    operators = " ".join(sorted({node.op_type for node in case.model.graph.node if node.op_type != "Constant"}))
    return f"{one.kind} {one.who.split(',')[0]} {_error_class(one)[:40]} {operators[:80]}"
