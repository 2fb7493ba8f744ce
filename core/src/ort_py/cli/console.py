"""The only way to standard output and standard error: nothing gets through that could steer a terminal.

Names and texts of a model are a stranger's. Imports nothing, so that ``ort-py --version`` is quick.
"""

from __future__ import annotations

import sys

__all__ = ["say", "tell"]


def say(text: str) -> None:
    """Print to standard output what somebody asked for."""
    print(_harmless(text))


def tell(text: str) -> None:
    """Print to standard error what somebody should know besides."""
    print(_harmless(text), file=sys.stderr, flush=True)


def _harmless(text: str) -> str:
    """Control and formatting characters as escapes: they could move the cursor, recolour or reorder what is shown."""
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )
