"""The content of a model file without protobuf: graphs, nodes and functions as they are written there.

`parse_graph` makes these records and `build` turns them into `ir`, a function's body once for each call. Names are
still names here: nothing is resolved, so records can be shared by all calls of a function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, TypeAlias

from ort_py.dtypes import ValueType
from ort_py.graph.ir import Weight
from ort_py.lazy_dataclass import dataclass

FunctionKey: TypeAlias = tuple[str, str, str]
"""Domain, name and overload."""


@dataclass(slots=True, eq=False)
class WrittenNode:
    """A node as written.

    Attributes:
        op_type, domain, overload, name: As in the file; ``ai.onnx`` is ``""``.
        inputs, outputs: Names, ``""`` where absent.
        attributes: Values as in `ort_py.contracts.NodeSpec`, but a graph is a `WrittenGraph`.
        references: (attribute, attribute of the enclosing function it takes its value from).
        nested: Whether an attribute holds graphs.
        weight: The tensor, where the node is a ``Constant`` that names one itself.
    """

    op_type: str
    domain: str
    overload: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    references: tuple[tuple[str, str], ...] = ()
    nested: bool = False
    weight: Weight | None = None


@dataclass(slots=True, eq=False)
class WrittenGraph:
    """A graph as written.

    Attributes:
        inputs, outputs: Names with declared types.
        types: Types declared for other values.
        weights: Initializers in the order of the file.
        nodes: Nodes in the order of the file.
    """

    name: str = ""
    inputs: list[tuple[str, ValueType | None]] = field(default_factory=list)
    outputs: list[tuple[str, ValueType | None]] = field(default_factory=list)
    types: dict[str, ValueType | None] = field(default_factory=dict)
    weights: list[tuple[str, Weight]] = field(default_factory=list)
    nodes: list[WrittenNode] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class WrittenFunction:
    """A model-local function, or the body of an operator that is defined by one.

    Attributes:
        key: Key that nodes call it by.
        inputs, outputs: Names of its formal parameters.
        defaults: Values of attributes that a call may leave out.
        opset_imports: Opset of each domain its nodes use.
    """

    key: FunctionKey
    inputs: list[str]
    outputs: list[str]
    defaults: dict[str, Any] = field(default_factory=dict)
    opset_imports: dict[str, int] = field(default_factory=dict)
    types: dict[str, ValueType | None] = field(default_factory=dict)
    nodes: list[WrittenNode] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Name for messages: ``pkg.Gelu``, with the overload if there is one."""
        domain, name, overload = self.key
        return (f"{domain}." if domain else "") + name + (f":{overload}" if overload else "")


def walk_written(nodes: list[WrittenNode]) -> Iterator[WrittenNode]:
    """The nodes and those of all graphs nested in them."""
    pending = [nodes]
    while pending:
        for node in pending.pop():
            yield node
            if node.nested:
                for value in node.attributes.values():
                    graphs = value if isinstance(value, tuple) else (value,)
                    pending.extend(graph.nodes for graph in graphs if isinstance(graph, WrittenGraph))
