"""\"Did you mean …?\": names close to one that nobody has.

Also finds a provider by the part of its name that people say: ``cuda`` or ``CUDA`` for ``CUDAExecutionProvider``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = ["close_names", "did_you_mean"]

# All providers share a long ending, which would make any two of their names look alike.
_ENDING = re.compile(r"(exec.*|ep)$")


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three of the known names, the closest first; case, underscores and the common ending do not count."""
    by_stem: dict[str, list[str]] = {}
    by_whole: dict[str, list[str]] = {}
    for candidate in known:
        by_stem.setdefault(_stem(candidate), []).append(candidate)
        by_whole.setdefault(candidate.lower(), []).append(candidate)
    found = [full for stem in difflib.get_close_matches(_stem(name), by_stem, 3) for full in by_stem[stem]]
    if not found:  # the slip may be in the ending
        close = difflib.get_close_matches(name.lower(), by_whole, 3, cutoff=0.9)
        found = [full for whole in close for full in by_whole[whole]]
    return found[:3]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``Did you mean 'a' or 'b'?``, or ``""`` where nothing is close."""
    close = close_names(name, known)
    return f"Did you mean {' or '.join(repr(candidate) for candidate in close)}?" if close else ""


def _stem(name: str) -> str:
    lower = name.lower().replace("_", "")
    return _ENDING.sub("", lower) or lower
