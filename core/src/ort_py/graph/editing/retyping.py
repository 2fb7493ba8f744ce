"""Types carried on behind an edit: nodes that read what is known better now are typed again, as far as that says more.

Comes between passes, since an edit by itself types only the nodes it makes. Costs what it types, each node behind a
change once, in order, as long as its own results become known better; where that reaches numbers that shapes are
computed from, one walk over the model follows them.
"""

from __future__ import annotations

import heapq

from ort_py.dtypes import ValueType
from ort_py.errors import InvalidGraph
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.editing.fusing import types_of
from ort_py.graph.editing.positions import Rank
from ort_py.graph.ir import Graph, Node, Value
from ort_py.graph.typing.contents import Contents
from ort_py.graph.typing.node_types import infer_node
from ort_py.graph.typing.shape_walk import follow_shapes
from ort_py.logs import lazy_logger

_LOG = lazy_logger(__name__)


def retype_readers(state: EditState) -> int:
    """Type the readers of `state.better` again, and theirs; returns how many values these and `state.better` are."""
    if not state.better:
        return 0
    walk = _Readers(state)
    walk.run()
    better = walk.better
    if walk.numbers:
        found, _ = follow_shapes(
            state.model, state.schemas, improved=better, infer=lambda node, known: _infer(node, known, state)
        )
        better.update(dict.fromkeys(found))
    for value in better:
        state.cache.forget_value(value)
        for node, _ in value.uses:
            state.cache.forget_node(node)
    state.better.clear()
    state.changes += bool(better)
    return len(better)


def _infer(node: Node, known: Contents, state: EditState) -> list[ValueType | None]:
    if node.body is not None and state.schemas.lookup(node) is None:
        return types_of(node, node.body, state)
    return infer_node(node, state.schemas, known)


class _Readers:
    """Nodes that read values of `state.better`, in the order of their graphs; more come as more values become better.

    Attributes:
        numbers: Whether one of the nodes makes numbers of the shape of what it reads.
    """

    def __init__(self, state: EditState) -> None:
        self.better: dict[Value, None] = {}
        self.numbers = False
        self._state = state
        self._graphs: dict[Graph, int] = {}
        self._queue: list[tuple[int, Rank, int, Node]] = []
        self._queued: set[Node] = set()
        self._pushed = 0

    def run(self) -> None:
        self._push_readers(list(self._state.better))
        while self._queue:
            node = heapq.heappop(self._queue)[3]
            self._queued.discard(node)
            editor = self._editor(node)
            if node not in editor.list:
                continue
            self.numbers = self.numbers or node.op_type in ("Shape", "Size")
            self._state.better.clear()
            try:
                editor.retype(node)
            except InvalidGraph as error:  # it may be in a branch that is never taken: if not, running it says the same
                _LOG.debug("no new types were inferred: %s", error)
            self._push_readers([value for value in node.outputs if value is not None and value in self._state.better])

    def _push_readers(self, values: list[Value]) -> None:
        for value in values:
            self.better[value] = None
            for node, _ in value.uses:
                positions = self._editor(node).list
                if node in self._queued or node not in positions:
                    continue
                self._queued.add(node)
                self._pushed += 1
                order = self._graphs.setdefault(node.graph, len(self._graphs))
                heapq.heappush(self._queue, (order, positions.rank(node), self._pushed, node))

    def _editor(self, node: Node) -> Editor:
        return self._state.editors.get(node.graph) or Editor(node.graph, self._state)
