"""\"Did you mean …?\" for providers and their options.

Finds a provider by the part of its name that people say: ``cuda`` or ``CUDA`` for ``CUDAExecutionProvider``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ort_py import suggestions

MOST = 3

# All providers share a long ending, which would make any two of their names look alike.
_ENDING = r"(exec.*|ep)$"


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three of the known names, the closest first; case, underscores and the common ending do not count."""
    known = list(known)
    found = suggestions.close_names(name, known, fold=_stem, most=MOST)
    # The slip may be in the ending.
    return found or suggestions.close_names(name, known, most=MOST, cutoff=0.9)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``Did you mean 'a' or 'b'?``, or ``""`` where nothing is close."""
    return suggestions.question(close_names(name, known))


def _stem(name: str) -> str:
    lower = name.lower().replace("_", "")
    return re.sub(_ENDING, "", lower) or lower
