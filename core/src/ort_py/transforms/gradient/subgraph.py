"""The nodes between the tensors that a Gradient names, in order, and the relevant ones among them.

Used by `lowering`. Reads the graph, changes nothing. A value matters where it is a float tensor that is computed from a
differentiated one. Works with its own stack: graphs may be as deep as they like.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ort_py.dtypes import DataType, TensorType
from ort_py.graph.ir import Node, Value

_FLOATS = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})


def is_float(value: Value) -> bool:
    """Return whether a value is a tensor of floating-point numbers, as far as types are known."""
    return isinstance(value.type, TensorType) and value.type.data_type in _FLOATS


def between(ends: Iterable[Value], leaves: Collection[Value]) -> list[Node]:
    """The nodes that compute `ends`, each after its inputs, stopping at leaves."""
    done: set[Node] = set()
    order: list[Node] = []
    stack: list[tuple[Node | None, Iterator[Value]]] = [(None, iter(ends))]
    while stack:
        node, pending = stack[-1]
        for value in pending:
            producer = value.producer
            if value in leaves or producer is None or producer in done:
                continue
            done.add(producer)
            stack.append((producer, iter(producer.reads())))
            break
        else:
            stack.pop()
            if node is not None:
                order.append(node)
    return order


def dependent(nodes: Iterable[Node], values: Iterable[Value], *, floats: bool) -> tuple[list[Node], set[Value]]:
    """The nodes that read what follows from `values`, and all that follows.

    Args:
        values: Values to start from; they are part of what follows.
        floats: Whether only float tensors carry the dependence on.
    """
    reached = set(values)
    found: list[Node] = []
    for node in nodes:
        if not any(value in reached for value in node.reads()):
            continue
        results = [value for value in node.outputs if value is not None and (not floats or is_float(value))]
        if floats and not results:
            continue
        found.append(node)
        reached.update(results)
    return found, reached
