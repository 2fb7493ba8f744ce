"""Numbers that shapes are computed from, followed through a model: Shape → Gather → Concat → Reshape.

Used by `shapes` after `inference`, which does not follow them: onnx's own data propagation keeps an entry for every
element of every one-dimensional tensor, which a model of a hundred bytes can make two billions. Here a value is
followed only where it is an integer scalar or a short vector. Symbolic sizes are followed as names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ort_py.dtypes import DataType, Dim, Shape, TensorType
from ort_py.graph.ir import Node, Value

__all__ = ["Numbers", "ShapeData", "target_shape"]

_LONGEST = 64
"""Entries of a vector that is followed; no shape is longer."""

_LARGEST = 2**62
"""Numbers beyond are not followed: they are no sizes, and sums of them would leave 64 bits."""


class Numbers(NamedTuple):
    """What is known of an integer tensor's content.

    Attributes:
        entries: Each a number, a symbolic size, or None where it is unknown.
        scalar: Whether it has no dimension; else it has one.
    """

    entries: tuple[Dim, ...]
    scalar: bool

    def array(self) -> np.ndarray[Any, Any] | None:
        """The content, None unless all of it is known."""
        known = [entry for entry in self.entries if isinstance(entry, int)]
        if len(known) < len(self.entries):
            return None
        return np.array(known[0] if self.scalar else known, np.int64)


class ShapeData:
    """Contents followed so far. Nodes are shown to it in topological order."""

    def __init__(self) -> None:
        self._known: dict[Value, Numbers | None] = {}

    def of(self, value: Value | None) -> Numbers | None:
        """What is known of a value's content; None where it is nothing."""
        if value is None:
            return None
        if value not in self._known:
            self._known[value] = _constant(value)
        return self._known[value]

    def follow(self, node: Node) -> None:
        """Note the content of a node's output, if the operator is one that shapes are computed with."""
        rule = _RULES.get(node.op_type)
        if rule is None or node.domain or len(node.outputs) != 1 or node.outputs[0] is None:
            return
        found = rule(node, self)
        if found is not None and len(found.entries) <= _LONGEST:
            self._known[node.outputs[0]] = Numbers(tuple([_bounded(entry) for entry in found.entries]), found.scalar)


def _bounded(entry: Dim) -> Dim:
    return None if isinstance(entry, int) and abs(entry) > _LARGEST else entry


def _constant(value: Value) -> Numbers | None:
    weight = value.weight
    if weight is None or not value.constant or weight.data_type not in (DataType.INT64, DataType.INT32):
        return None
    if len(weight.shape) > 1 or prod(weight.shape) > _LONGEST:
        return None
    return Numbers(tuple(int(number) for number in weight.array().reshape(-1)), not weight.shape)


def _shape_of(node: Node, position: int = 0) -> Shape | None:
    value = node.inputs[position] if position < len(node.inputs) else None
    return value.type.shape if value is not None and isinstance(value.type, TensorType) else None


def _input(node: Node, data: ShapeData, position: int) -> Numbers | None:
    return data.of(node.inputs[position]) if position < len(node.inputs) else None


def _shape(node: Node, data: ShapeData) -> Numbers | None:
    shape = _shape_of(node)
    if shape is None:
        return None
    return Numbers(shape[slice(node.attributes.get("start", 0), node.attributes.get("end"))], False)


def _size(node: Node, data: ShapeData) -> Numbers | None:
    shape = _shape_of(node)
    if shape is None:
        return None
    sizes = [size for size in shape if isinstance(size, int)]
    return Numbers((prod(sizes) if len(sizes) == len(shape) else None,), True)


def _same(node: Node, data: ShapeData) -> Numbers | None:
    return _input(node, data, 0)


def _cast(node: Node, data: ShapeData) -> Numbers | None:
    return _input(node, data, 0) if node.attributes.get("to") in (DataType.INT64, DataType.INT32) else None


def _gather(node: Node, data: ShapeData) -> Numbers | None:
    source, index = _input(node, data, 0), _input(node, data, 1)
    if source is None or index is None or source.scalar:
        return None
    picked: list[Dim] = []
    for entry in index.entries:
        if not isinstance(entry, int) or not -len(source.entries) <= entry < len(source.entries):
            return None
        picked.append(source.entries[entry])
    return Numbers(tuple(picked), index.scalar)


def _concat(node: Node, data: ShapeData) -> Numbers | None:
    entries: list[Dim] = []
    for position in range(len(node.inputs)):
        part = _input(node, data, position)
        if part is None:
            shape = _shape_of(node, position)
            if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > _LONGEST:
                return None
            entries.extend([None] * shape[0])
        else:
            entries.extend(part.entries)
        if len(entries) > _LONGEST:
            return None
    return Numbers(tuple(entries), False)


def _slice(node: Node, data: ShapeData) -> Numbers | None:
    source = _input(node, data, 0)
    if source is None or source.scalar:
        return None
    bounds: list[int] = []
    for position, name in ((1, "starts"), (2, "ends"), (4, "steps")):
        found = _input(node, data, position)
        entries = found.entries if found is not None else node.attributes.get(name)
        if entries is None and name == "steps" and (len(node.inputs) <= 4 or node.inputs[4] is None):
            entries = (1,)
        if entries is None or len(entries) != 1 or not isinstance(entries[0], int):
            return None
        bounds.append(entries[0])
    if bounds[2] == 0:
        return None
    return Numbers(source.entries[slice(*bounds)], False) if bounds[2] > 0 else None


