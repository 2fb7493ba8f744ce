"""Descriptions for trials of an operator at each of its versions and types: drawing inputs, and expected results.

A `Row` is data; `test_versions` runs it for each schema version and element type. Inputs are drawn by hypothesis
through `Draw`: shapes with empty and zero-sized axes, NaN, infinities, the ends of integer ranges. Expected values are
closed forms in float64 rounded once, or `onnx.reference` where a row gives none; random numbers are only looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from onnx import defs

from ort_py.dtypes import DataType, numpy_dtype, parse_value_type

__all__ = [
    "Draw",
    "Given",
    "Row",
    "as_type",
    "bounds",
    "dtypes_of",
    "for_each_call",
    "is_floating",
    "quantized",
    "versions_of",
    "wide",
]

_EXAMPLES = 5
"""Calls drawn for each version and element type."""


@dataclass(frozen=True)
class Given:
    """One call of a kernel.

    Attributes:
        inputs: Values; None where an optional one is absent.
        attributes: The node's attributes.
        expected: One entry per output; None asks `onnx.reference`.
        outputs: Outputs the node has.
        check: Looks at the outputs instead, where no specification determines the values; raises AssertionError.
    """

    inputs: Sequence[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    expected: Sequence[Any] | None = None
    outputs: int = 1
    check: Callable[[Sequence[Any]], None] | None = None


@dataclass(frozen=True)
class Row:
    """An operator at some of its versions.

    Attributes:
        op_type: Operator.
        draw: Makes a call.
        domain: Operator domain.
        since, until: First and last schema version the row is for.
        variable: The type variable whose element types are all tried; None where there is none.
        without: Element types that this row leaves to another one.
    """

    op_type: str
    draw: Callable[[Draw], Given]
    domain: str = ""
    since: int = 1
    until: int = 10_000
    variable: str | None = "T"
    without: frozenset[DataType] = frozenset()

    @property
    def versions(self) -> tuple[int, ...]:
        """Schema versions the row is for."""
        return tuple(
            version for version in versions_of(self.op_type, self.domain) if self.since <= version <= self.until
        )

    def dtypes(self, version: int) -> list[Any]:
        """Element types to try at a version, as NumPy dtypes; one None where no variable is named."""
        if self.variable is None:
            return [None]
        excluded = {numpy_dtype(data_type) for data_type in self.without}
        return [
            dtype for dtype in dtypes_of(self.op_type, version, self.variable, self.domain) if dtype not in excluded
        ]


@cache
def versions_of(op_type: str, domain: str = "") -> tuple[int, ...]:
    """All schema versions of an operator, deprecated ones included."""
    return tuple(
        sorted(
            schema.since_version
            for schema in defs.get_all_schemas_with_history()
            if (schema.name, schema.domain) == (op_type, domain)
        )
    )


@cache
def dtypes_of(op_type: str, version: int, variable: str, domain: str = "") -> tuple[Any, ...]:
    """Element types that a version allows for a type variable; sequences and optionals count by their elements."""
    schema = defs.get_schema(op_type, version, domain)
    (constraint,) = (one for one in schema.type_constraints if one.type_param_str == variable)
    found: dict[Any, None] = {}
    for text in sorted(constraint.allowed_type_strs):
        element: Any = parse_value_type(text.replace(" ", "")) if "map(" not in text else None
        while element is not None and not hasattr(element, "data_type"):
            element = element.element
        if element is not None:
            found[numpy_dtype(element.data_type)] = None
    return tuple(found)


class Draw:
    """Draws values for one call.

    Attributes:
        op_type: The row's operator.
        version: Schema version of the call.
        dtype: Element type that the row's variable has in it.
    """

    def __init__(self, data: st.DataObject, row: Row, version: int, dtype: Any) -> None:
        self._data = data
        self._row = row
        self.op_type = row.op_type
        self.version = version
        self.dtype = dtype
        self._seed = data.draw(st.integers(0, 1 << 16))

    def integer(self, low: int, high: int) -> int:
        """A number in ``[low, high]``."""
        return self._data.draw(st.integers(low, high))

    def pick(self, values: Sequence[Any]) -> Any:
        """One of these."""
        return self._data.draw(st.sampled_from(list(values)))

    def flag(self) -> int:
        """0 or 1."""
        return self.integer(0, 1)

    def other(self, variable: str) -> Any:
        """An element type of another variable."""
        return self.pick(dtypes_of(self._row.op_type, self.version, variable, self._row.domain))

    def shape(self, low: int = 0, high: int = 4, *, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """A shape of `low` to `high` axes, each of `least` to `most` elements."""
        return tuple(self._data.draw(st.lists(st.integers(least, most), min_size=low, max_size=high)))

    def axis(self, rank: int, *, negative: bool = True) -> int:
        """An axis, counted from either end."""
        return self.integer(-rank if negative else 0, rank - 1)

    def broadcastable(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to this one: some axes 1, some leading ones left out."""
        kept = shape[self.integer(0, len(shape)) :]
        return tuple(self.pick((1, size)) for size in kept)

    def array(
        self, shape: Sequence[int], dtype: Any = None, low: float = -4.0, high: float = 4.0, *, special: bool = True
    ) -> Any:
        """Values of any element type.

        Args:
            shape: Shape.
            dtype: Element type; the row's where None.
            low, high: Range of ordinary values.
            special: Put NaN and infinities, or the ends of the integer range, in some places.
        """
        kind = np.dtype(self.dtype if dtype is None else dtype)
        self._seed += 1
        rng = np.random.default_rng(self._seed)
        if kind.kind == "O":
            return rng.choice(np.array(["", "a", "b", "Ab", "ß", "日本"], object), shape)
        if kind.kind == "b":
            return rng.integers(0, 2, shape).astype(np.bool_)
        values = rng.uniform(low, high, shape)
        if kind.kind == "c":
            return (values + 1j * rng.uniform(low, high, shape)).astype(kind)
        if not is_floating(kind):
            least = max(low, float(bounds(kind)[0]))
            result = np.rint(np.clip(values, least, None)).astype(np.int64).astype(kind)
            ends: Sequence[Any] = bounds(kind)
        else:
            result = np.asarray(values).astype(kind)
            ends = (np.nan, np.inf, -np.inf, 0.0, -0.0)
        if special and result.size and self.flag():
            flat = result.reshape(-1)
            places = rng.integers(0, flat.size, 2)
            for place, end in zip(places, rng.permutation(np.array(ends, object))[:2], strict=False):
                flat[place] = np.array(end).astype(kind) if is_floating(kind) else kind.type(end)
            result = flat.reshape(result.shape)
        return result


