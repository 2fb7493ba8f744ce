"""The in-memory graph: nodes and values with uses, types, symbolic shapes and constants.

Read from protobuf once (`loader`), checked (`validate`), typed (`shapes`), changed only through `edit`, shown to
plug-ins through `view`, written back by `serialize`. It is independent of providers, devices or plans, and keeps no
protobuf message alive.

Nested graphs are attributes of their owning node and refer to outer values directly: a capture is a use of an outer
value by a node of an inner graph. Graphs nest and chain deeply in hostile models, so nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ort_py.errors import Location
from ort_py.graph.reading.fingerprint import ContentHash
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import Budget, Limits

if TYPE_CHECKING:
    from ort_py.contracts.function_body import FunctionBody
    from ort_py.dtypes import DataType, ValueType
    from ort_py.files import FileIdentity
    from ort_py.graph.weights.kept_bytes import KeptBytes


class Weight(Protocol):
    """A stored constant tensor; see `weights` for the classes that store one."""

    @property
    def data_type(self) -> DataType:
        """Element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape; constants are always static."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory once `array` was called."""

    @property
    def key(self) -> str:
        """Identity of the content: equal keys are equal tensors."""

    def array(self) -> np.ndarray[Any, Any]:
        """The tensor: read-only, C-contiguous, aligned; the same object every time it is in memory.

        Aligned to 64 bytes where it was copied, and at least to its element type where a file is mapped.
        """


class Value:
    """One value: a graph input, a constant, or an output of a node.

    Attributes:
        name: Unique in its graph and all graphs around and inside it.
        type: Type with shape; None where unknown.
        producer: The node that writes it, None for inputs and constants.
        graph: The graph it belongs to.
        uses: (node, input position) of each reader, in nested graphs too; an ordered set.
        weight: The tensor where the value is an initializer.
        overridable: An initializer that the caller may feed: not constant.
        is_graph_output: Whether its graph returns it.
    """

    __slots__ = ("graph", "is_graph_output", "name", "overridable", "producer", "type", "uses", "weight")

    def __init__(
        self,
        name: str,
        graph: Graph,
        type: ValueType | None = None,  # noqa: A002 - the attribute's name
        *,
        producer: Node | None = None,
        weight: Weight | None = None,
    ) -> None:
        self.name = name
        self.graph = graph
        self.type = type
        self.producer = producer
        self.weight = weight
        self.overridable = False
        self.is_graph_output = False
        self.uses: dict[tuple[Node, int], None] = {}

    @property
    def constant(self) -> bool:
        """True if the content is fixed for the life of the model."""
        return self.weight is not None and not self.overridable

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.type})"


class Node:
    """One node.

    Attributes:
        name: Name in the model, or a generated one that is unique in its graph.
        op_type: Operator.
        domain: Domain; ``ai.onnx`` is stored as ``""``.
        overload: Overload of a model-local function.
        inputs: Values read; None where an optional input is absent; trailing absent ones are cut.
        outputs: Values written; None where absent.
        attributes: As in `ort_py.contracts.NodeSpec`, but a nested graph is a `Graph`.
        graph: The graph it is in.
        since_version: Version of the schema in force; 0 until `schema` has resolved it.
        type_bindings: The schema's type variables; empty until `schema` has resolved them.
        origin: Maker of the node: ``""`` for the model, else the transform's or function's name.
        opset: Opset of the node's domain where it is another than the model's, because a function brought its own;
            else 0. Read `opset_version`.
        sources: Names of the model's own nodes that it stands for; empty where it is one of them.
        body: Its computation in other operators, where a transform made it of several nodes; else None.
    """

    __slots__ = (
        "attributes",
        "body",
        "domain",
        "graph",
        "inputs",
        "name",
        "op_type",
        "opset",
        "origin",
        "outputs",
        "overload",
        "since_version",
        "sources",
        "type_bindings",
    )

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        graph: Graph,
        *,
        name: str = "",
        domain: str = "",
        overload: str = "",
        attributes: dict[str, Any] | None = None,
        origin: str = "",
    ) -> None:
        self.op_type = op_type
        self.domain = "" if domain == "ai.onnx" else domain
        self.overload = overload
        self.name = name
        self.graph = graph
        self.inputs: list[Value | None] = []
        self.outputs: list[Value | None] = []
        self.attributes: dict[str, Any] = attributes or {}
        self.since_version = 0
        self.type_bindings: dict[str, str] = {}
        self.origin = origin
        self.opset = 0
        self.sources: tuple[str, ...] = ()
        self.body: FunctionBody | None = None
        connect(self, inputs)

    @property
    def opset_version(self) -> int:
        """Opset of the node's domain in force here; 0 where nothing imports the domain."""
        return self.opset or self.graph.model.opset_imports.get(self.domain, 0)

    @property
    def subgraphs(self) -> list[Graph]:
        """Graphs directly nested in this node, in the order of their attributes."""
        found: list[Graph] = []
        for value in self.attributes.values():
            kind = value.__class__  # asked for each attribute whenever a model is walked
            if kind is Graph:
                found.append(value)
            elif kind is tuple and value and value[0].__class__ is Graph:  # of one kind: look at one only
                found.extend(value)
        return found

    def reads(self) -> list[Value]:
        """Values that the node reads, those that its nested graphs capture included."""
        found = [value for value in self.inputs if value is not None]
        if self.attributes:  # most have none
            for nested in self.subgraphs:
                found += nested.captures()
        return found

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the enclosing nodes, outermost first."""
        owner = self.graph.owner
        if owner is None:
            return ()
        names: list[str] = []
        while owner is not None:
            names.append(owner.name)
            owner = owner.graph.owner
        return tuple(reversed(names))

    @property
    def location(self) -> Location:
        """Place of this node, for error messages."""
        return Location(node=self.name, op_type=self.op_type, domain=self.domain, path=self.path)

    def __repr__(self) -> str:
        return f"Node({self.op_type!r}, {self.name!r})"


def connect(node: Node, inputs: Sequence[Value | None]) -> None:
    """Make `inputs` the node's inputs, replacing those it had."""
    disconnect(node)
    node.inputs = list(inputs)
    for position, value in enumerate(node.inputs):
        if value is not None:
            value.uses[(node, position)] = None


