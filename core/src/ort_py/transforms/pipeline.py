"""Run graph transforms to a fixed point and report the effect of each.

Comes after `shapes`, before partitioning. Transforms of a level run in the order given, levels upwards, round after
round until a round changes nothing; local rules that follow each other run in one sweep. It is independent of
transforms by name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from functools import partial
from itertools import groupby
from time import perf_counter

from ort_py.contracts import GraphTransform, RewriteRule, Transform, TransformContext, TransformResult
from ort_py.errors import LimitError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.editing.retyping import retype_readers
from ort_py.graph.ir import Graph, Model, walk
from ort_py.hooks.guard import describe
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import DEBUG, lazy_logger
from ort_py.transforms.refused import refused_nodes
from ort_py.transforms.report import OptimisationReport, PassReport
from ort_py.transforms.sweep import RewriteBudget, RuleIndex, Sweep, failure

_LOG = lazy_logger(__name__)

_ROUNDS = 10
"""Rounds at most: two transforms that undo each other's work must not go on forever."""

_CHECKED_NODES = 500
"""Nodes of a model up to which checking looks at all of it after each rewrite; beyond that, after each sweep."""


def run_transforms(
    model: Model,
    transforms: Sequence[Transform],
    level: int,
    context: TransformContext,
    *,
    schemas: SchemaRegistry | None = None,
    disabled: Collection[str] = (),
    check: bool | None = None,
) -> OptimisationReport:
    """Change a model until no transform changes anything.

    Args:
        model: A typed model.
        level: The session's level: transforms above it do not run.
        schemas: Operators that new nodes may have.
        check: Check all invariants after each rewrite or transform; None: if debug messages are on.

    Raises:
        PluginError: A transform raised, or left the graph inconsistent; names it. The model must not be used.
        LimitError: A transform asked for more than the session's limits allow, or the time for loading is over.
        ModelLoadCanceled: The caller wants it to end.
    """
    check = _LOG.isEnabledFor(DEBUG) if check is None else check
    wanted = [one for one in transforms if one.level <= level and one.name not in disabled]
    wanted.sort(key=lambda one: one.level)
    run = _Run(EditState(model, schemas), context, wanted, check=check)
    start = perf_counter()
    report = run.report
    report.disabled = tuple([one.name for one in transforms if one.level <= level and one.name in disabled])
    report.nodes_before = _count(model)
    run.rounds()
    report.nodes_after = _count(model)
    report.seconds = perf_counter() - start
    nodes = report.nodes_before
    for one in report.passes:
        one.nodes_before, nodes = nodes, nodes + one.made - one.removed
        one.nodes_after = nodes
        _LOG.debug("%s", one)
    return report


@dataclass(slots=True, eq=False)
class _Stage:
    """A whole-graph transform, or local rules that share a sweep: then `rules` has them."""

    members: list[tuple[Transform, PassReport]]
    rules: RuleIndex | None = None
    idle_since: int | None = None
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)


class _Run:
    def __init__(
        self, state: EditState, context: TransformContext, transforms: Sequence[Transform], *, check: bool
    ) -> None:
        self._state = state
        self._context = context
        self._checks = check
        self._editor = Editor(state.model.graph, state)
        state.refused = refused_nodes(self._editor)
        self._budget = RewriteBudget(_count(state.model))
        self.report = OptimisationReport([PassReport(one.name, int(one.level)) for one in transforms])
        members = list(zip(transforms, self.report.passes, strict=True))
        self._stages: list[_Stage] = []
        for (local, _), group in groupby(members, lambda one: (isinstance(one[0], RewriteRule), one[0].level)):
            entries = list(group)
            if local:
                rules = [(one, report) for one, report in entries if isinstance(one, RewriteRule)]
                self._stages.append(_Stage(entries, RuleIndex(rules)))
            else:
                self._stages += [_Stage([entry]) for entry in entries]
        self._stages[:0] = [_Stage([one]) for one in members if isinstance(one[0], GraphTransform) and one[0].cleans]

    def rounds(self) -> None:
        report = self.report
        report.settled = False
        while report.rounds < _ROUNDS and not report.settled:
            report.rounds += 1
            report.settled = True
            for stage in self._stages:
                self._state.model.budget.check_time()
                retype_readers(self._state)
                if stage.idle_since == self._state.changes:
                    continue  # nothing has changed since it last had nothing to do
                changed = self._run(stage)
                report.settled = report.settled and not changed
                stage.idle_since = None if changed else self._state.changes
        for stage in self._stages:
            for _, one in stage.members:
                one.keep_refusals(stage.reasons.get(one.name, {}))
        report.exhausted = list(self._budget.exhausted.values())

    def _run(self, stage: _Stage) -> int:
        if stage.rules is not None:
            small = self._checks and self.report.nodes_before <= _CHECKED_NODES
            sweep = Sweep(
                stage.rules,
                self._state,
                self._context,
                self._budget,
                partial(_verify, self._state.model.graph) if small else None,
            )
            changes = sweep.run()
            stage.reasons = sweep.reasons
            if self._checks and not small:
                self._verify(" or ".join(rule.name for rule, _ in stage.members))
            return changes
        ((transform, report),) = stage.members
        if not isinstance(transform, GraphTransform):
            raise failure(transform.name, f"{type(transform).__name__} is neither a GraphTransform nor a RewriteRule")
        return self._run_one(transform, report)

    def _run_one(self, transform: GraphTransform, report: PassReport) -> int:
        self._state.take_journal()
        before = self._state.changes
        self._state.origin = transform.name
        start = perf_counter()
        try:
            result = transform.run(self._editor, self._context)
        except LimitError:
            raise
        except Exception as error:
            raise failure(transform.name, describe(error)) from error
        finally:
            self._state.origin = ""
        if not isinstance(result, TransformResult):
            raise failure(transform.name, f"run() returned {type(result).__name__} instead of a TransformResult")
        report.seconds += perf_counter() - start
        journal = self._state.take_journal()
        if journal.removed or journal.made:
            gone, come = ([node.name for node in nodes] for nodes in (journal.removed, journal.made))
            report.add(tuple(gone[:_NAMED]), tuple(come[:_NAMED]), len(gone), len(come))
            report.changes -= 1  # the transform counts itself
        report.changes += result.changes
        report.note(result.notes)
        if self._checks:
            self._verify(transform.name)
        return result.changes if self._state.changes != before else 0

    def _verify(self, name: str) -> None:
        try:
            _verify(self._state.model.graph)
        except Exception as error:
            raise failure(name, describe(error)) from error


def _verify(graph: Graph) -> None:
    from ort_py.graph.checking.verify import verify  # only debugging checks each change

    verify(graph)


_NAMED = 100
"""Nodes that the report names of one run of a whole-graph transform."""


def _count(model: Model) -> int:
    return sum(len(graph.nodes) for graph in walk(model.graph))
