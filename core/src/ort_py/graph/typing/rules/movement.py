"""Operators that move, join, cut and spread elements, and those that make the numbers for it."""

from __future__ import annotations

from math import prod

from ort_py.dtypes import DataType, Dim, Shape, TensorType, data_type_of
from ort_py.graph.typing.rules.question import (
    LARGEST,
    MOST_AXES,
    Answer,
    Question,
    Rule,
    Uncovered,
    agreed,
    axes_of,
    axis_of,
    broadcast,
    unknown_sizes,
)

_FIRST_RESHAPE_WITH_RANK = 14
"""Version of Reshape from which on the length of a computed target gives the number of axes."""


def _shape_of(question: Question) -> Answer:
    shape = question.shape(0)
    if shape is None:
        return [TensorType(DataType.INT64, (None,))]
    rank = len(shape)
    start, end = question.attributes.get("start", 0), question.attributes.get("end", rank)
    begin, stop = (min(max(one + rank if one < 0 else one, 0), rank) for one in (start, end))
    return [TensorType(DataType.INT64, (max(stop - begin, 0),))]


def _size(question: Question) -> Answer:
    question.tensor(0)
    return [TensorType(DataType.INT64, ())]


def _listed(question: Question, place: int) -> list[int] | int | None:
    """A list of numbers if it is known, else how many it has, or None."""
    numbers = question.numbers(place)
    shape = question.shape(place)
    if (shape is not None and len(shape) != 1) or len(numbers or ()) > MOST_AXES:
        raise Uncovered
    if numbers is not None or shape is None:
        return numbers
    return shape[0] if isinstance(shape[0], int) else None


def _reshape(question: Question) -> Answer:
    source = question.tensor(0)
    target = _listed(question, 1)
    if target is None or (isinstance(target, int) and question.version < _FIRST_RESHAPE_WITH_RANK):
        return [TensorType(source.data_type)]
    if isinstance(target, int):
        return [TensorType(source.data_type, unknown_sizes(target))]
    known = source.shape
    keeps = not question.flag("allowzero", default=False)
    sizes: list[Dim] = []
    unresolved: set[int] = set()
    made, is_known = 1, True
    for place, size in enumerate(target):
        if size == 0 and keeps:
            if known is None:
                sizes.append(None)
                unresolved.add(place)
                continue
            if place >= len(known):
                raise Uncovered
            kept = known[place]
            sizes.append(kept)
            if isinstance(kept, int):
                made *= kept
            else:
                unresolved.add(place)
        elif size == -1:
            sizes.append(-1)
        elif 0 <= size <= LARGEST:
            sizes.append(size)
            made *= size
        else:
            raise Uncovered
    if sizes.count(-1) > 1:
        raise Uncovered
    if -1 in sizes:
        if not made:
            raise Uncovered
        there = 1
        for place, given in enumerate(known or ()):
            if isinstance(given, int):
                there *= given
            elif place not in unresolved:
                is_known = False
        rest: Dim = None
        if is_known and known is not None:
            if there % made:
                raise Uncovered
            rest = there // made
        sizes[sizes.index(-1)] = rest
    return [TensorType(source.data_type, tuple(sizes))]


def _transpose(question: Question) -> Answer:
    source = question.tensor(0)
    if source.shape is None:
        return [source]
    rank = len(source.shape)
    order = question.integers("perm")
    if order is None:
        return [TensorType(source.data_type, source.shape[::-1])]
    if sorted(order) != list(range(rank)):
        raise Uncovered
    return [TensorType(source.data_type, tuple([source.shape[axis] for axis in order]))]


_FIRST_CONCAT_FROM_BEHIND = 11
"""Version of Concat from which on its axis may be counted from the last."""


def _concat(question: Question) -> Answer:
    if "axis" not in question.attributes:
        raise Uncovered
    data_type = question.tensor(0).data_type
    shapes = [question.shape(place) for place in range(len(question.types))]
    first = shapes[0]
    known = [shape for shape in shapes if shape is not None]
    if first is None or len(known) < len(shapes):
        return [TensorType(data_type)]
    rank = len(first)
    if any(len(shape) != rank for shape in known):
        raise Uncovered
    axis = axis_of(question.integer("axis", 0), rank)
    if question.version < _FIRST_CONCAT_FROM_BEHIND and question.integer("axis", 0) < 0:
        raise Uncovered
    sizes: list[Dim] = list(first)
    for shape in known[1:]:
        sizes = [agreed(one, other) if place != axis else one for place, (one, other) in enumerate(zip(sizes, shape))]  # noqa: B905 - of one rank
    along = [shape[axis] for shape in known]
    numbers = [size for size in along if isinstance(size, int)]
    sizes[axis] = sum(numbers) if len(numbers) == len(along) else None
    if len(known) == 1:
        sizes[axis] = along[0] if isinstance(along[0], int) else None
    return [TensorType(data_type, tuple(sizes))]