def disconnect(node: Node) -> None:
    """Let the node read nothing."""
    for position, value in enumerate(node.inputs):
        if value is not None:
            value.uses.pop((node, position), None)
    node.inputs = []


class Graph:
    """Nodes in topological order with their inputs, constants and outputs.

    Attributes:
        name: Name in the model.
        inputs: Values the caller or the owning node feeds, in order; overridable initializers are not among them.
        outputs: Values returned, in order; may repeat, and may be inputs, constants or outer values.
        nodes: Nodes, each after its producers.
        initializers: Values with a weight, by name, overridable ones included.
        owner: The node this graph is an attribute of; None for the main graph.
        model: The model.
        declared_outputs: Types that the model declares for the outputs, before inference made them better.
    """

    __slots__ = ("declared_outputs", "initializers", "inputs", "model", "name", "nodes", "outputs", "owner")

    def __init__(self, name: str, model: Model, owner: Node | None = None) -> None:
        self.name = name
        self.model = model
        self.owner = owner
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.declared_outputs: list[ValueType | None] = []
        self.nodes: list[Node] = []
        self.initializers: dict[str, Value] = {}
        model.graphs += 1

    def captures(self) -> list[Value]:
        """Values of outer graphs that nodes or outputs in here or deeper read, in first-use order."""
        inside: set[Graph] = set()
        found: dict[Value, None] = {}
        for graph in walk(self):
            inside.add(graph)
        for graph in walk(self):
            for node in graph.nodes:
                for value in node.inputs:
                    if value is not None and value.graph not in inside:
                        found[value] = None
            for value in graph.outputs:
                if value.graph not in inside:
                    found[value] = None
        return list(found)

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.nodes)} nodes)"


def graph_inputs(graph: Graph) -> list[Value]:
    """Values that the caller may feed: the inputs, then the overridable initializers."""
    return graph.inputs + [value for value in graph.initializers.values() if value.overridable]


def walk(graph: Graph) -> Iterator[Graph]:
    """The graph and every graph nested in it, outer ones first."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        if current.model.graphs == 1:  # the main graph has none in it, and models are walked often
            return
        for node in reversed(current.nodes):
            if node.attributes:  # most have none
                pending.extend(reversed(node.subgraphs))


@dataclass(eq=False)
class Model:
    """A model: its main graph and what the file says about it. Functions are inlined while loading.

    Attributes:
        opset_imports: Opset of each domain; ``ai.onnx`` is stored as ``""``.
        ir_version: IR version of the file.
        producer_name, producer_version, domain, doc_string, metadata: As in the file.
        model_version: As in the file, None where it says none.
        source: Path of the file, ``""`` for bytes.
        fingerprint: Content hash of the model file, for caches and reports.
        problems: Faults of the structure that the loader found; `validate` raises them with its own.
        kept: The model's bytes, where they came from no file and large constants make up most of them.
        trusted: Results of nodes of which only a declaration tells the number of axes: inference found no shape.
        external_files: Path and content of each file of external data that was read for it, whatever was folded away.
        budget: Limits of the load, asked before types are inferred and before changes. Without bounds once the model is
            loaded.
        node_types: Types that ONNX inferred for the outputs of a node, by all that they depend on, for nodes that equal
            it: a model repeats its blocks. Emptied once a session has planned.
        graphs: How many graphs were ever made for it, the main one counted.
        graph: The main graph.
    """

    opset_imports: dict[str, int]
    ir_version: int = 0
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int | None = None
    doc_string: str = ""
    graph_doc_string: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    source: str = ""
    fingerprint: ContentHash = field(default_factory=ContentHash)
    problems: list[str] = field(default_factory=list)
    kept: KeptBytes | None = None
    trusted: set[Value] = field(default_factory=set)
    external_files: list[tuple[str, FileIdentity]] = field(default_factory=list)
    budget: Budget = field(default_factory=lambda: Budget(Limits.unlimited()))
    node_types: dict[Hashable, tuple[ValueType | None, ...]] = field(default_factory=dict)
    graphs: int = field(init=False, default=0)
    graph: Graph = field(init=False)