def _unsqueeze(node: Node, data: ShapeData) -> Numbers | None:
    source = _input(node, data, 0)
    return Numbers(source.entries, False) if source is not None and source.scalar else None


def _squeeze(node: Node, data: ShapeData) -> Numbers | None:
    source = _input(node, data, 0)
    return Numbers(source.entries, True) if source is not None and len(source.entries) == 1 else None


def _reshape(node: Node, data: ShapeData) -> Numbers | None:
    source, target = _input(node, data, 0), _input(node, data, 1)
    if source is None or target is None or len(target.entries) > 1 or target.scalar:
        return None
    return Numbers(source.entries, not target.entries)


def _arithmetic(combine: Callable[[int, int], int | None], neutral: int | None) -> Callable[..., Numbers | None]:
    def rule(node: Node, data: ShapeData) -> Numbers | None:
        left, right = _input(node, data, 0), _input(node, data, 1)
        if left is None or right is None:
            return None
        count = max(len(left.entries), len(right.entries))
        if not {len(left.entries), len(right.entries)} <= {1, count}:
            return None
        entries: list[Dim] = []
        for index in range(count):
            a, b = (side.entries[index if len(side.entries) > 1 else 0] for side in (left, right))
            if isinstance(a, int) and isinstance(b, int):
                entries.append(combine(a, b))
            else:
                entries.append(a if b == neutral else None)  # the neutral number on the right leaves a name as it is
        return Numbers(tuple(entries), left.scalar and right.scalar)

    return rule


def _quotient(a: int, b: int) -> int | None:
    # Integer division truncates in ONNX; sizes are not negative, so anything else is left alone.
    return a // b if a >= 0 and b > 0 else None


_RULES: Mapping[str, Callable[[Node, ShapeData], Numbers | None]] = {
    "Add": _arithmetic(lambda a, b: a + b, 0),
    "Cast": _cast,
    "Concat": _concat,
    "Div": _arithmetic(_quotient, 1),
    "Gather": _gather,
    "Identity": _same,
    "Mul": _arithmetic(lambda a, b: a * b, 1),
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _arithmetic(lambda a, b: a - b, 0),
    "Unsqueeze": _unsqueeze,
}


def target_shape(node: Node, data: ShapeData) -> Shape | None:
    """The shape of the first output where it is spelled by an input that is known in part; None where it is not.

    For Reshape, Expand and ConstantOfShape; other operators are left to inference, with contents known in full.
    """
    if node.domain or node.op_type not in ("Reshape", "Expand", "ConstantOfShape"):
        return None
    target = _input(node, data, 0 if node.op_type == "ConstantOfShape" else 1)
    if target is None or target.scalar or any(isinstance(entry, int) and entry < -1 for entry in target.entries):
        return None
    source = _shape_of(node)
    found: Shape | None
    if node.op_type == "ConstantOfShape":
        found = target.entries if -1 not in target.entries else None
    elif source is None:
        return None
    else:
        found = (_reshaped if node.op_type == "Reshape" else _expanded)(node, source, target.entries)
    return None if found is None else tuple([_bounded(size) for size in found])


def _reshaped(node: Node, source: Shape, target: tuple[Dim, ...]) -> Shape | None:
    sizes: list[Dim] = []
    for position, entry in enumerate(target):
        if entry == 0 and not node.attributes.get("allowzero", 0):
            if position >= len(source):
                return None
            sizes.append(source[position])
        else:
            sizes.append(entry)
    if sizes.count(-1) != 1:
        return tuple(sizes) if -1 not in sizes else None
    place = sizes.index(-1)
    sizes[place] = _rest(source, [size for index, size in enumerate(sizes) if index != place])
    return tuple(sizes)


def _rest(source: Shape, others: list[Dim]) -> Dim:
    """The size that makes both sides hold as many elements; None where it cannot be told."""
    left = list(source)
    right: list[Dim] = []
    for size in others:
        if isinstance(size, str) and size in left:
            left.remove(size)  # a name on both sides cancels
        else:
            right.append(size)
    names = [size for size in left if not isinstance(size, int)]
    numbers = prod(size for size in left if isinstance(size, int))
    divisor = prod(size for size in right if isinstance(size, int))
    if any(not isinstance(size, int) for size in right) or divisor == 0 or numbers % divisor:
        return None
    if not names:
        return numbers // divisor
    return names[0] if len(names) == 1 and numbers == divisor else None


def _expanded(node: Node, source: Shape, target: tuple[Dim, ...]) -> Shape | None:
    rank = max(len(source), len(target))
    left: tuple[Dim, ...] = (1,) * (rank - len(source)) + source
    right: tuple[Dim, ...] = (1,) * (rank - len(target)) + target
    if -1 in right:
        return None
    return tuple([_broadcast(a, b) for a, b in zip(left, right, strict=True)])


def _broadcast(a: Dim, b: Dim) -> Dim:
    if b in (a, 1):
        return a
    if a == 1:
        return b
    sized = [size for size in (a, b) if isinstance(size, int)]
    return sized[0] if len(sized) == 1 else None
