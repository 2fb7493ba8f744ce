"""Graph transforms: how the optimiser, providers and plug-ins change a graph.

A transform says what it does and at which level, gets an editor, and reports. All surgery goes through
`GraphEditor`; the engine checks the graph's invariants after each transform.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ort_py.contracts.graph_view import Array, AttributeValue, GraphView, NodeSpec
from ort_py.contracts.kernel import KernelContext

__all__ = [
    "GraphEditor",
    "GraphTransform",
    "Level",
    "NodeTemplate",
    "RewriteRule",
    "TransformContext",
    "TransformResult",
]


class Level(IntEnum):
    """Optimisation levels, numbered as onnxruntime's `GraphOptimizationLevel`.

    A transform of level L runs where the session's level is at least L.
    """

    BASIC = 1
    EXTENDED = 2
    LAYOUT = 3
    ALL = 99


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A node to be made.

    Attributes:
        op_type: Operator.
        inputs: Names of existing values or of outputs of earlier templates; ``""`` where an optional input is absent.
        outputs: Names of its outputs; a name that exists already is taken over from the node that wrote it.
        attributes: Attributes as in `NodeSpec`.
        domain: Operator domain.
        name: Name; made from the transform's name and the first output where empty.
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] | None = None
    domain: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class TransformResult:
    """What a transform did.

    Attributes:
        changes: Number of places changed; 0 means the graph is as it was.
        notes: Lines for the report: what was changed, and why a near match was refused.
    """

    changes: int = 0
    notes: tuple[str, ...] = ()


class TransformContext(ABC):
    """What a transform may use besides the graph. Made by the engine, valid during the call."""

    @abstractmethod
    def evaluate(self, node: NodeSpec, inputs: Sequence[Array | None]) -> Sequence[Array] | None:
        """Compute a node on host arrays with the session's last-fallback provider; None where it has no kernel.

        Raises:
            OrtPyError: The kernel refused its inputs.
        """

    @abstractmethod
    def kernel_context(self, node: NodeSpec) -> KernelContext:
        """A kernel context for a node, mostly for `check_allocation`."""


class GraphEditor(ABC):
    """Changes one graph. Names, uses and types stay consistent after each call."""

    @property
    @abstractmethod
    def view(self) -> GraphView:
        """The graph as it is now. A new view after each change; indices of an older one are void."""

    @abstractmethod
    def replace_nodes(self, nodes: Sequence[int], templates: Sequence[NodeTemplate]) -> None:
        """Remove nodes of the current view and put new ones in their place.

        Raises:
            InvalidGraph: A value that is still read would have no producer, or a cycle would arise.
        """

    @abstractmethod
    def replace_uses(self, old: str, new: str) -> None:
        """Let every reader of `old` read `new`; a graph output keeps its name.

        Raises:
            InvalidGraph: One of the values does not exist.
        """

    @abstractmethod
    def add_constant(self, name: str, array: Array) -> str:
        """Add an initializer; returns its name, which gets a suffix where `name` is taken."""

    @abstractmethod
    def remove_unused(self) -> int:
        """Remove nodes and constants nobody needs; returns how many. Nodes with side effects do not exist in ONNX."""

    @abstractmethod
    def subgraphs(self) -> Sequence[GraphEditor]:
        """Editors of the graphs nested directly in this one."""


class GraphTransform(ABC):
    """A change of whole graphs. Stateless: one instance serves many sessions and threads."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Required. Unique; nodes it makes are tagged with it, users switch it off by it."""

    @property
    def level(self) -> Level:
        """Optional. The level it belongs to."""
        return Level.BASIC

    @abstractmethod
    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        """Required. Change the graph. Called at session creation on the creating thread, to a fixed point.

        An exception fails the session's creation, naming the transform: a half-changed graph must not run.
        """


class RewriteRule(GraphTransform):
    """A local rule: nodes of some operators are looked at one by one and may be replaced."""

    @property
    @abstractmethod
    def op_types(self) -> frozenset[str]:
        """Required. Operators (of any domain) the rule looks at."""

    @abstractmethod
    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        """Required. Look at one node: True where it changed the graph, False where the rule does not concern it, a
        reason where it looked like a match but must not be rewritten."""

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        """Visit every node of the graph and of its nested graphs once."""
        changes = 0
        notes: list[str] = []
        pending = [graph]
        while pending:
            editor = pending.pop()
            position = 0
            while position < len(editor.view.nodes):
                node = editor.view.nodes[position]
                position += 1
                if node.op_type not in self.op_types:
                    continue
                before = len(editor.view.nodes)
                outcome = self.rewrite(node, editor, context)
                if outcome is True:
                    changes += 1
                    position = max(0, position - 1 - max(0, before - len(editor.view.nodes)))
                elif isinstance(outcome, str):
                    notes.append(f"{node.name}: {outcome}")
            pending.extend(editor.subgraphs())
        return TransformResult(changes, tuple(notes))
