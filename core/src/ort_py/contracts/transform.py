"""Graph transforms: how the optimiser, providers and plug-ins change a graph.

There are two kinds. A `RewriteRule` is local: the engine shows it nodes one by one, from a work-list, and it replaces
a few of them; `PatternRule` (in `pattern`) is one written as a picture of the nodes it wants. A `GraphTransform` sees a
graph as a whole. Both get a `GraphEditor`, the only way to change anything; what they read are frozen records.

A record (`NodeSpec`) of a node stays valid as a handle as long as the node is there, whatever else changes: the editor
knows nodes by name, and names are never used again. Ask `GraphEditor.node` for a newer record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from ort_py.contracts.function_body import NodeTemplate
from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array, GraphView, NodeSpec, ValueSpec
    from ort_py.contracts.kernel import KernelContext


class Level(IntEnum):
    """Optimisation levels, numbered as onnxruntime's `GraphOptimizationLevel`.

    A transform of level L runs where the session's level is at least L.
    """

    BASIC = 1
    EXTENDED = 2
    LAYOUT = 3
    ALL = 99


@dataclass(frozen=True, slots=True)
class TransformResult:
    """The result of a `GraphTransform`.

    Attributes:
        changes: Number of places changed; 0 means the graph is as it was.
        notes: Lines for the report: what was changed, and why a near match was refused.
    """

    changes: int = 0
    notes: tuple[str, ...] = ()


class TransformContext(ABC):
    """Services for a transform besides the graph. The engine creates it, and it is valid during the call."""

    @abstractmethod
    def evaluate(self, node: NodeSpec, inputs: Sequence[Array | None]) -> Sequence[Array] | None:
        """Compute a node on host arrays with the session's last-fallback provider, or return None if that has no
        kernel.

        Raises:
            OrtPyError: The kernel refused its inputs.
        """

    @abstractmethod
    def kernel_context(self, node: NodeSpec) -> KernelContext:
        """A kernel context for a node, mostly for `check_allocation`."""

    @abstractmethod
    def reserve(self, nbytes: int) -> bool:
        """Ask whether a new constant of this size may be kept beyond what it replaces. If the answer is True, its bytes
        are counted.

        A model may grow by its optimisation up to a bound that follows the session's limits on constants.
        """


class GraphEditor(ABC):
    """Reads and changes one graph. Names, uses, types and order stay consistent after each call.

    The cost of a call depends on its changes, not on the size of the graph; `nodes` and `view` read the whole graph.
    """

    # What is there ----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def nodes(self) -> Sequence[NodeSpec]:
        """Records of all nodes in topological order, as they are now; later changes do not touch the sequence."""

    @property
    @abstractmethod
    def view(self) -> GraphView:
        """The graph as it is now, for code that reads graphs. Void after the next change: it then raises."""

    @abstractmethod
    def node(self, node: NodeSpec | str) -> NodeSpec | None:
        """The newest record of a node, looked up by an older record or by name. None if the node was removed.

        `NodeSpec.index` is -1 in all records but those of `view`: positions change.
        """

    @abstractmethod
    def value(self, name: str) -> ValueSpec | None:
        """The value called `name` here or in a graph around."""

    @abstractmethod
    def producer(self, value: ValueSpec | str | None) -> NodeSpec | None:
        """The node of this graph that writes a value. None for inputs, constants, values of outer graphs and None."""

    @abstractmethod
    def readers(self, value: ValueSpec | str) -> Sequence[NodeSpec]:
        """The nodes of this graph that read a value, each once, those that hold a reading nested graph included."""

    @abstractmethod
    def uses(self, value: ValueSpec | str) -> int:
        """Number of times a value is read, by inputs of nodes, nested ones included, and by outputs of graphs."""

    @abstractmethod
    def is_output(self, value: ValueSpec | str) -> bool:
        """Return whether this graph returns the value."""

    @abstractmethod
    def constant(self, value: ValueSpec | str | None) -> Array | None:
        """Return a constant as a read-only NumPy array, or None if the value is not constant or is None. The array may
        map a file.
        """

    @abstractmethod
    def constant_key(self, value: ValueSpec | str) -> str:
        """Identify the content of a constant without reading it: equal keys mean equal tensors.

        Raises:
            InvalidGraph: The value is not constant.
        """

    @abstractmethod
    def constants(self) -> Sequence[ValueSpec]:
        """The constants of this graph, those of outer graphs not among them."""

    @abstractmethod
    def subgraphs(self) -> Sequence[GraphEditor]:
        """Editors of the graphs nested directly in this one."""

    # Changes ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def replace_nodes(self, nodes: Sequence[NodeSpec | str], templates: Sequence[NodeTemplate]) -> Sequence[NodeSpec]:
        """Remove nodes and put new ones in their place; returns the new ones.

        Raises:
            InvalidGraph: A value that is still read would have no producer, a cycle would arise, a node was removed
                before, or a new node contradicts its operator.
        """

    @abstractmethod
    def contradiction(self, templates: Sequence[NodeTemplate], constants: Mapping[str, Array]) -> str:
        """Explain why new nodes would contradict their operators or the values that they take over; empty if they would
        not. Changes nothing.

        Args:
            templates: As for `replace_nodes`; they hold no graphs.
            constants: What they read and the graph does not have yet, by names that are free.
        """

    @abstractmethod
    def fuse(self, nodes: Sequence[NodeSpec | str], template: NodeTemplate) -> NodeSpec:
        """Put one node in the place of several; it carries the function these computed.

        A provider that lacks the new operator gets that function instead. Constants that only the removed nodes read
        go into it, where they are small; a larger one the new node must read as well.

        Raises:
            InvalidGraph: As `replace_nodes`; or the removed nodes read a value or a large constant that the new node
                does not, or hold nested graphs.
        """

    @abstractmethod
    def replace_uses(self, old: ValueSpec | str, new: ValueSpec | str, *, returned: bool = True) -> None:
        """Let every reader of `old` read `new`; a graph output keeps its name.

        Args:
            old: A value of this graph.
            new: A value of this graph or of one around.
            returned: Where this graph returns `old`, let it return `new`; else it still returns `old`.

        Raises:
            InvalidGraph: One of the values does not exist, or a reader would depend on itself.
        """

    @abstractmethod
    def free_name(self, wanted: str) -> str:
        """A name for a value between new nodes: `wanted`, or with a suffix where a value has or had that name. Changes
        nothing. A template that writes a name in use would take that value over."""

    @abstractmethod
    def add_constant(self, name: str, array: Array, *, made_of: str = "") -> str:
        """Add an initializer; returns its name, which gets a suffix where `name` is taken.

        Args:
            name: The name wanted.
            array: Its content, copied.
            made_of: A text that identifies the content, such as the rule, the keys of the constants and the numbers it
                was made from. Equal texts mean equal constants in the whole process, without a comparison of the
                arrays. The array is then kept, not copied: it must be fresh, contiguous and not referenced elsewhere.
        """

    @abstractmethod
    def inline_subgraph(self, node: NodeSpec | str, attribute: str) -> None:
        """Put the nodes of a nested graph without inputs in place of the node that holds it.

        Raises:
            InvalidGraph: The graph has inputs, or fewer outputs than the node.
        """

    @abstractmethod
    def move_out(self, nodes: Sequence[NodeSpec | str]) -> None:
        """Move nodes of a nested graph in front of the node that holds it, with the constants they read. If this graph
        returns what they write, it still does.

        Raises:
            InvalidGraph: One of them reads something that stays in this graph, or this graph is not nested.
        """

    @abstractmethod
    def infer(self, node: NodeSpec | str) -> NodeSpec:
        """Type a node's outputs again, after its inputs became known better; returns the newest record.

        Raises:
            InvalidGraph: The inputs contradict the operator.
        """

    @abstractmethod
    def remove_unused(self) -> int:
        """Remove nodes and constants that nothing needs, and return how many. ONNX has no nodes with side effects."""

    def bypass(self, node: NodeSpec, source: ValueSpec | str) -> bool:
        """Remove a node whose first output is nothing but `source`, an input of it; its other outputs must be unused.

        Returns:
            Whether it was done: not where a graph output would become a second name of an input, of a constant, or of
            another output.
        """
        output = node.outputs[0]
        if output is None:
            return False
        if self.is_output(output) and (self.producer(source) is None or self.is_output(source)):
            return False
        self.replace_uses(output, source)
        self.replace_nodes([node], ())
        return True


class Transform(ABC):
    """The common interface of transforms. They are stateless: one instance serves many sessions and threads."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Required. Unique; nodes it makes are tagged with it, users switch it off by it."""

    @property
    def level(self) -> Level:
        """Optional. The level it belongs to."""
        return Level.BASIC


