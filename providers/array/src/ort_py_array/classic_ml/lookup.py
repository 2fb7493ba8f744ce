"""LabelEncoder, CategoryMapper and OneHotEncoder: the position of each element in a table of keys.

Numbers are found all at once, by binary search in the sorted keys or in a table. Strings have no array form that
finds them, so they go through a dictionary, one look-up each. What is found are positions; values, defaults and columns
are arrays indexed by them. Labels are mostly strings, so the first two run on the host; so do categories of strings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE
from ort_py_array.classic_ml.declarations import NUMBERS, definition
from ort_py_array.key_places import place_finder

__all__ = ["KERNELS", "category_mapper", "label_encoder", "one_hot_encoder"]

_Find: TypeAlias = Callable[[Array], Array]
"""``f(x)``: the position of each element among the keys, -1 where it is none of them."""


def _is_text(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "OUST"


def _strings(values: Any) -> Array:
    found = np.empty(len(values), object)
    found[:] = list(values)
    return found


def _finder(xp: Any, keys: Array, *, last: bool) -> _Find:
    """A `_Find` for host keys.

    Args:
        xp: Array module of what is looked up.
        keys: One-dimensional: numbers, or strings in an object array. A key NaN is equal to every NaN.
        last: Whether of equal keys the last counts, else the first.
    """
    if _is_text(keys.dtype):
        listed = list(enumerate(keys.tolist()))
        table = {key: position for position, key in (listed if last else reversed(listed))}

        def find_text(x: Array) -> Array:
            positions = [table.get(text, -1) for text in x.reshape(-1).tolist()]
            return np.array(positions, np.intp).reshape(x.shape)

        return find_text
    ordered, first = np.unique(keys[::-1] if last else keys, return_index=True)
    if not ordered.size:
        return lambda x: xp.full(x.shape, -1, np.intp)
    chosen = (keys.size - 1 - first if last else first).astype(np.intp)
    device_keys, positions = xp.asarray(ordered), xp.asarray(chosen)
    has_nan = ordered.dtype.kind == "f" and bool(np.isnan(ordered[-1]))

    def find(x: Array) -> Array:
        flat = x.reshape(-1)
        place = xp.minimum(xp.searchsorted(device_keys, flat), ordered.size - 1)
        same = xp.take(device_keys, place) == flat
        if has_nan:
            same = same | xp.isnan(flat) & (place == ordered.size - 1)
        return xp.where(same, xp.take(positions, place), -1).reshape(x.shape)

    if ordered.dtype != np.int64:
        return find
    place_of, by_place = place_finder(xp, ordered), xp.asarray(np.append(chosen, -1))  # place -1 is the last entry

    def find_integers(x: Array) -> Array:
        return find(x) if x.dtype.kind == "f" else by_place.take(place_of(x.astype(xp.int64, copy=False)))

    return find_integers


def _mapped(find: _Find, values: Array, default: Any) -> KernelCallable:
    """``run(x)``: the value of each element's key, in the type of the values; a default where it has none."""
    padded = np.empty(values.size + 1, values.dtype)  # position -1 is the last entry
    padded[:-1] = values
    padded[-1] = default
    return lambda x: padded[find(x.reshape(-1))].reshape(x.shape)


def label_encoder(ctx: KernelContext) -> KernelCallable:
    """LabelEncoder 1, 2 and 4: each element's value in a table of keys; a default where it has none.

    Of equal keys, the last counts in versions 1 and 4 (4 says so), the first in 2, as in other runtimes. NaN is a key.
    """
    node = ctx.node
    attributes = node.attributes
    if node.since_version == 1:
        return _by_position(attributes)
    keys = _given(ctx, "keys")[0]
    values, kind = _given(ctx, "values")
    if keys.size != values.size:
        raise InvalidArgument(
            f"There are {keys.size} keys for {values.size} values.",
            where=node.location,
            fix="Give as many keys as values.",
        )
    mapped = _mapped(
        _finder(np, keys, last=node.since_version >= 4), values, _default(ctx, attributes, kind, values.dtype)
    )

    def run(x: Array) -> Array:
        if x.dtype != keys.dtype and not (_is_text(x.dtype) and _is_text(keys.dtype)):
            raise InvalidArgument(
                f"The input is {x.dtype}, and the keys are {keys.dtype}.",
                where=node.location,
                fix="Keys must have the type of the input: set the attribute 'keys_*' that fits it.",
            )
        return mapped(x)

    return run


def _by_position(attributes: Mapping[str, Any]) -> KernelCallable:
    """Version 1: between strings and their positions in one list."""
    classes = _strings(attributes.get("classes_strings", ()))
    positions = np.arange(classes.size)
    to_number = _mapped(_finder(np, classes, last=True), positions, attributes.get("default_int64", -1))
    to_text = _mapped(_finder(np, positions, last=True), classes, attributes.get("default_string", "_Unused"))
    return lambda x: to_number(x) if _is_text(x.dtype) else to_text(x)


