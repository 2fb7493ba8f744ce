"""The forms of a report: aligned tables, JSON that every parser reads, and shapes and times for people."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.cli.console import say
from ort_py.printable import one_line


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, indent: str = "  ", width: int = 60) -> str:
    """Rows in aligned columns.

    Args:
        rows: Cells; converted with ``str``.
        width: All columns except the last are cut to this many characters.
    """
    lines = [tuple(head), *(tuple(one_line(str(cell)) for cell in row) for row in rows)]
    last = len(head) - 1
    widths = [min(width, max(len(line[column]) for line in lines)) for column in range(last)]
    aligned = ([_cut(cell, size).ljust(size) for cell, size in zip(line, widths, strict=False)] for line in lines)
    return "\n".join(
        (indent + "  ".join([*cells, line[last]])).rstrip() for cells, line in zip(aligned, lines, strict=True)
    )


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


def print_json(value: Any) -> None:
    """Print a value as JSON: arrays as lists, NaN and infinities as texts, because JSON has none."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def print_report(report: object, data: Mapping[str, Any] | None) -> None:
    """Print a report as text, or its data as JSON if there are any."""
    if data is None:
        say(str(report))
    else:
        print_json(data)


def plain(value: Any) -> Any:
    """A value in the types JSON has."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        # ml_dtypes' scalars are not Python numbers: they reach JSON as floats.
        return plain(value.astype(np.float64).tolist() if value.dtype.kind == "V" else value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def shape_text(shape: Sequence[Any] | None) -> str:
    """A shape in brackets; ``?`` for what is unknown."""
    if shape is None:
        return "[…]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def time_text(seconds: float) -> str:
    """Seconds in a unit that leaves three or four digits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.0f} µs"