class GraphTransform(Transform):
    """A change of whole graphs."""

    @property
    def cleans(self) -> bool:
        """Optional. Whether it only removes what no output needs.

        Then it also runs at the beginning of each round, so that no other transform looks at what rules have left
        behind.
        """
        return False

    @abstractmethod
    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        """Required. Change the main graph, and nested ones. Called at session creation on the creating thread, until
        nothing changes any more.

        An exception fails the session's creation, naming the transform: a half-changed graph must not run.
        """


class RewriteRule(Transform):
    """A local rule: nodes of some operators are looked at one by one, in every graph, and may be replaced."""

    @property
    @abstractmethod
    def op_types(self) -> frozenset[str] | None:
        """Required. Operators (of any domain) the rule looks at; None for all."""

    def concerns(self, op_type: str, present: Collection[str]) -> bool:
        """Optional. Return whether the rule looks at nodes of an operator, in a model that has just the operators
        `present`.

        By default where `op_types` has it. A rule that also needs other operators near by need not be shown nodes of a
        model that has none of these. Asked once for each operator, and again when a rewrite brings a new one.
        """
        wanted = self.op_types
        return wanted is None or op_type in wanted

    @abstractmethod
    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        """Required. Look at one node; called again when something near it has changed. On the creating thread.

        Returns:
            True where it changed the graph, False where the rule does not concern the node, and a reason in words
            where the node looked like a match but must stay: users ask why.

        An exception fails the session's creation, naming the rule and the node; so does changing the graph without
        returning True.
        """