def _given(ctx: KernelContext, side: str) -> tuple[Array, str]:
    """The one attribute ``<side>_*`` that is set, as a vector, and what its name ends with."""
    attributes = ctx.node.attributes
    kinds = [kind for kind in ("tensor", "strings", "int64s", "floats") if f"{side}_{kind}" in attributes]
    if len(kinds) != 1:
        raise InvalidArgument(
            f"LabelEncoder has {len(kinds) or 'no'} {side}.",
            where=ctx.node.location,
            fix=f"Set exactly one of {side}_tensor, {side}_strings, {side}_int64s and {side}_floats.",
        )
    kind, given = kinds[0], attributes[f"{side}_{kinds[0]}"]
    if kind == "tensor":
        return given.reshape(-1), kind
    if kind == "strings":
        return _strings(given), kind
    return np.array(list(given), np.int64 if kind == "int64s" else np.float32), kind


def _default(ctx: KernelContext, attributes: Mapping[str, Any], kind: str, dtype: np.dtype[Any]) -> Any:
    general: Any = "_Unused" if _is_text(dtype) else -0.0 if dtype.kind == "f" else -1
    if kind != "tensor":
        return attributes.get(f"default_{kind[:-1]}", general)
    given = attributes.get("default_tensor")
    if given is None:
        return general
    if given.size != 1 or given.dtype.kind != dtype.kind:
        raise InvalidArgument(
            f"default_tensor has {given.size} elements of {given.dtype}, and the values are {dtype}.",
            where=ctx.node.location,
            fix="Give one element of the values' type.",
        )
    return given.reshape(-1)[0]


def category_mapper(ctx: KernelContext) -> KernelCallable:
    """CategoryMapper 1: between strings and integers, by two parallel lists; the last of equals counts."""
    attributes = ctx.node.attributes
    strings = _strings(attributes.get("cats_strings", ()))
    numbers = np.array(list(attributes.get("cats_int64s", ())), np.int64)
    if strings.size != numbers.size:
        raise InvalidArgument(
            f"There are {strings.size} cats_strings for {numbers.size} cats_int64s.",
            where=ctx.node.location,
            fix="Give as many strings as integers.",
        )
    to_number = _mapped(_finder(np, strings, last=True), numbers, attributes.get("default_int64", -1))
    to_text = _mapped(_finder(np, numbers, last=True), strings, attributes.get("default_string", "_Unused"))
    return lambda x: to_number(x) if _is_text(x.dtype) else to_text(x)


def one_hot_encoder(ctx: KernelContext) -> KernelCallable:
    """OneHotEncoder 1: a new last axis of zeros with a one at each element's category; float32.

    Floating elements are cut to integers first, as the specification says; the last of equal categories counts. With
    ``zeros=0``, an element that is not a category is refused.
    """
    xp, node = ctx.xp, ctx.node
    texts, numbers = (node.attributes.get(name, ()) for name in ("cats_strings", "cats_int64s"))
    if bool(len(texts)) == bool(len(numbers)):
        raise InvalidArgument(
            f"There are {len(texts)} cats_strings and {len(numbers)} cats_int64s.",
            where=node.location,
            fix="Set exactly one of the two attributes.",
        )
    categories = _strings(texts) if len(texts) else np.array(list(numbers), np.int64)
    find = _finder(xp, categories, last=True)
    strict = not node.attributes.get("zeros", 1)
    count = categories.size

    def run(x: Array) -> Array:
        if _is_text(x.dtype) != _is_text(categories.dtype):
            raise InvalidArgument(
                f"The input is {x.dtype}, and the categories are {categories.dtype}.",
                where=node.location,
                fix="Strings need cats_strings, and numbers need cats_int64s.",
            )
        if x.size * count > LARGE:
            ctx.check_allocation((*x.shape, count), xp.float32)
        positions = find(_as_integers(xp, x) if x.dtype.kind == "f" else x)
        if strict and x.size and bool(xp.any(positions < 0).item()):
            raise InvalidArgument(
                "An element is none of the categories.",
                where=node.location,
                why="the attribute 'zeros' is 0, which allows no other",
                fix="Feed only known categories, or set zeros=1 to get a row of zeros for others.",
            )
        return xp.equal(xp.expand_dims(positions, -1), xp.arange(count)).astype(xp.float32)

    return run


def _as_integers(xp: Any, x: Array) -> Array:
    """Floating numbers without their fraction; they stay floating, so that no NaN or infinity becomes an integer."""
    return xp.trunc(x.astype(xp.float64))


_STRING = tensors(DataType.STRING)
_HOST = frozenset({0})

KERNELS: list[KernelDef] = [
    definition("LabelEncoder", label_encoder, until=4, host_inputs=_HOST, host_outputs=_HOST),
    definition("CategoryMapper", category_mapper, host_inputs=_HOST, host_outputs=_HOST),
    definition("OneHotEncoder", one_hot_encoder, types={"T": NUMBERS}),
    definition("OneHotEncoder", one_hot_encoder, types={"T": _STRING}, host_inputs=_HOST, host_outputs=_HOST),
]
