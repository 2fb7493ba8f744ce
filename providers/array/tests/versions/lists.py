"""Rows of operators on sequences and optionals: Python's lists and NumPy's split and join say what is expected."""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.dtypes import TensorType, data_type_of

from .row import Draw, Given, Row

__all__ = ["ROWS"]


def _items(d: Draw, low: int = 0) -> list[Any]:
    return [d.array(d.shape()) for _ in range(d.integer(low, 3))]


def _position(d: Draw, low: int, high: int) -> Any:
    return np.array(d.integer(low, high), d.other("I"))


def _construct(d: Draw) -> Given:
    items = _items(d, 1)
    return Given(items, {}, [items])


def _empty(d: Draw) -> Given:
    return Given([], {"dtype": int(data_type_of(d.dtype))}, [[]])


def _length(d: Draw) -> Given:
    items = _items(d)
    return Given([items], {}, [np.array(len(items), np.int64)])


def _at(d: Draw) -> Given:
    items = _items(d, 1)
    position = _position(d, -len(items), len(items) - 1)
    return Given([items, position], {}, [items[int(position)]])


def _erase(d: Draw) -> Given:
    items = _items(d, 1)
    rest = items.copy()
    if d.flag():
        del rest[-1]
        return Given([items], {}, [rest])
    position = _position(d, -len(items), len(items) - 1)
    del rest[int(position)]
    return Given([items, position], {}, [rest])


def _insert(d: Draw) -> Given:
    items, new = _items(d), d.array(d.shape())
    if d.flag():
        return Given([items, new], {}, [[*items, new]])
    position = _position(d, -len(items), len(items))
    result = items.copy()
    result.insert(int(position), new)
    return Given([items, new, position], {}, [result])


def _split(d: Draw) -> Given:
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    x, size = d.array(shape), shape[axis]
    attributes = {"axis": axis, "keepdims": d.flag()}
    form = d.pick(["none", "scalar", "vector"])
    if form == "none":
        parts = [np.take(x, [index] if attributes["keepdims"] else index, axis=axis) for index in range(size)]
        return Given([x], attributes, [[np.asarray(part) for part in parts]])
    if form == "scalar":
        step = d.integer(1, 5)
        parts = [np.take(x, range(start, min(start + step, size)), axis=axis) for start in range(0, size, step)]
        return Given([x, np.array(step, d.other("I"))], attributes, [parts])
    first = d.integer(0, size)
    sizes = [first, 0, size - first]
    return Given([x, np.array(sizes, d.other("I"))], attributes, [np.split(x, np.cumsum(sizes)[:-1], axis=axis)])


def _join(d: Draw) -> Given:
    new_axis = d.flag()
    shape = list(d.shape(0 if new_axis else 1, 3))
    axis = d.axis(len(shape) + new_axis)
    items = []
    for _ in range(d.integer(1, 3)):
        if not new_axis:
            shape[axis] = d.integer(0, 3)
        items.append(d.array(shape))
    joined = np.stack(items, axis) if new_axis else np.concatenate(items, axis)
    return Given([items], {"axis": axis, "new_axis": new_axis}, [joined])


def _value(d: Draw) -> Any:
    return _items(d, 1) if d.flag() else d.array(d.shape())


def _optional(d: Draw) -> Given:
    if d.flag():
        return Given([], {"type": TensorType(data_type_of(d.dtype))}, [None])
    value = _value(d)
    return Given([value], {}, [value])


def _has_element(d: Draw) -> Given:
    value = None if d.flag() else _value(d)
    return Given([value], {}, [np.array(value is not None)])


def _get_element(d: Draw) -> Given:
    value = _value(d)
    return Given([value], {}, [value])


ROWS = [
    Row("SequenceConstruct", _construct),
    Row("SequenceEmpty", _empty, variable="S"),
    Row("SequenceLength", _length, variable="S"),
    Row("SequenceAt", _at),
    Row("SequenceErase", _erase, variable="S"),
    Row("SequenceInsert", _insert),
    Row("SplitToSequence", _split),
    Row("ConcatFromSequence", _join),
    Row("Optional", _optional, variable="V"),
    Row("OptionalHasElement", _has_element, variable="O"),
    Row("OptionalGetElement", _get_element, variable="V"),
]
