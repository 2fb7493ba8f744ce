"""Places of integers in a sorted list of keys: a table where the keys lie close together, else binary search.

Used by label encoders and n-gram tables. It does not depend on operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np  # tables are made on the host, when a node is bound

from ort_py.contracts.graph_view import Array

__all__ = ["Finder", "place_finder"]

Finder: TypeAlias = Callable[[Array], Array]
"""``f(keys)``: the place of each among the sorted keys it was made for, -1 where it is none of them; int64."""

_DIRECT = 1 << 18
"""Keys that lie this close together are found in a table with a place for each number between them."""


def place_finder(xp: Any, keys: Array) -> Finder:
    """The `Finder` of sorted, different int64 keys on the host: by a table where they are close, else by search."""
    if not keys.size:
        return lambda sought: xp.full(sought.shape, -1, xp.int64)
    low, span = int(keys[0]), int(keys[-1]) - int(keys[0]) + 1
    if span > _DIRECT:
        ordered, last = xp.asarray(keys), keys.size - 1

        def search(sought: Array) -> Array:
            at = xp.minimum(xp.searchsorted(ordered, sought), last)
            return xp.where(ordered.take(at) == sought, at, -1)

        return search
    places = np.full(span + 2, -1, np.int64)  # one place more at either end, for what lies outside
    places[keys - low + 1] = np.arange(keys.size)
    direct = xp.asarray(places)
    # A difference that int64 cannot hold comes out beyond one of the ends, too.
    return lambda sought: direct.take(xp.clip(sought - low, -1, span) + 1)
