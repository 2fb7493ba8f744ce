"""Forms that kernels make of constants and read in their place: weights shifted, widened or laid out again.

A form is held by the sessions that use it and found by the store, like the constants themselves. It does not depend on
kernels or devices: a form is what a function returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ort_py.light_tuple import NamedTuple


class PackedKey(NamedTuple):
    """The inputs that a packed form is made from.

    Attributes:
        form: Name of what was done, with everything this depends on.
    """

    form: str
    weights: tuple[str, ...]


class PackedForm:
    """One packed form.

    Attributes:
        value: Result of the kernel's function.
        nbytes: Bytes of memory of the arrays in it, each once; a view counts as what it is a view of, and not at all
            where that is one of the constants' own arrays.
    """

    __slots__ = ("__weakref__", "key", "nbytes", "value")

    def __init__(self, key: PackedKey, value: Any, shared: Sequence[Any]) -> None:
        self.key = key
        self.value = value
        owners = {id(owner): owner for owner in map(_owner, _arrays(value))}
        for array in shared:
            owners.pop(id(_owner(array)), None)
        self.nbytes = sum(int(owner.nbytes) for owner in owners.values())


class PackedFormCache(Protocol):
    """Packed forms that an earlier process made."""

    def find(self, key: PackedKey) -> Any | None:
        """The form, or None if it has to be made."""

    def note(self, form: PackedForm) -> None:
        """Take note of a form that was made, so that a later process finds it."""


def _arrays(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple | list):
            pending.extend(item)
        elif hasattr(item, "nbytes"):  # any module's arrays
            yield item


def _owner(array: Any) -> Any:
    """The array that owns the memory: the end of a chain of views."""
    while hasattr(base := getattr(array, "base", None), "nbytes"):
        array = base
    return array
