"""Numbers that shapes are computed from, followed through a model: Shape → Gather → Concat → Reshape.

Used by `shapes` after `inference`, which does not follow them: onnx's own data propagation keeps an entry for every
element of every one-dimensional tensor, which a model of a hundred bytes can make two billions. Here a value is
followed only where it is an integer scalar or a short vector. Symbolic sizes are followed as names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from math import prod
from typing import Any

from ort_py.dtypes import DataType, Dim, Shape, TensorType
from ort_py.graph.typing.number_rules import LONGEST, RULES, AnyNode, Numbers
from ort_py.graph.typing.size_sums import SizeSum, in_types, parts_of, taken_from
from ort_py.graph.typing.type_merge import is_made_up

__all__ = ["Numbers", "ShapeData", "followed", "target_shape"]

_LARGEST = 2**62
"""Numbers beyond are not followed: they are not sizes, and sums of them would leave 64 bits."""


_LARGEST_INT32 = 2**31 - 1

_FOLLOWED = (DataType.INT64, DataType.INT32, DataType.BOOL)

_REAL = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)


class ShapeData:
    """Contents followed so far. Nodes are shown to it in topological order."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Numbers | None] = {}

    def of(self, value: Any) -> Numbers | None:
        """Known facts about a value's content, or None."""
        if value is None:
            return None
        key = self.key(value)
        if key not in self._known:
            self._known[key] = self._constant(value)
        return self._known[key]

    def shape(self, value: Any) -> Shape | None:
        """A value's shape as far as it is known."""
        return value.type.shape if value is not None and isinstance(value.type, TensorType) else None

    def is_open(self, size: Dim) -> bool:
        """Return whether a size may be any other one: neither a number nor a name of the model's says what it is."""
        return size is None or (isinstance(size, str) and is_made_up(size))

    def follow(self, node: AnyNode) -> None:
        """Note the content of a node's output, if the operator is one that shapes are computed with."""
        rule = RULES.get(node.op_type)
        if rule is None or node.domain or len(node.outputs) != 1 or node.outputs[0] is None:
            return
        result = node.outputs[0]
        typed = result.type if isinstance(result.type, TensorType) else None
        if typed is not None and (typed.data_type in _REAL or (typed.shape is not None and len(typed.shape) > 1)):
            return  # no list of numbers: most nodes
        found = rule(node, self)
        if found is not None and len(found.entries) <= LONGEST:
            narrow = typed is not None and typed.data_type is DataType.INT32
            entries = [_bounded(entry, _LARGEST_INT32 if narrow else _LARGEST) for entry in found.entries]
            self._known[self.key(result)] = Numbers(tuple(entries), found.scalar)

    def key(self, value: Any) -> Hashable:
        """The key of a value: the value itself in a graph."""
        same: Hashable = value
        return same

    def array(self, value: Any) -> Any | None:
        """A constant's content, where it is short enough and of a type that is followed."""
        weight = value.weight
        if weight is None or not value.constant or not followed(weight.data_type, weight.shape):
            return None
        return weight.array()

    def _constant(self, value: Any) -> Numbers | None:
        array = self.array(value)
        if array is None:
            return None
        return Numbers(tuple(int(number) for number in array.reshape(-1)), not array.shape)


def followed(data_type: DataType | None, shape: Shape | None) -> bool:
    """Return whether a constant of this type may be a number that shapes are computed from."""
    if data_type not in _FOLLOWED or shape is None or len(shape) > 1:
        return False
    sizes = [size for size in shape if isinstance(size, int)]
    return len(sizes) == len(shape) and prod(sizes) <= LONGEST


def _bounded(entry: Dim, largest: int = _LARGEST) -> Dim:
    if isinstance(entry, SizeSum) and largest < _LARGEST:
        return None  # sizes fit, but their sum may wrap around
    return None if isinstance(entry, int) and abs(entry) > largest else entry


