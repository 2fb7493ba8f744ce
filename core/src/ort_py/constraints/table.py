"""The table of constraints: the specification's requirements for every operator that a compiled region may hold.

There is one entry for each operator, independent of the provider. A region is checked against it before native code
sees its inputs; see `gate`. An operator that is not in the table cannot be checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.constraints.families import (
    attention,
    elementwise,
    indexing,
    movement,
    normalizations,
    numbers,
    products,
    quantized,
    recurrent,
    reductions,
    resizing,
    windows,
)
from ort_py.constraints.scope import Constraint

CONSTRAINTS: Mapping[tuple[str, str], Constraint] = {
    **attention.TABLE,
    **elementwise.TABLE,
    **indexing.TABLE,
    **movement.TABLE,
    **normalizations.TABLE,
    **numbers.TABLE,  # after `elementwise`: these also follow the numbers that shapes are made of
    **products.TABLE,
    **quantized.TABLE,
    **recurrent.TABLE,
    **reductions.TABLE,
    **resizing.TABLE,
    **windows.TABLE,
}
"""By domain and operator."""
