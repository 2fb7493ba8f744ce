"""Local rules driven by a work-list: each node is shown to the rules of its operator, and again when it may matter.

Used by `pipeline`, which runs a sweep over the rules of one level. Nodes go in topological order, outer graphs first;
after a rewrite the new nodes, those that read something else, and the neighbours of values that got or lost a reader go
back on the list. So a sweep costs what it looks at, and a chain of rewrites in one place is done in one sweep. What a
change enables further away is found by the next sweep, which `pipeline` makes as long as one changes something.

Rules may undo each other's work, or feed each other forever: a node remembers how many rewrites led to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from time import perf_counter

from ort_py.contracts import RewriteRule, TransformContext
from ort_py.errors import LimitError, PluginError
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState, Journal
from ort_py.graph.editing.positions import Rank
from ort_py.graph.ir import Graph, Node, walk
from ort_py.hooks.guard import describe
from ort_py.transforms.report import PassReport

_MOST_REWRITES = 64
"""Rewrites that may lead to one node: fusions of long chains need tens, rules that undo each other go on forever."""

_REWRITES_A_NODE = 20
"""Rewrites of a whole model, as a multiple of its nodes: what rules that make more nodes than they take may do."""

_NEAR = 8
"""Readers of a value that are looked at again when it lost one: rules ask whether a value has one reader, not many."""


class RewriteBudget:
    """The number of rewrites that rules may make, in all sweeps over one model."""

    def __init__(self, nodes: int) -> None:
        self._left = _REWRITES_A_NODE * nodes + 1000
        self._led_to: dict[Node, tuple[int, tuple[str, ...]]] = {}
        self.exhausted: dict[str, str] = {}

    def allows(self, node: Node) -> bool:
        count, rules = self._led_to.get(node, (0, ()))
        if count < _MOST_REWRITES and self._left > 0:
            return True
        if self._left <= 0:
            self.exhausted.setdefault("", "the model was rewritten too often; the rules that went on are the last ones")
        else:
            self.exhausted.setdefault(node.name, f"{node.name} after {count} rewrites by {', '.join(rules)}")
        return False

    def spend(self, rule: str, node: Node, journal: Journal) -> None:
        self._left -= 1
        count, rules = 0, ()  # type: tuple[int, tuple[str, ...]]
        for one in (node, *journal.removed):
            count, rules = max((count, rules), self._led_to.pop(one, (0, ())))
        led = (count + 1, rules if rule in rules else (*rules, rule))
        self._led_to[node] = led
        for one in journal.made:
            self._led_to[one] = led


class RuleIndex:
    """Rules by the operators they look at; one for all sweeps over them.

    Rules say which operators they need besides, so most rules are never shown a node of a model that lacks one.

    Args:
        rules: The rules, in the order in which a node is shown to them, with their reports.
    """

    def __init__(self, rules: Sequence[tuple[RewriteRule, PassReport]]) -> None:
        self.rules = rules
        self._looking = [(rule.op_types, (rule, report)) for rule, report in rules]
        self._candidates: dict[str, list[tuple[RewriteRule, PassReport]]] = {}
        self._present: set[str] = set()
        self._of_type: dict[str, list[tuple[RewriteRule, PassReport]]] = {}

    def begin(self, present: set[str]) -> None:
        """Set the operators of a model. Cached facts about another set are forgotten."""
        if present != self._present:
            self._present = present
            self._of_type.clear()

    def came(self, op_type: str) -> None:
        """A node of an operator was made. What is shown from now on goes by it; the next sweep shows the rest."""
        if op_type not in self._present:
            self._present.add(op_type)
            self._of_type.clear()

    def of(self, op_type: str) -> list[tuple[RewriteRule, PassReport]]:
        found = self._of_type.get(op_type)
        if found is None:
            candidates = self._candidates.get(op_type)
            if candidates is None:
                candidates = [entry for wanted, entry in self._looking if wanted is None or op_type in wanted]
                self._candidates[op_type] = candidates
            found = [entry for entry in candidates if entry[0].concerns(op_type, self._present)]
            self._of_type[op_type] = found
        return found


class Sweep:
    """Shows all nodes to some rules until nothing near a change is left to look at.

    Args:
        budget: Bounds the number of rewrites.
        check: Called after each rewrite.
    """

    def __init__(
        self,
        rules: RuleIndex,
        state: EditState,
        context: TransformContext,
        budget: RewriteBudget,
        check: Callable[[], None] | None,
    ) -> None:
        self._rules = rules
        self._state = state
        self._context = context
        self._budget = budget
        self._check = check
        self._graphs: dict[Graph, int] = {}
        self._queue: list[tuple[int, Rank, int, Node]] = []
        self._queued: set[Node] = set()
        self._pushed = 0
        self.reasons: dict[str, dict[str, str]] = {report.name: {} for _, report in rules.rules}

    def run(self) -> int:
        """Visit everything once, and what changes again; returns the number of rewrites.

        Raises:
            LimitError, ModelLoadCanceled: The time for loading is over, or the caller wants it to end.
            PluginError: A rule broke.
        """
        self._state.take_journal()
        graphs = list(walk(self._state.model.graph))
        self._rules.begin({node.op_type for graph in graphs for node in graph.nodes})
        for order, graph in enumerate(graphs):
            self._graphs[graph] = order
            rank = self._editor(graph).list.rank
            wanted = [node for node in graph.nodes if self._rules.of(node.op_type)]
            self._queue += [(order, rank(node), number, node) for number, node in enumerate(wanted)]
            self._queued.update(wanted)
        self._pushed = len(self._queue)
        heapq.heapify(self._queue)
        rewrites = 0
        check_time = self._state.model.budget.check_time
        while self._queue:
            check_time()
            node = heapq.heappop(self._queue)[3]
            self._queued.discard(node)
            editor = self._editor(node.graph)
            if node in editor.list and node not in self._state.refused and self._budget.allows(node):
                rewrites += self._visit(node, editor)
        return rewrites

    def _push(self, node: Node) -> None:
        if node in self._queued or not self._rules.of(node.op_type):
            return
        positions = self._editor(node.graph).list
        if node not in positions:
            return  # it went with the graph it was in
        self._queued.add(node)
        self._pushed += 1
        order = self._graphs.setdefault(node.graph, len(self._graphs))
        heapq.heappush(self._queue, (order, positions.rank(node), self._pushed, node))

    def _visit(self, node: Node, editor: Editor) -> bool:
        """Show a node to its rules up to the first that rewrites it."""
        state = self._state
        record = editor.record(node)  # a rule that leaves the graph alone leaves the record as it is
        for rule, report in self._rules.of(node.op_type):
            before = state.changes
            state.origin = rule.name
            start = perf_counter()
            try:
                outcome = rule.rewrite(record, editor, self._context)
            except LimitError:
                raise
            except Exception as error:
                raise failure(rule.name, describe(error), node.name) from error
            finally:
                state.origin = ""
                report.seconds += perf_counter() - start
            if outcome is False and state.changes == before:
                continue  # nearly always
            if not isinstance(outcome, bool | str):
                raise failure(rule.name, f"rewrite() returned {type(outcome).__name__}, not a bool or a str", node.name)
            if (outcome is True) != (state.changes != before):
                done = "changed" if state.changes != before else "did not change"
                raise failure(rule.name, f"it {done} the graph and returned {outcome!r}", node.name)
            title = "/".join((*node.path, node.name)) if node.graph.owner is not None else node.name
            if isinstance(outcome, str):
                self.reasons[rule.name][title] = outcome
                continue
            self._rewritten(node, rule, report)
            return True
        return False

    def _rewritten(self, node: Node, rule: RewriteRule, report: PassReport) -> None:
        journal = self._state.take_journal()
        self._budget.spend(rule.name, node, journal)
        before = tuple([one.name for one in journal.removed]) or (node.name,)
        report.add(before, tuple([one.name for one in journal.made]), len(journal.removed), len(journal.made))
        if self._check is not None:
            try:
                self._check()
            except Exception as error:
                raise failure(rule.name, describe(error), node.name) from error
        for one in journal.made:
            self._rules.came(one.op_type)
        for one in (node, *journal.made, *journal.moved):
            self._push(one)
        for value in journal.values:
            if value.producer is not None:
                self._push(value.producer)
            if len(value.uses) <= _NEAR:
                for reader, _ in value.uses:
                    self._push(reader)

    def _editor(self, graph: Graph) -> Editor:
        return self._state.editors.get(graph) or Editor(graph, self._state)


def failure(name: str, why: str, node: str = "") -> PluginError:
    """A transform broke, or broke the graph."""
    return PluginError(
        f"The graph transform '{name}' failed.",
        why=f"at node '{node}': {why}" if node else why,
        fix=f"Switch it off (SessionOptions.disabled_transforms = ['{name}']) and report it.",
    )
