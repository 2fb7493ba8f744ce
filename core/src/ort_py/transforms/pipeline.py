"""Runs graph transforms to a fixed point and reports what each did.

Comes after `shapes`, before partitioning. Transforms of a level run in the order given, levels upwards, round after
round until a round changes nothing. Knows no transform by name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import perf_counter

from ort_py.contracts import GraphTransform, RewriteRule, TransformContext, TransformResult
from ort_py.errors import LimitError, Location, PluginError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.verify import verify
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.ir import Model, walk

__all__ = ["TransformReport", "TransformRun", "run_transforms"]

_LOG = logging.getLogger(__name__)

_ROUNDS = 10
"""Rounds at most: two transforms that undo each other's work must not go on for ever."""

_NOTES = 20
"""Notes kept of one transform; a model of thousands of near matches needs no page on each."""


@dataclass(slots=True)
class TransformRun:
    """What one transform did in all rounds.

    Attributes:
        name: Its name.
        seconds: Time it took.
        changes: Places it changed.
        notes: What it had to say, each line once.
    """

    name: str
    seconds: float = 0.0
    changes: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.changes} changes in {self.seconds * 1e3:.1f} ms"


@dataclass(frozen=True, slots=True)
class TransformReport:
    """What optimising did.

    Attributes:
        runs: Each transform that ran, in order.
        rounds: Rounds until nothing changed.
        settled: Whether the last round changed nothing; else the bound on rounds was met.
        nodes_before, nodes_after: Nodes of the model, nested graphs included.
    """

    runs: tuple[TransformRun, ...]
    rounds: int
    settled: bool
    nodes_before: int
    nodes_after: int

    @property
    def changes(self) -> int:
        """Places changed by all transforms."""
        return sum(run.changes for run in self.runs)

    def __str__(self) -> str:
        lines = [f"{self.nodes_before} nodes became {self.nodes_after} in {self.rounds} rounds"]
        lines += [str(run) for run in self.runs if run.changes]
        if not self.settled:
            lines.append(f"stopped after {self.rounds} rounds though the last one still changed something")
        return "\n".join(lines)


def run_transforms(
    model: Model,
    transforms: Sequence[GraphTransform],
    level: int,
    context: TransformContext,
    *,
    schemas: SchemaRegistry | None = None,
    disabled: Collection[str] = (),
    check: bool | None = None,
) -> TransformReport:
    """Change a model until no transform finds anything more.

    Args:
        model: A typed model.
        transforms: Transforms of any level.
        level: The session's level: transforms above it do not run.
        context: What transforms may use.
        schemas: Operators that new nodes may have.
        disabled: Names of transforms that shall not run.
        check: Check all invariants after each transform; None: where debug messages are on.

    Raises:
        PluginError: A transform raised, or left the graph inconsistent; names it. The model must not be used.
        LimitError: A transform asked for more than the session's limits allow.
    """
    state = EditState(model, schemas)
    editor = Editor(model.graph, state)
    wanted = [one for one in transforms if one.level <= level and one.name not in disabled]
    wanted.sort(key=lambda one: one.level)
    check = _LOG.isEnabledFor(logging.DEBUG) if check is None else check
    runs = [TransformRun(one.name) for one in wanted]
    idle_since: list[int | None] = [None] * len(wanted)
    present = _PresentOperators(state)
    before = _count(model)
    settled = False
    rounds = 0
    while rounds < _ROUNDS and not settled:
        rounds += 1
        settled = True
        for position, transform in enumerate(wanted):
            if idle_since[position] == state.changes:
                continue  # nothing has changed since it last had nothing to do
            if isinstance(transform, RewriteRule) and transform.op_types.isdisjoint(present.operators()):
                continue
            result = _run_one(transform, editor, context, runs[position], check=check)
            settled = settled and not result.changes
            idle_since[position] = None if result.changes else state.changes
    for run in runs:
        _LOG.debug("%s", run)
    return TransformReport(tuple(runs), rounds, settled, before, _count(model))


class _PresentOperators:
    """Operators the model has, read anew only after changes: most rules need not look at a single node."""

    def __init__(self, state: EditState) -> None:
        self._state = state
        self._read_at = -1
        self._found: set[str] = set()

    def operators(self) -> set[str]:
        if self._read_at != self._state.changes:
            graphs = walk(self._state.model.graph)
            self._found = {node.op_type for graph in graphs for node in graph.nodes}
            self._read_at = self._state.changes
        return self._found


def _run_one(
    transform: GraphTransform, editor: Editor, context: TransformContext, run: TransformRun, *, check: bool
) -> TransformResult:
    editor.state.origin = transform.name
    start = perf_counter()
    try:
        result = transform.run(editor, context)
        if not isinstance(result, TransformResult):
            raise TypeError(f"run() returned {type(result).__name__} instead of a TransformResult")
        if check:
            verify(editor.graph)
    except LimitError:
        raise
    except Exception as error:
        raise PluginError(
            f"The graph transform '{transform.name}' failed.",
            where=Location(file=editor.state.model.source),
            why=f"{type(error).__name__}: {error}",
            fix=f"Switch it off (SessionOptions.disabled_transforms = ['{transform.name}']) and report it.",
        ) from error
    finally:
        editor.state.origin = ""
    run.seconds += perf_counter() - start
    run.changes += result.changes
    run.notes = tuple(dict.fromkeys([*run.notes, *result.notes]))[:_NOTES]
    return result


def _count(model: Model) -> int:
    return sum(len(graph.nodes) for graph in walk(model.graph))
