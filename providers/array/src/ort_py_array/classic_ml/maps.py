"""ZipMap, CastMap and DictVectorizer: between tensors and dictionaries. Host only: maps exist nowhere else.

In a slot a map is a Python dictionary, so each row of ZipMap's input becomes one: a loop over rows that its result asks
for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE
from ort_py_array.classic_ml.declarations import definition

__all__ = ["KERNELS", "cast_map", "dict_vectorizer", "zip_map"]

_MAP_BYTES, _ENTRY_BYTES = 160, 64
"""Least bytes that a dictionary takes, and each of its entries with its number."""

_ENTRIES = 1 << 16
"""Entries that are made between two looks at the clock."""


def zip_map(ctx: KernelContext) -> KernelCallable:
    """ZipMap 1: ``(n, classes)`` → a list of n dictionaries from label to float, sorted by label."""
    node = ctx.node
    given = [list(node.attributes.get(name, ())) for name in ("classlabels_strings", "classlabels_int64s")]
    if bool(given[0]) == bool(given[1]):
        raise InvalidArgument(
            f"There are {len(given[0])} string labels and {len(given[1])} integer labels.",
            where=node.location,
            fix="Set exactly one of classlabels_strings and classlabels_int64s.",
        )
    labels: list[Any] = given[0] or given[1]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    ordered = [labels[i] for i in order]

    def run(x: Array) -> list[dict[Any, float]]:
        rows = x.reshape((1, -1)) if x.ndim == 1 else x
        if rows.ndim != 2 or rows.shape[1] != len(labels):
            raise InvalidArgument(
                f"The input has shape {list(x.shape)}, but there are {len(labels)} class labels.",
                where=node.location,
                fix="Feed one column for each class label.",
            )
        if x.size > LARGE:
            ctx.check_allocation((len(rows), _MAP_BYTES + len(labels) * _ENTRY_BYTES), np.uint8)
        maps: list[dict[Any, float]] = []
        step = max(1, _ENTRIES // len(labels))
        for start in range(0, len(rows), step):
            ctx.check_time()
            part = rows[start : start + step, order].tolist()
            maps += [dict(zip(ordered, row, strict=True)) for row in part]
        return maps

    return run


def _float_text(value: Any) -> str:
    return value if isinstance(value, str) else f"{float(np.float32(value)):f}"


_CASTS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "TO_FLOAT": (float, np.float32, 0.0),
    "TO_INT64": (int, np.int64, 0),
    "TO_STRING": (_float_text, object, "0.f"),
}
"""Conversion of one value, element type, and what a sparse tensor holds elsewhere.

Numbers are written with six decimals, and "0.f" stands where there are none: only onnxruntime says."""


def cast_map(ctx: KernelContext) -> KernelCallable:
    """CastMap 1: the values of a map in the order of their keys, ``(1, n)``; SPARSE puts each at its key."""
    node = ctx.node
    attributes = node.attributes
    target, form, size = attributes.get("cast_to", "TO_FLOAT"), attributes.get("map_form", "DENSE"), 0
    if target not in _CASTS:
        raise InvalidArgument(
            f"cast_to is '{target}'.", where=node.location, fix="Use TO_FLOAT, TO_STRING or TO_INT64."
        )
    if form not in ("DENSE", "SPARSE"):
        raise InvalidArgument(f"map_form is '{form}'.", where=node.location, fix="Use DENSE or SPARSE.")
    if form == "SPARSE":
        size = attributes.get("max_map", 1)
        if size < 1:
            raise InvalidArgument(f"max_map is {size}.", where=node.location, fix="It must be at least 1.")
    convert, dtype, fill = _CASTS[target]

    def run(x: Mapping[int, Any]) -> Array:
        keys = sorted(x)
        if size:
            if size > LARGE:
                ctx.check_allocation((1, size), np.dtype(dtype))
            if keys and not 0 <= keys[0] <= keys[-1] < size:
                raise InvalidArgument(
                    f"The map's keys go from {keys[0]} to {keys[-1]}, and max_map is {size}.",
                    where=node.location,
                    fix=f"Keys must be in [0, {size - 1}].",
                )
        try:
            values = [convert(x[key]) for key in keys]
        except (ValueError, OverflowError) as error:
            raise InvalidArgument(
                f"A value of the map cannot be cast: {error}.", where=node.location, fix="Feed strings of numbers."
            ) from error
        y = np.full((1, size or len(keys)), fill, dtype)
        y[0, keys if size else slice(None)] = values
        return y

    return run


_DEFAULTS: dict[str, tuple[Any, Any]] = {
    "int64": (np.int64, 0),
    "float": (np.float32, 0.0),
    "double": (np.float64, 0.0),
    "string": (object, ""),
}
"""Element type and value of absent keys, by the map's value type."""


def dict_vectorizer(ctx: KernelContext) -> KernelCallable:
    """DictVectorizer 1: a map's values at their keys' places in the vocabulary, zeros elsewhere; ``(1, n)``.

    The specification has a vector, onnxruntime a matrix of one row, and exporters, scikit-learn's among them, were made
    for that: what follows is a Gemm or a Concat of columns. So it is ``(n,)`` only where the model declares one axis.
    Keys outside the vocabulary, which the specification excludes, are passed over as in onnxruntime and scikit-learn.
    """
    node = ctx.node
    given = [list(node.attributes.get(name, ())) for name in ("string_vocabulary", "int64_vocabulary")]
    if bool(given[0]) == bool(given[1]):
        raise InvalidArgument(
            f"There are {len(given[0])} strings and {len(given[1])} integers in the vocabulary.",
            where=node.location,
            fix="Set exactly one of string_vocabulary and int64_vocabulary.",
        )
    words: list[Any] = given[0] or given[1]
    by_word = bool(given[0])
    places = {key: place for place, key in enumerate(words)}
    declared = node.outputs[0].shape if node.outputs[0] is not None else None
    axes = () if declared is not None and len(declared) == 1 else (1,)
    bound = node.type_bindings.get("T1", "")
    kind = bound.removesuffix(")").removesuffix(")").rpartition("(")[2].rpartition(",")[2].strip()

    def run(x: Mapping[Any, Any]) -> Array:
        dtype, fill = _DEFAULTS[kind or _kind_of(x)]
        y = np.full(len(words), fill, dtype)
        if any(isinstance(key, str) != by_word for key in x):
            raise InvalidArgument(
                f"The map has keys that are {'not strings' if by_word else 'not integers'}.",
                where=node.location,
                why=f"the vocabulary has {'strings' if by_word else 'integers'}",
                fix="Feed a map with keys of the vocabulary's type.",
            )
        known = [(places[key], value) for key, value in x.items() if key in places]
        y[[place for place, _ in known]] = [value for _, value in known]
        return y.reshape(axes + y.shape)

    return run


def _kind_of(x: Mapping[Any, Any]) -> str:
    """The value type of a map where the model does not say."""
    value = next(iter(x.values()), 0.0)
    return "string" if isinstance(value, str) else "int64" if isinstance(value, int | np.integer) else "float"


_HOST = frozenset({0})

KERNELS: list[KernelDef] = [
    definition(name, factory, host_inputs=_HOST, host_outputs=_HOST)
    for name, factory in (("ZipMap", zip_map), ("CastMap", cast_map), ("DictVectorizer", dict_vectorizer))
]
