"""Shapes that depend on computed numbers, and all that follows from them.

Comes after one run of `inference`, in `shapes`: follows `ShapeData` through the nodes in order, and types those again
whose inputs became known better. Bounded: a large model whose every shape is computed keeps weaker types at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, TensorType, ValueType, numpy_dtype
from ort_py.errors import InvalidGraph, LimitError, ModelLoadCanceled, OrtPyError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Graph, Model, Node, Value, walk
from ort_py.graph.typing.contents import Contents, constant_contents
from ort_py.graph.typing.node_types import infer_node
from ort_py.graph.typing.shape_data import ShapeData, target_shape
from ort_py.graph.typing.type_merge import merge_types, shape_conflict

MOST_NODES = 5_000
"""Nodes that are typed one by one, at about 60 µs each."""

_SOURCES = frozenset({"Cast", "Concat", "Gather", "Shape", "Size", "Slice", "Squeeze", "Unsqueeze"})
"""Operators that numbers for shapes come from or pass through, arithmetic excepted."""


def follow_shapes(
    model: Model,
    schemas: SchemaRegistry | None,
    *,
    improved: Iterable[Value] = (),
    infer: Callable[[Node, Contents], list[ValueType | None]] | None = None,
) -> tuple[dict[Value, ValueType], list[str]]:
    """Improve `Value.type` by following the numbers that shapes are computed from.

    Args:
        improved: Values whose types became better since.
        infer: Types a node with given contents; `infer_node` where None.

    Returns:
        The types that became better, and contradictions met in the main graph. What is nested may be a branch that
        is never taken.
    """
    walker = _Walker(infer or (lambda node, contents: infer_node(node, schemas, contents)))
    walker.improved.update(improved)
    graphs = list(walk(model.graph))
    if walker.improved or any(_computes_shapes(node) for graph in graphs for node in graph.nodes):
        for graph in graphs:
            walker.graph(graph)
    return walker.better, walker.errors


def _computes_shapes(node: Node) -> bool:
    if node.op_type not in _SOURCES or node.domain or not node.outputs or node.outputs[0] is None:
        return False
    known = node.outputs[0].type
    if not isinstance(known, TensorType) or known.data_type not in (DataType.INT64, DataType.INT32):
        return False
    return known.shape is None or len(known.shape) < 2


class _Walker:
    def __init__(self, infer: Callable[[Node, Contents], list[ValueType | None]]) -> None:
        self.better: dict[Value, ValueType] = {}
        self.errors: list[str] = []
        self.improved: set[Value] = set()
        self._infer = infer
        self._data = ShapeData()
        self._left = MOST_NODES

    def graph(self, graph: Graph) -> None:
        check_time = graph.model.budget.check_time
        for node in graph.nodes:
            check_time()
            for value, found in self._types(node):
                self._learn(node, value, found)
            self._data.follow(node)

    def _types(self, node: Node) -> Iterator[tuple[Value | None, ValueType | None]]:
        target = target_shape(node, self._data)
        output = node.outputs[0] if node.outputs else None
        if target is not None and output is not None and isinstance(output.type, TensorType):
            yield output, replace(output.type, shape=target)
            return
        if self._left > 0 and (any(value in self.improved for value in node.inputs) or self._newly_improved(node)):
            self._left -= 1
            try:
                yield from zip(node.outputs, self._infer(node, self._contents), strict=False)
            except InvalidGraph as error:
                # An operator that inference does not know has no types yet, and ONNX may take that for a contradiction.
                if node.graph.owner is None and all(value is None or value.type is not None for value in node.inputs):
                    self.errors.append(f"{node.location}: {'; '.join(error.why)}")
            except (LimitError, ModelLoadCanceled):
                raise
            except OrtPyError:
                return  # a contributed function that fails is asked again, and reported, by `shapes`

    def _newly_improved(self, node: Node) -> bool:
        """Return whether an input's content is known now that inference did not have, and inference left something
        unknown.
        """
        if node.domain or all(_complete(value) for value in node.outputs):
            return False
        return any(
            value is not None and value.producer is not None and self._contents(value) is not None
            for value in node.inputs
        )

    def _contents(self, value: Value) -> np.ndarray[Any, Any] | None:
        if value.weight is not None:
            return constant_contents(value)
        known = self._data.of(value)
        array = known.array() if known is not None else None
        if array is None or not isinstance(value.type, TensorType):
            return None
        return array.astype(numpy_dtype(value.type.data_type))

    def _learn(self, node: Node, value: Value | None, found: ValueType | None) -> None:
        if value is None or found is None or found == value.type:
            return
        if shape_conflict(found, value.type):
            if node.graph.owner is None:
                self.errors.append(f"{node.location}: '{value.name}' is {value.type!r} but was inferred as {found!r}")
            return
        merged = merge_types(value.type, found, sizes=True)
        if merged is not None and merged != value.type:
            value.type = self.better[value] = merged
            self.improved.add(value)


def _complete(value: Value | None) -> bool:
    """Return whether a value's type is fully known."""
    if value is None:
        return True
    known = value.type
    return (
        isinstance(known, TensorType) and known.shape is not None and all(isinstance(dim, int) for dim in known.shape)
    )
