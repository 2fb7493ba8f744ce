"""Rows of operators that make tensors from shapes, numbers or nothing, or hand one on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.dtypes import data_type_of

from .row import Draw, Given, Row

__all__ = ["ROWS"]


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


def _trilu(d: Draw) -> Given:
    x = d.array(d.shape(2, least=1), special=False)
    k, upper = d.integer(-3, 3), d.flag()
    kept = np.triu(np.ones(x.shape[-2:], np.bool_), k) if upper else np.tril(np.ones(x.shape[-2:], np.bool_), k)
    made = x.copy()
    made[..., ~kept] = "" if x.dtype == object else np.zeros((), x.dtype)
    return Given([x, np.array(k, np.int64)], {"upper": upper}, [made])


def _eye_like(d: Draw) -> Given:
    x = d.array(d.shape(2, 2), special=False)
    k = d.integer(-3, 3)
    target = d.other("T2")
    attributes = {"k": k, "dtype": int(data_type_of(target))} if d.flag() else {"k": k}
    kind = target if "dtype" in attributes else x.dtype
    return Given([x], attributes, [np.eye(x.shape[0], x.shape[1], k).astype(kind)])


def _shape_of(d: Draw) -> Given:
    x = d.array(d.shape())
    if d.version < 15:
        return Given([x], {}, [_ints(*x.shape)])
    start, stop = d.integer(-5, 5), d.integer(-5, 5)
    return Given([x], {"start": start, "end": stop}, [_ints(*_clamped(x.shape, start, stop))])


def _clamped(shape: tuple[int, ...], start: int, stop: int) -> tuple[int, ...]:
    return shape[
        slice(*(min(max(place + len(shape) if place < 0 else place, 0), len(shape)) for place in (start, stop)))
    ]


def _constant_of_shape(d: Draw) -> Given:
    shape = d.shape()
    value = d.array((1,), special=False)
    return Given([_ints(*shape)], {"value": value}, [_filled(shape, value)])


def _filled(shape: tuple[int, ...], value: Any) -> Any:
    made = np.empty(shape, value.dtype)
    made[...] = value[0]
    return made


def _range(d: Draw) -> Given:
    start, delta = d.integer(-3, 3), d.integer(1, 3)
    limit = start + d.integer(-2, 6)
    values = [np.array(value).astype(d.dtype) for value in (start, limit, delta)]
    return Given(values, {}, [np.arange(start, limit, delta).astype(d.dtype)])


def _same(d: Draw) -> Given:
    x = d.array(d.shape())
    return Given([x], {}, [x])


def _size_of(d: Draw) -> Given:
    x = d.array(d.shape())
    return Given([x], {}, [np.array(x.size, np.int64)])


def _constant(d: Draw) -> Given:
    forms: list[Callable[[], tuple[str, Any, Any]]] = [lambda: _tensor_form(d)]
    if d.version >= 12:
        forms += [
            lambda: ("value_int", 7, np.array(7, np.int64)),
            lambda: ("value_ints", (1, 2), _ints(1, 2)),
            lambda: ("value_float", 0.5, np.array(0.5, np.float32)),
            lambda: ("value_floats", (0.5, 2.0), np.array([0.5, 2.0], np.float32)),
            lambda: ("value_string", "a", np.array("a", object)),
            lambda: ("value_strings", ("a", "b"), np.array(["a", "b"], object)),
        ]
    name, value, made = d.pick(forms)()
    return Given([], {name: value}, [made])


def _tensor_form(d: Draw) -> tuple[str, Any, Any]:
    value = d.array(d.shape())
    return "value", value, value


ROWS = [
    Row("Trilu", _trilu),
    Row("EyeLike", _eye_like, variable="T1"),
    Row("Shape", _shape_of),
    Row("Size", _size_of),
    Row("ConstantOfShape", _constant_of_shape, variable="T2"),
    Row("Range", _range),
    Row("Identity", _same, variable="T", until=13),
    Row("Identity", _same, variable="V", since=14),
    Row("Constant", _constant),
]
