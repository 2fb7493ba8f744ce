"""A few nodes as plain data: nodes to be made, and the function that a fused node replaces.

Transforms write these (`transform`), views show them (`graph_view`). Names in a body are its own: they mean nothing in
the graph around it, so one body serves every node that replaces the same computation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ort_py.lazy_dataclass import dataclass


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
        body: The computation of the node, written in other operators: taken by providers that lack the operator.
            `GraphEditor.fuse` makes it of the nodes that are replaced.
        opset: Opset of its domain where it needs another than the model's, with a `body` of the model's; 0 for that of
            the model.
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] | None = None
    domain: str = ""
    name: str = ""
    body: FunctionBody | None = None
    opset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FunctionBody:
    """The definition of a node in operators that every last-resort provider runs.

    A body is shared by nodes of different types, so it has none itself. `GraphView.function` gives the body of one node
    as a graph, whose nodes have the versions of their operators and whose values have types.

    Equal bodies are one object in a graph, so they may be compared by identity there.

    Attributes:
        inputs: Names of the node's inputs inside the body, one per position; ``""`` where the node has none.
        outputs: Names of the node's outputs inside the body, likewise.
        nodes: The nodes, in order; they read inputs, constants and earlier outputs.
        constants: Small host arrays the body needs besides the node's inputs, by name.
        opset_imports: Opset of each domain its nodes are written for.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeTemplate, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    opset_imports: Mapping[str, int] = field(default_factory=dict)
