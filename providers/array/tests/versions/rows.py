"""All rows, by family: a new operator's rows stand in a module of this folder that is named here."""

from __future__ import annotations

from . import (
    classic_ml,
    conversions,
    elementwise,
    linear,
    lists,
    losses,
    making,
    movement,
    normalization,
    picking,
    pictures,
    quantized,
    random_numbers,
    reductions,
    resampling,
    signal,
    training,
)

__all__ = ["ROWS"]

ROWS = [
    *classic_ml.ROWS,
    *conversions.ROWS,
    *elementwise.ROWS,
    *linear.ROWS,
    *lists.ROWS,
    *losses.ROWS,
    *making.ROWS,
    *movement.ROWS,
    *normalization.ROWS,
    *picking.ROWS,
    *pictures.ROWS,
    *quantized.ROWS,
    *random_numbers.ROWS,
    *reductions.ROWS,
    *resampling.ROWS,
    *signal.ROWS,
    *training.ROWS,
]