def _split(question: Question) -> Answer:
    source = question.tensor(0)
    if question.integer("num_outputs", question.count) != question.count:
        raise Uncovered
    if source.shape is None:
        return [TensorType(source.data_type)] * question.count
    axis = axis_of(question.integer("axis", 0), len(source.shape))
    size, count = source.shape[axis], question.count
    if question.version >= 13:
        parts = question.numbers(1) if question.is_given(1) else None
        if question.is_given(1) and parts is None:
            raise Uncovered
        if question.version >= 18 and question.is_given(1) == ("num_outputs" in question.attributes):
            raise Uncovered
    else:
        parts = question.integers("split")
    lengths: list[Dim]
    if parts is not None:
        if len(parts) != count or min(parts) < 0 or sum(parts) != size:
            raise Uncovered
        lengths = list(parts)
    elif not isinstance(size, int) or size <= 0:
        raise Uncovered
    elif size % count == 0:
        lengths = [size // count] * count
    else:
        raise Uncovered
    shapes = [(*source.shape[:axis], length, *source.shape[axis + 1 :]) for length in lengths]
    return [TensorType(source.data_type, shape) for shape in shapes]


def _slice(question: Question) -> Answer:
    source = question.tensor(0)
    if source.shape is None:
        return [TensorType(source.data_type)]
    rank = len(source.shape)
    lists = [question.numbers(place) if question.is_given(place) else [] for place in range(1, 5)]
    starts, ends, axes, steps = lists
    if starts is None or ends is None or axes is None or steps is None:
        if any(question.shape(place) is None for place in range(1, len(question.types)) if question.is_given(place)):
            raise Uncovered
        return [TensorType(source.data_type, unknown_sizes(rank))]
    if not question.is_given(3):
        axes = list(range(len(starts)))
    if not question.is_given(4):
        steps = [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Uncovered
    sizes = list(source.shape)
    for axis, start, end, step in zip(axes_of(axes, rank), starts, ends, steps, strict=True):
        size = sizes[axis]
        sizes[axis] = _cut(size, start, end, step) if isinstance(size, int) else None
    return [TensorType(source.data_type, tuple(sizes))]


def _cut(size: int, start: int, end: int, step: int) -> int:
    """Elements of an axis that a Slice keeps."""
    if size < 0:
        raise Uncovered
    begin, stop = (one + size if one < 0 else one for one in (start, end))
    if step > 0:
        begin, stop = min(max(begin, 0), size), min(max(stop, 0), size)
    else:
        begin, stop = min(max(begin, 0), size - 1), min(max(stop, -1), size - 1)
    return max(-((begin - stop) // step), 0)  # rounded up


def _axes_given(question: Question) -> list[int] | None:
    """Axes of a Squeeze or Unsqueeze, None where they are computed."""
    if question.version >= 13:
        return question.numbers(1)
    axes = question.integers("axes")
    if axes is None:
        raise Uncovered
    return axes


def _squeeze(question: Question) -> Answer:
    source = question.tensor(0)
    if question.version >= 13 and not question.is_given(1):
        raise Uncovered
    axes = _axes_given(question)
    if source.shape is None or axes is None:
        return [TensorType(source.data_type)]
    if not axes:
        raise Uncovered
    left = set(axes_of(axes, len(source.shape)))
    if any(isinstance(source.shape[axis], int) and source.shape[axis] != 1 for axis in left):
        raise Uncovered
    shape = tuple([size for axis, size in enumerate(source.shape) if axis not in left])
    return [TensorType(source.data_type, shape)]


def _unsqueeze(question: Question) -> Answer:
    source = question.tensor(0)
    axes = _axes_given(question)
    if source.shape is None or axes is None:
        return [TensorType(source.data_type)]
    rank = len(source.shape) + len(axes)
    added = set(axes_of(axes, rank))
    rest = iter(source.shape)
    shape = tuple([1 if axis in added else next(rest) for axis in range(rank)])
    return [TensorType(source.data_type, shape)]


def _expand(question: Question) -> Answer:
    source = question.tensor(0)
    target = _listed(question, 1)
    if isinstance(target, int) and question.version < 13:
        raise Uncovered
    if target is None or source.shape is None:
        return [TensorType(source.data_type)]
    wanted: Shape = unknown_sizes(target) if isinstance(target, int) else tuple(target)
    if any(isinstance(size, int) and not 0 <= size <= LARGEST for size in wanted):
        raise Uncovered
    return [TensorType(source.data_type, broadcast([source.shape, wanted]))]


def _tile(question: Question) -> Answer:
    source = question.tensor(0)
    repeats = question.numbers(1)
    if source.shape is None:
        return [TensorType(source.data_type)]
    if repeats is None or len(repeats) != len(source.shape) or min(repeats, default=0) < 0:
        raise Uncovered
    sizes: list[Dim] = [
        size * count if isinstance(size, int) else None for size, count in zip(source.shape, repeats, strict=True)
    ]
    return [TensorType(source.data_type, tuple(sizes))]


def _pad(question: Question) -> Answer:
    source = question.tensor(0)
    if source.shape is None:
        return [TensorType(source.data_type)]
    rank = len(source.shape)
    if question.version >= 11:
        pads = question.numbers(1)
        if question.is_given(3):
            raise Uncovered
    else:
        pads = question.integers("pads")
        if pads is None:
            raise Uncovered
    if pads is None:
        return [TensorType(source.data_type, unknown_sizes(rank))]
    if len(pads) != 2 * rank or any(abs(one) > LARGEST for one in pads):
        raise Uncovered
    sizes: list[Dim] = []
    for size, before, after in zip(source.shape, pads[:rank], pads[rank:], strict=True):
        if isinstance(size, int):
            sizes.append(size + before + after)
            if size + before + after < 0:
                raise Uncovered
        else:
            sizes.append(size if before + after == 0 else None)
    return [TensorType(source.data_type, tuple(sizes))]


def _flatten(question: Question) -> Answer:
    source = question.tensor(0)
    if source.shape is None:
        return [TensorType(source.data_type)]
    rank, axis = len(source.shape), question.integer("axis", 1)
    if not -rank <= axis <= rank:
        raise Uncovered
    axis += rank if axis < 0 else 0
    return [TensorType(source.data_type, (_product(source.shape[:axis]), _product(source.shape[axis:])))]


def _product(sizes: Shape) -> Dim:
    if len(sizes) == 1:
        return sizes[0]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes):
        named = [size for size in sizes if not isinstance(size, int)]
        if len(named) == 1 and prod(numbers) == 1:
            raise Uncovered
        return None
    return prod(numbers)


def _gather(question: Question) -> Answer:
    data, indices = question.tensor(0), question.shape(1)
    if data.shape is None or indices is None:
        return [TensorType(data.data_type)]
    axis = axis_of(question.integer("axis", 0), len(data.shape))
    return [TensorType(data.data_type, data.shape[:axis] + indices + data.shape[axis + 1 :])]


def _gather_elements(question: Question) -> Answer:
    return [TensorType(question.tensor(0).data_type, question.shape(1))]


def _constant_of_shape(question: Question) -> Answer:
    content = question.attributes.get("value")
    data_type = DataType.FLOAT if content is None else data_type_of(content.dtype)
    target = _listed(question, 0)
    if target is None:
        return [TensorType(data_type)]
    if isinstance(target, int):
        return [TensorType(data_type, unknown_sizes(target))]
    if any(not 0 <= size <= LARGEST for size in target):
        raise Uncovered
    return [TensorType(data_type, tuple(target))]


def _range(question: Question) -> Answer:
    data_type = question.tensor(0).data_type
    bounds = [question.values(place) for place in range(3)]
    if any(one is not None for one in bounds):
        if any(one is None for one in bounds):
            return [TensorType(data_type, (None,))]
        raise Uncovered
    return [TensorType(data_type, (None,))]


def _depth_to_space(question: Question) -> Answer:
    source, block = question.tensor(0), question.integer("blocksize", 0)
    if source.shape is None or len(source.shape) != 4 or block < 1:
        raise Uncovered
    if any(not isinstance(size, int) for size in source.shape):
        raise Uncovered
    batch, channels, height, width = source.shape
    assert isinstance(channels, int) and isinstance(height, int) and isinstance(width, int)  # noqa: PT018 - all are
    if question.op_type == "DepthToSpace":
        if channels % block**2:
            raise Uncovered
        return [TensorType(source.data_type, (batch, channels // block**2, height * block, width * block))]
    if height % block or width % block:
        raise Uncovered
    return [TensorType(source.data_type, (batch, channels * block**2, height // block, width // block))]


RULES: dict[str, tuple[int, Rule]] = {
    "Shape": (1, _shape_of),
    "Size": (1, _size),
    "Reshape": (5, _reshape),
    "Transpose": (1, _transpose),
    "Concat": (4, _concat),
    "Split": (11, _split),
    "Slice": (10, _slice),
    "Squeeze": (11, _squeeze),
    "Unsqueeze": (11, _unsqueeze),
    "Expand": (8, _expand),
    "Tile": (6, _tile),
    "Pad": (2, _pad),
    "Flatten": (9, _flatten),
    "Gather": (1, _gather),
    "GatherElements": (11, _gather_elements),
    "ConstantOfShape": (9, _constant_of_shape),
    "Range": (11, _range),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), (1, _depth_to_space)),
}
"""The rule of each operator, and the version of its schema from which on it holds."""
