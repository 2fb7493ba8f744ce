"""Nodes written one after the other in place of one: what rules of providers work with that expand fused operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ort_py.contracts.graph_view import NodeSpec, ValueSpec
from ort_py.dtypes import Shape, TensorType

__all__ = ["Steps"]


class Steps:
    """Nodes written one after the other in place of one."""

    def __init__(self, node: NodeSpec) -> None:
        self.node = node
        self.made: list[NodeSpec] = []

    def input(self, place: int) -> ValueSpec | None:
        """An input of the node."""
        return self.node.inputs[place] if place < len(self.node.inputs) else None

    def output(self, place: int) -> ValueSpec | None:
        """An output of the node."""
        return self.node.outputs[place] if place < len(self.node.outputs) else None

    def between(self, like: ValueSpec | None, shape: Shape | None = None) -> ValueSpec:
        """A new value of the type of another, of another shape where one is given."""
        kind = None if like is None else like.type
        if shape is not None and isinstance(kind, TensorType):
            kind = replace(kind, shape=shape)
        return ValueSpec(f"{self.node.name}:step{len(self.made)}", kind)

    def reduced(self, op_type: str, value: ValueSpec, axes: Sequence[int]) -> ValueSpec:
        """Append a reduction that keeps its dimensions."""
        assert value.shape is not None, "the rule has looked"
        places = {axis % len(value.shape) for axis in axes}
        shape = tuple(1 if place in places else dim for place, dim in enumerate(value.shape))
        return self.add(op_type, (value,), self.between(value, shape), {"axes": tuple(axes), "keepdims": 1}, 11)

    def add(
        self,
        op_type: str,
        inputs: Sequence[ValueSpec | None],
        output: ValueSpec | None,
        attributes: Mapping[str, Any] | None = None,
        since: int = 13,
    ) -> ValueSpec:
        """Append a node of ``ai.onnx``; returns its output."""
        found = output or self.between(inputs[0])
        self.made.append(
            replace(
                self.node,
                op_type=op_type,
                domain="",
                since_version=since,
                inputs=tuple(inputs),
                outputs=(found,),
                attributes=dict(attributes or {}),
                body=None,
            )
        )
        return found
