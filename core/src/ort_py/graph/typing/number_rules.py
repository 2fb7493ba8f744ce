"""Effects of operators on the numbers that shapes are computed from: one function for each operator.

Used by `shape_data`, for nodes of a graph and for the records of a transform alike. A number that is not known may have
a name, that of a size: it is not negative, and equal to others of its name. It is independent of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np

from ort_py.dtypes import DataType, Dim, Shape
from ort_py.graph.typing.size_sums import added, taken_from
from ort_py.light_tuple import NamedTuple

LONGEST = 64
"""Entries of a vector that is followed; no shape is longer."""


class AnyNode(Protocol):
    """A node, or a record of one."""

    @property
    def op_type(self) -> str:
        """Operator."""

    @property
    def domain(self) -> str:
        """Domain of the node."""

    @property
    def inputs(self) -> Sequence[Any]:
        """Values it reads."""

    @property
    def outputs(self) -> Sequence[Any]:
        """Values it writes."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes the model sets."""


class Known(Protocol):
    """Known facts about values."""

    def of(self, value: Any) -> Numbers | None:
        """A value's content."""

    def shape(self, value: Any) -> Shape | None:
        """A value's shape."""


Rule: TypeAlias = Callable[[AnyNode, Known], "Numbers | None"]


class Numbers(NamedTuple):
    """Known facts about an integer tensor's content.

    Attributes:
        entries: Each a number, a symbolic size or a sum of some, or None where it is unknown.
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


def _shape_of(node: AnyNode, data: Known, position: int = 0) -> Shape | None:
    return data.shape(node.inputs[position]) if position < len(node.inputs) else None


def _input(node: AnyNode, data: Known, position: int) -> Numbers | None:
    return data.of(node.inputs[position]) if position < len(node.inputs) else None


def _shape(node: AnyNode, data: Known) -> Numbers | None:
    shape = _shape_of(node, data)
    if shape is None:
        return None
    return Numbers(shape[slice(node.attributes.get("start", 0), node.attributes.get("end"))], False)


def _size(node: AnyNode, data: Known) -> Numbers | None:
    shape = _shape_of(node, data)
    if shape is None:
        return None
    sizes = [size for size in shape if isinstance(size, int)]
    return Numbers((prod(sizes) if len(sizes) == len(shape) else None,), True)


def _same(node: AnyNode, data: Known) -> Numbers | None:
    return _input(node, data, 0)


def _cast(node: AnyNode, data: Known) -> Numbers | None:
    return _input(node, data, 0) if node.attributes.get("to") in (DataType.INT64, DataType.INT32) else None


def _gather(node: AnyNode, data: Known) -> Numbers | None:
    source, index = _input(node, data, 0), _input(node, data, 1)
    if source is None or index is None or source.scalar:
        return None
    picked: list[Dim] = []
    for entry in index.entries:
        if not isinstance(entry, int) or not -len(source.entries) <= entry < len(source.entries):
            return None
        picked.append(source.entries[entry])
    return Numbers(tuple(picked), index.scalar)


def _concat(node: AnyNode, data: Known) -> Numbers | None:
    if node.attributes.get("axis", 0) not in (0, -1):
        return None
    entries: list[Dim] = []
    for position in range(len(node.inputs)):
        part = _input(node, data, position)
        if part is None:
            shape = _shape_of(node, data, position)
            if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > LONGEST:
                return None
            entries.extend([None] * shape[0])
        else:
            entries.extend(part.entries)
        if len(entries) > LONGEST:
            return None
    return Numbers(tuple(entries), False)


def _slice(node: AnyNode, data: Known) -> Numbers | None:
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


def _unsqueeze(node: AnyNode, data: Known) -> Numbers | None:
    source = _input(node, data, 0)
    axes = node.attributes.get("axes", (0,))
    if len(axes) != 1 or axes[0] not in (0, -1):
        return None
    return Numbers(source.entries, False) if source is not None and source.scalar else None


def _squeeze(node: AnyNode, data: Known) -> Numbers | None:
    source = _input(node, data, 0)
    axes = node.attributes.get("axes", (0,))
    if len(axes) != 1 or axes[0] not in (0, -1):
        return None
    return Numbers(source.entries, True) if source is not None and len(source.entries) == 1 else None


def _reshape(node: AnyNode, data: Known) -> Numbers | None:
    source, target = _input(node, data, 0), _input(node, data, 1)
    if source is None or target is None or len(target.entries) > 1 or target.scalar:
        return None
    return Numbers(source.entries, not target.entries)


def _entrywise(combine: Callable[..., Dim]) -> Rule:
    """A rule that combines the entries of all inputs one by one, single ones with all others."""

    def rule(node: AnyNode, data: Known) -> Numbers | None:
        sides: list[Numbers] = []
        for position in range(len(node.inputs)):
            side = _input(node, data, position)
            if side is None:
                return None
            sides.append(side)
        count = next((len(side.entries) for side in sides if len(side.entries) != 1), 1)
        if not {len(side.entries) for side in sides} <= {1, count}:
            return None
        entries = [
            combine(*[side.entries[index if len(side.entries) > 1 else 0] for side in sides]) for index in range(count)
        ]
        return Numbers(tuple(entries), all(side.scalar for side in sides))

    return rule


def _arithmetic(combine: Callable[[int, int], int | None], neutral: int, *, both: bool = False) -> Rule:
    """Make a rule for arithmetic on numbers. A neutral number on the right, or on either side, leaves a symbolic size
    as it is.
    """

    def entry(a: Dim, b: Dim) -> Dim:
        if isinstance(a, int) and isinstance(b, int):
            return combine(a, b)
        if b == neutral:
            return a
        return b if both and a == neutral else None

    return _entrywise(entry)


def _sum(a: Dim, b: Dim) -> Dim:
    return a + b if isinstance(a, int) and isinstance(b, int) else added(a, b)


def _difference(a: Dim, b: Dim) -> Dim:
    return a - b if isinstance(a, int) and isinstance(b, int) else taken_from(a, b)


def _quotient(a: int, b: int) -> int | None:
    # Integer division truncates in ONNX; sizes are not negative, so anything else is left alone.
    return a // b if a >= 0 and b > 0 else None


def _equal(a: Dim, b: Dim) -> Dim:
    if a is None or b is None:
        return None
    if a == b:
        return 1
    return 0 if _differ(a, b) else None


def _differ(a: Dim, b: Dim) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a != b
    return any(isinstance(one, int) and one < 0 for one in (a, b))


def _ordered(holds: Callable[[int, int], bool]) -> Rule:
    def entry(a: Dim, b: Dim) -> Dim:
        if isinstance(a, int) and isinstance(b, int):
            return int(holds(a, b))
        # A size is more than any negative number, and equal to itself.
        if isinstance(a, str) and isinstance(b, int) and b < 0:
            return int(holds(1, 0))
        if isinstance(a, int) and a < 0 and isinstance(b, str):
            return int(holds(0, 1))
        return int(holds(0, 0)) if isinstance(a, str) and a == b else None

    return _entrywise(entry)


def _where(condition: Dim, a: Dim, b: Dim) -> Dim:
    if isinstance(condition, int):
        return a if condition else b
    return a if a == b else None


def _extreme(choose: Callable[[Sequence[int]], int], *, largest: bool) -> Rule:
    def entry(*sides: Dim) -> Dim:
        names = {side for side in sides if not isinstance(side, int)}
        numbers = [side for side in sides if isinstance(side, int)]
        if not names:
            return choose(numbers)
        if len(names) > 1 or None in names:
            return None
        # The size itself, or a number that no size is below.
        if all(number <= 0 for number in numbers):
            return next(iter(names)) if largest or not numbers else choose(numbers)
        return None

    return _entrywise(entry)


def _logical(combine: Callable[..., int]) -> Rule:
    return _entrywise(lambda *sides: combine(*sides) if all(isinstance(side, int) for side in sides) else None)


def _filled(node: AnyNode, data: Known) -> Numbers | None:
    target = _input(node, data, 0)
    array = node.attributes.get("value")
    if target is None or target.scalar or len(target.entries) > 1 or array is None:
        return None
    if np.asarray(array).dtype.kind not in "ib":
        return None
    count = target.entries[0] if target.entries else 1
    if not isinstance(count, int) or not 0 <= count <= LONGEST:
        return None
    return Numbers((int(np.reshape(array, (-1,))[0]),) * count, not target.entries)


def _range(node: AnyNode, data: Known) -> Numbers | None:
    bounds: list[int] = []
    for position in range(3):
        found = _input(node, data, position)
        if found is None or len(found.entries) != 1 or not isinstance(found.entries[0], int):
            return None
        bounds.append(found.entries[0])
    if bounds[2] == 0 or len(range(*bounds)) > LONGEST:
        return None
    return Numbers(tuple(range(*bounds)), False)


def _expand(node: AnyNode, data: Known) -> Numbers | None:
    source, target = _input(node, data, 0), _input(node, data, 1)
    if source is None or target is None or target.scalar or len(target.entries) != 1:
        return None
    count = target.entries[0]
    if count == 1:
        return Numbers(source.entries, False)
    if len(source.entries) != 1 or not isinstance(count, int) or not 0 <= count <= LONGEST:
        return None
    return Numbers(source.entries * count, False)


def _tile(node: AnyNode, data: Known) -> Numbers | None:
    source, repeats = _input(node, data, 0), _input(node, data, 1)
    if source is None or repeats is None or source.scalar or repeats.scalar or len(node.inputs) != 2:
        return None
    if len(repeats.entries) != 1:
        return None
    count = repeats.entries[0]
    if not isinstance(count, int) or not 0 <= count * len(source.entries) <= LONGEST:
        return None
    return Numbers(source.entries * count, False)


def _product(node: AnyNode, data: Known) -> Numbers | None:
    source = _input(node, data, 0)
    if (
        source is None
        or source.scalar
        or len(node.inputs) > 1
        or node.attributes.get("axes", (0,)) not in ((0,), (-1,))
    ):
        return None
    if node.attributes.get("noop_with_empty_axes", 0) and "axes" not in node.attributes:
        return source
    numbers = [entry for entry in source.entries if isinstance(entry, int)]
    whole = prod(numbers) if len(numbers) == len(source.entries) else None
    return Numbers((whole,), node.attributes.get("keepdims", 1) != 1)


RULES: Mapping[str, Rule] = {
    "Add": _entrywise(_sum),
    "And": _logical(lambda a, b: int(a and b)),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Div": _arithmetic(_quotient, 1),
    "Equal": _entrywise(_equal),
    "Expand": _expand,
    "Gather": _gather,
    "Greater": _ordered(lambda a, b: a > b),
    "GreaterOrEqual": _ordered(lambda a, b: a >= b),
    "Identity": _same,
    "Less": _ordered(lambda a, b: a < b),
    "LessOrEqual": _ordered(lambda a, b: a <= b),
    "Max": _extreme(max, largest=True),
    "Min": _extreme(min, largest=False),
    "Mul": _arithmetic(lambda a, b: a * b, 1, both=True),
    "Neg": _entrywise(lambda a: -a if isinstance(a, int) else None),
    "Not": _logical(lambda a: int(not a)),
    "Or": _logical(lambda a, b: int(a or b)),
    "Range": _range,
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _entrywise(_difference),
    "Tile": _tile,
    "Unsqueeze": _unsqueeze,
    "Where": _entrywise(_where),
}
"""Rules of operators with one output."""
