"""All rows, by family: a new operator's rows stand in a module of this folder that is named here."""

from __future__ import annotations

from . import elementwise, movement, reductions

__all__ = ["ROWS"]

ROWS = [
    *elementwise.ROWS,
    *movement.ROWS,
    *reductions.ROWS,
]