def target_shape(node: AnyNode, data: ShapeData) -> Shape | None:
    """The shape of the first output if partly known inputs spell it, else None.

    For Reshape, Expand, ConstantOfShape, Range and Tile; other operators are left to inference, with contents known
    in full.
    """
    rule = _TARGETS.get(node.op_type)
    if rule is None or node.domain:
        return None
    found = rule(node, data)
    return None if found is None else tuple([in_types(_bounded(size)) for size in found])


def _spelled(node: AnyNode, data: ShapeData, position: int) -> tuple[Dim, ...] | None:
    """The entries of an input that spells a shape. None if nothing is known about it, or it cannot be a shape."""
    target = data.of(node.inputs[position]) if position < len(node.inputs) else None
    if target is None or target.scalar or any(isinstance(entry, int) and entry < -1 for entry in target.entries):
        return None
    return target.entries


def _filled(node: AnyNode, data: ShapeData) -> Shape | None:
    target = _spelled(node, data, 0)
    return None if target is None or -1 in target else target


def _ranged(node: AnyNode, data: ShapeData) -> Shape | None:
    """Infer the length of Range with step 1 that starts at 0, or at a summand of its limit."""
    bounds = [data.of(value) for value in node.inputs]
    entries = [one.entries[0] for one in bounds if one is not None and len(one.entries) == 1]
    if len(entries) != 3 or entries[2] != 1:
        return None
    start, end, _ = entries
    if isinstance(start, int) and isinstance(end, int):
        return (max(end - start, 0),)
    left = taken_from(end, start)
    return None if left is None else (left,)


def _tiled(node: AnyNode, data: ShapeData) -> Shape | None:
    repeats = _spelled(node, data, 1)
    source = data.shape(node.inputs[0]) if node.inputs else None
    # The first revision repeats one axis, and has its number as a third input.
    if repeats is None or source is None or len(node.inputs) != 2 or len(source) != len(repeats) or -1 in repeats:
        return None
    return tuple([_times(size, count) for size, count in zip(source, repeats, strict=True)])


def _times(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 0 in (a, b):
        return 0
    return b if a == 1 else a if b == 1 else None


def _reshaped(node: AnyNode, data: ShapeData) -> Shape | None:
    target = _spelled(node, data, 1)
    source = data.shape(node.inputs[0])
    if target is None or source is None:
        return None
    sizes: list[Dim] = []
    for position, entry in enumerate(target):
        if entry == 0 and not node.attributes.get("allowzero", 0):
            if position >= len(source):
                return None
            sizes.append(source[position])
        elif isinstance(entry, str) and not node.attributes.get("allowzero", 0) and _is_foreign(entry, source, data):
            sizes.append(None)
        else:
            sizes.append(entry)
    if sizes.count(-1) != 1:
        return tuple(sizes) if -1 not in sizes else None
    place = sizes.index(-1)
    sizes[place] = _rest(source, [size for index, size in enumerate(sizes) if index != place])
    return tuple(sizes)


def _is_foreign(name: str, source: Shape, data: ShapeData) -> bool:
    """Return whether a size of the target may be 0, which keeps the source's size at its place, for a source that has
    elements. All of its sizes are known by number or by a name of the model's, and this is none of them.
    """
    return not any(data.is_open(size) for size in source) and not any(part in source for part in parts_of(name))


def _rest(source: Shape, others: list[Dim]) -> Dim:
    """The size that makes both sides hold as many elements, or None if it cannot be computed."""
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


def _expanded(node: AnyNode, data: ShapeData) -> Shape | None:
    target = _spelled(node, data, 1)
    source = data.shape(node.inputs[0])
    if target is None or source is None:
        return None
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


_TARGETS: Mapping[str, Callable[[AnyNode, ShapeData], Shape | None]] = {
    "ConstantOfShape": _filled,
    "Expand": _expanded,
    "Range": _ranged,
    "Reshape": _reshaped,
    "Tile": _tiled,
}
