"""Results of `bisect`: plain records with a text and a dictionary. Does not depend on sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, field
from typing import Any

from ort_py.inspection.comparison.report import ComparedOutput, ComparisonReport
from ort_py.lazy_dataclass import dataclass
from ort_py.printable import one_line
from ort_py.transforms.report import Rewrite

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Trial:
    """One session that was tried.

    Attributes:
        enabled: Transforms that ran, in words.
        agrees: Whether its outputs are as expected.
        outputs: Those that are not.
        failure: The error that it raised instead; ``""`` where it ran.
    """

    enabled: str
    agrees: bool
    outputs: tuple[ComparedOutput, ...] = ()
    failure: str = ""

    def __str__(self) -> str:
        return f"{self.enabled}: {'as expected' if self.agrees else 'fails' if self.failure else 'different'}"


@dataclass(slots=True)
class BisectionReport:
    """The graph transform that changed a model's results.

    Attributes:
        title: The model.
        configuration: Providers and level, in words.
        levels: The level whose results are expected, and the one whose transforms were searched.
        trials: Sessions that were tried.
        candidates: Number of transforms searched.
        culprit: Name of the transform with which results change; None if there is none.
        level: The level it belongs to.
        alone: Whether it changes results without any other of them; else it needs some that run before it.
        needed: Whether results are as expected once it alone is switched off; else another one changes them too.
        rewrites: Its rewrites at the first difference, as far as they can be determined.
        outputs: Outputs that differ with all transforms on.
        failure: Exception of the session with all transforms on, if it failed.
        comparison: The model without and with the transform; None where it fails.
        note: Reason why there is no culprit although results differ.
    """

    title: str
    configuration: str
    levels: tuple[str, str]
    trials: list[Trial]
    candidates: int = 0
    culprit: str | None = None
    level: int = 0
    alone: bool = False
    needed: bool = False
    rewrites: list[Rewrite] = field(default_factory=list)
    outputs: list[ComparedOutput] = field(default_factory=list)
    failure: str = ""
    comparison: ComparisonReport | None = None
    note: str = ""

    @property
    def equal(self) -> bool:
        """True if results are the same at both levels."""
        return self.culprit is None and not self.note

    def to_dict(self) -> dict[str, Any]:
        """All of it in lists, dictionaries, strings and numbers."""
        compared = None if self.comparison is None else self.comparison.to_dict()
        return {"equal": self.equal, **asdict(self), "comparison": compared}

    def __str__(self) -> str:
        return "\n".join(map(one_line, self._lines()))

    def _lines(self) -> Iterator[str]:
        yield f"{self.title}: {self.levels[1]} against {self.levels[0]}, {self.configuration}"
        if self.equal:
            yield "  the results are equal within the tolerance"
            return
        if self.failure:
            yield from f"  with all transforms it fails: {self.failure}".split("\n")
        for output in self.outputs[:_SHOWN]:
            yield f"  output {output.name}: {output.deviation}"
        if self.culprit is None:
            yield f"  {self.note}"
        else:
            yield f"  results change with the transform {self.culprit} (level {self.level})"
            yield "  no other transform is involved" if self.alone else "  only together with the transforms before it"
            if not self.needed:
                yield "  turning it off is not enough: another transform changes the results too"
            yield from (f"  rewrote {rewrite}" for rewrite in self.rewrites[:_SHOWN])
            yield f"  leave it out with SessionOptions.disabled_transforms = ['{self.culprit}']"
        if self.comparison is not None:
            yield from (f"  {line}" for line in str(self.comparison).splitlines())
        yield f"  tried {len(self.trials)} sessions: {'; '.join(map(str, self.trials))}"
