"""All rows, by family: a new operator's rows stand in a module of this folder that is named here."""

from __future__ import annotations

from . import conversions, elementwise, linear, lists, movement, normalization, reductions

__all__ = ["ROWS"]

ROWS = [
    *conversions.ROWS,
    *elementwise.ROWS,
    *linear.ROWS,
    *lists.ROWS,
    *movement.ROWS,
    *normalization.ROWS,
    *reductions.ROWS,
]
