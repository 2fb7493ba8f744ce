"""Results of `compare` and `bisect`: plain records with a text and a dictionary. Independent of sessions and graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, field
from typing import Any

from ort_py.errors import operator_title
from ort_py.inspection.comparison.deviation import Deviation, ValueSummary
from ort_py.lazy_dataclass import dataclass
from ort_py.printable import one_line
from ort_py.transforms.report import Rewrite

_SHOWN = 5
"""Further differences, and nodes of one, in the text; the lists have more."""

_OUTPUTS = 10
"""Outputs in the text."""


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One of the two ways of running the model.

    Attributes:
        configuration: Providers and level, in words.
        nodes: Nodes by provider.
        fallbacks: Failures of providers, as a session reports them.
    """

    configuration: str
    nodes: dict[str, int]
    fallbacks: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in self.nodes.items())
        return one_line("; ".join([f"{self.configuration}, nodes by provider {counts or 'none'}", *self.fallbacks]))


@dataclass(frozen=True, slots=True)
class ComparedNode:
    """A node that had to do with a difference.

    Attributes:
        name, op_type, domain: As in the graph that ran.
        provider: The provider that ran it.
        region: The compiled region it is in, ``""`` where a kernel ran it.
        made_by: The transform or function that made it, ``""`` for a node of the model.
        sources: Names of the model's nodes that it stands for, where a transform made it.
    """

    name: str
    op_type: str
    domain: str
    provider: str
    region: str = ""
    made_by: str = ""
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{operator_title(self.op_type, self.domain)} '{self.name}' on {self.provider}"
        if self.region:
            text += f", in region {self.region}"
        if self.made_by:
            text += f", made by {self.made_by}"
        return one_line(f"{text} of {', '.join(map(repr, self.sources))}" if self.sources else text)


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that `b` computes otherwise than `a` from what `a` computed before.

    Attributes:
        run: Number of the feed.
        value: Its name.
        nodes: Nodes of `b` that computed it, from values that both have; the last one wrote it.
        reference_nodes: The same of `a`.
        deviation: Measure of the difference.
        inputs: Values that the step that wrote it read in `b`.
        inside: For nodes that hold graphs, what was found in their bodies.
    """

    run: int
    value: str
    nodes: tuple[ComparedNode, ...]
    reference_nodes: tuple[ComparedNode, ...]
    deviation: Deviation
    inputs: tuple[ValueSummary, ...] = ()
    inside: tuple[ComparisonReport, ...] = ()

    @property
    def node(self) -> ComparedNode:
        """The node of `b` that wrote the value."""
        return self.nodes[-1]

    @property
    def title(self) -> str:
        """The value and who wrote it."""
        return f"value '{self.value}' of {self.node}"

    def lines(self) -> Iterator[str]:
        yield self.title
        yield f"  {self.deviation}"
        if len(self.nodes) > 1:
            yield f"  computed together with {_listed(self.nodes[:-1])}"
        if self.reference_nodes:
            yield f"  in a computed by {_listed(self.reference_nodes)}"
        for one in self.inputs:
            yield f"  input {one}"
        for report in self.inside:
            yield from (f"  {line}" for line in str(report).splitlines())


@dataclass(frozen=True, slots=True)
class ComparedOutput:
    """An output of the model after each side ran by itself, errors adding up.

    Attributes:
        run: Number of the feed.
        name: Its name.
        deviation: Measure of the difference.
    """

    run: int
    name: str
    deviation: Deviation


@dataclass(slots=True)
class ComparisonReport:
    """The result of comparing two ways of running a model.

    Attributes:
        title: The model.
        a, b: The two sides.
        runs: Feeds that were run.
        steps: Steps of `b` that compute something.
        compared: Values that were compared, over all runs.
        unmatched: Steps of `b` that computed values which `a` does not have; what reads those was compared.
        random: Values that operators draw at random, which were not compared.
        differences: Values beyond the tolerance, in the order in which `b` computes them; the first 1,000.
        differing: Number of values beyond the tolerance.
        nan_origin: The first value that has NaN on one side only.
        nearest: Values within the tolerance that come nearest to it, the nearest first.
        outputs: The outputs of the model, each side having run by itself.
    """

    title: str
    a: ComparedSide
    b: ComparedSide
    runs: int = 0
    steps: int = 0
    compared: int = 0
    unmatched: int = 0
    random: int = 0
    differences: list[Difference] = field(default_factory=list)
    differing: int = 0
    nan_origin: Difference | None = None
    nearest: list[Difference] = field(default_factory=list)
    outputs: list[ComparedOutput] = field(default_factory=list)

    @property
    def first(self) -> Difference | None:
        """The first value that differs; None where all agree."""
        return self.differences[0] if self.differences else None

    @property
    def equal(self) -> bool:
        """True if all values and all outputs agree within the tolerance."""
        return not self.differences and all(one.deviation.agrees for one in self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """All of it in lists, dictionaries, strings and numbers."""
        return {"equal": self.equal, **asdict(self)}

    def __str__(self) -> str:
        return "\n".join(map(one_line, self.lines()))

    def lines(self) -> Iterator[str]:
        yield f"{self.title}: {self.runs} run(s), {'equal within the tolerance' if self.equal else 'different'}"
        yield f"  a: {self.a}"
        yield f"  b: {self.b}"
        yield (
            f"  step by step, where b reads the values that a computed: {self.compared} values compared, "
            f"{self.differing} differ; "
            f"{self.unmatched} of {self.steps} steps of b have no counterpart"
        )
        if self.random:
            yield f"  {self.random} values are drawn at random and were not compared"
        if self.first is not None:
            yield from _titled("first difference: ", self.first)
            for one in self.differences[1 : 1 + _SHOWN]:
                yield f"  also {one.title}: {one.deviation}"
            if self.differing > 1 + _SHOWN:
                yield f"  and {self.differing - 1 - _SHOWN} more"
        if self.nan_origin is not None:
            yield from _titled("NaN first: ", self.nan_origin, brief=self.nan_origin is self.first)
        elif self.first is None:
            for one in self.nearest[:1]:
                yield f"  closest to the tolerance, at {one.deviation.excess:.2g} of it: {one.title}: {one.deviation}"
        yield "  outputs, where each side runs on its own"
        shown = sorted(self.outputs, key=lambda one: one.deviation.agrees)[:_OUTPUTS]  # those that differ first
        for output in shown:
            run = f" of run {output.run}" if self.runs > 1 else ""
            yield f"    {output.name}{run}: {output.deviation}"
        if len(self.outputs) > len(shown):
            yield f"    and {len(self.outputs) - len(shown)} more"
        if self.first is None and not self.equal:
            yield "  no single step is beyond the tolerance: small errors add up, or a later step makes them large"


def _titled(title: str, difference: Difference, *, brief: bool = False) -> Iterator[str]:
    first, *others = difference.lines()
    yield f"  {title}{first}"
    yield from () if brief else (f"  {line}" for line in others)


def _listed(nodes: tuple[ComparedNode, ...]) -> str:
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return "; ".join(map(str, nodes[-_SHOWN:])) + more


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
