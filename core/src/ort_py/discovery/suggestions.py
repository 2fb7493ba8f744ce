"""\"Did you mean …?\": names close to one that nobody has.

Also finds a provider by the part of its name that people say: ``cuda`` or ``CUDA`` for ``CUDAExecutionProvider``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["close_names", "did_you_mean"]

_SUFFIX = "executionprovider"


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three of the known names, the closest first; case and the suffix ExecutionProvider do not count."""
    by_stem: dict[str, list[str]] = {}
    for candidate in known:
        by_stem.setdefault(_stem(candidate), []).append(candidate)
    return [full for stem in difflib.get_close_matches(_stem(name), by_stem, 3) for full in by_stem[stem]][:3]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``Did you mean 'a' or 'b'?``, or ``""`` where nothing is close."""
    close = close_names(name, known)
    return f"Did you mean {' or '.join(repr(candidate) for candidate in close)}?" if close else ""


def _stem(name: str) -> str:
    lower = name.lower().replace("_", "")
    return lower.removesuffix(_SUFFIX) or lower
