"""The tolerances of a comparison: the table of `ort_py.tolerances`, with what a caller wants otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py.inspection.comparison.measuring import Tolerances
from ort_py.suggestions import did_you_mean
from ort_py.tolerances import TOLERANCES

_BY_NAME = {one.onnx_name: one for one in DataType if one is not DataType.UNDEFINED}


def tolerances_of(given: Mapping[str, tuple[float, float]] | None) -> Tolerances:
    """The table with some entries replaced.

    Args:
        given: (relative, absolute) by the name of an element type, e.g. ``"float16"``.

    Raises:
        InvalidArgument: The type does not exist, or the value is not a pair of numbers of at least 0.
    """
    table = dict(TOLERANCES)
    for name, pair in (given or {}).items():
        if name not in _BY_NAME:
            raise InvalidArgument(
                f"The element type '{name}' of a tolerance does not exist.",
                why=f"there are {', '.join(_BY_NAME)}",
                fix=did_you_mean(name, _BY_NAME) or "Use the names of types in ONNX.",
            )
        try:
            relative, absolute = (float(number) for number in pair)
        except (TypeError, ValueError):
            relative = absolute = -1.0
        if not (relative >= 0 and absolute >= 0):
            raise InvalidArgument(
                f"The tolerance of {name} is {pair!r}.",
                why="a tolerance is a pair of a relative and an absolute error, each at least 0",
                fix=f'Write e.g. {{"{name}": (1e-3, 1e-4)}}.',
            )
        table[_BY_NAME[name]] = (relative, absolute)
    return table
