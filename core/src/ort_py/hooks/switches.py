"""Environment switches by which an operator keeps plug-ins out of a process.

``ORT_PY_BLOCK_PROVIDERS`` names providers, plug-ins or distributions that must not be loaded; where
``ORT_PY_ALLOW_PROVIDERS`` is set, providers it does not name are not loaded. Both are comma-separated; a name is a
provider's, a distribution's, or ``distribution:Name``. What is blocked is not even imported.

Read again on each question, never at import. It is independent of records or sessions.
"""

from __future__ import annotations

import os

from ort_py.installed import normalise_distribution

__all__ = ["ALLOW", "BLOCK", "blocked_reason", "normalise_distribution"]

BLOCK = "ORT_PY_BLOCK_PROVIDERS"
ALLOW = "ORT_PY_ALLOW_PROVIDERS"


def blocked_reason(name: str, distribution: str, *, provider: bool = True) -> str:
    """Explain why a plug-in must not be loaded; ``""`` if it may.

    Args:
        name: Name of its entry point.
        distribution: Distribution it comes from, ``""`` where it comes from none.
        provider: Whether it is a provider: the allow list speaks of providers only, the block list of every plug-in.
    """
    blocked = os.environ.get(BLOCK, "")
    if _names(blocked) & _spellings(name, distribution):
        return f"blocked by the environment variable {BLOCK}={blocked}"
    allowed = os.environ.get(ALLOW, "")
    if provider and allowed.strip() and not _names(allowed) & _spellings(name, distribution):
        return f"not among those the environment variable {ALLOW}={allowed} allows"
    return ""


def _names(value: str) -> set[str]:
    """The entries of a list, distributions normalised so that ``ort_py_cpu`` means ``ort-py-cpu``."""
    found: set[str] = set()
    for entry in (part.strip() for part in value.split(",")):
        distribution, colon, name = entry.rpartition(":")
        if colon:
            found.add(f"{normalise_distribution(distribution)}:{name.strip()}")
        elif entry:
            found.update((entry, f"{normalise_distribution(entry)}:"))
    return found


def _spellings(name: str, distribution: str) -> set[str]:
    spellings = {name}
    if distribution:
        normalised = normalise_distribution(distribution)
        spellings.update((f"{normalised}:", f"{normalised}:{name}"))
    return spellings