def for_each_call(row: Row, version: int, dtype: Any, look: Callable[[Given], None]) -> None:
    """Draw calls for a version and an element type and hand them on, the same ones each time.

    Each version and type has a seed of its own: where all began alike, what the first few draws of one type leave out
    no other type would get either.
    """

    @seed(crc32(f"{row.domain}.{row.op_type}-{version} {dtype}".encode()))
    @settings(max_examples=_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        look(row.draw(Draw(data, row, version, dtype)))

    check()


def is_floating(dtype: Any) -> bool:
    """Whether a dtype holds floating numbers, of NumPy or of ml_dtypes."""
    return np.dtype(dtype).kind == "f" or "float" in np.dtype(dtype).name


def bounds(dtype: Any) -> tuple[float, float]:
    """Least and greatest value of an integer or small floating type."""
    if is_floating(dtype):
        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # as ml_dtypes has it
        return float(info.min), float(info.max)
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    bits, signed = int(dtype.name.lstrip("uint")), not dtype.name.startswith("u")
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def wide(x: Any) -> Any:
    """Floating numbers as float64, everything else as it is."""
    return x.astype(np.float64) if is_floating(x.dtype) else x


def as_type(x: Any, dtype: Any) -> Any:
    """Rounded once to the type of a result; what is too large for it becomes infinite quietly."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)


def quantized(values: Any, dtype: Any) -> Any:
    """Rounded half to even and saturated, for a quantised type."""
    if is_floating(dtype):
        limit = bounds(dtype)[1]
        return np.clip(values, -limit, limit).astype(dtype)
    low, high = bounds(dtype)
    return np.clip(np.rint(values), low, high).astype(np.int64).astype(dtype)
