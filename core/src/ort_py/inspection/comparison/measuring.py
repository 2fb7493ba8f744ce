"""Measuring how far two values are apart. Two host values in, one record out; knows no model.

Arrays are read in blocks, so that a large one is not converted whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np

from ort_py.dtypes import DataType, data_type_of
from ort_py.inspection.comparison.deviation import Deviation, ValueSummary
from ort_py.lazy_dataclass import dataclass
from ort_py.tolerances import TOLERANCES

Array: TypeAlias = np.ndarray[Any, Any]

Tolerances: TypeAlias = Mapping[DataType, tuple[float, float]]
"""(relative, absolute) by element type; a type that is not there must be equal."""

_BLOCK = 1 << 18
"""Elements that are converted to wide numbers at a time."""

_BITS = {DataType.FLOAT16: 16, DataType.BFLOAT16: 16, DataType.FLOAT: 32, DataType.DOUBLE: 64}
"""Types whose neighbours are counted."""


def summary_of(name: str, value: Any) -> ValueSummary:
    """A host value in a few numbers."""
    if not _is_array(value):
        return ValueSummary(name)
    array = np.asarray(value)
    kind = data_type_of(array.dtype)
    summary = ValueSummary(name, kind.onnx_name, array.shape)
    if kind is DataType.STRING:
        return summary
    low, high, nan, infinite = math.inf, -math.inf, 0, 0
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        wide = _wide(flat[start : start + _BLOCK])
        nan, infinite = nan + int(np.isnan(wide).sum()), infinite + int(np.isinf(wide).sum())
        finite = np.abs(wide[np.isfinite(wide)]) if wide.dtype.kind == "c" else wide[np.isfinite(wide)]
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    numbers = (None, None) if low > high else (low, high)
    return replace(summary, minimum=numbers[0], maximum=numbers[1], nan=nan, infinite=infinite)


def deviation(a: Any, b: Any, tolerances: Tolerances = TOLERANCES) -> Deviation:
    """Measure the difference of two host values.

    An element may be off by ``relative * |a| + absolute * scale``, where scale is the largest finite number of the
    array, and at least `absolute`: the rounding error of a sum grows with its summands, of which it gives an idea.

    Args:
        a: Array, scalar of NumPy, list, dict or None: what is expected.
        tolerances: (relative, absolute) by element type.
    """
    if isinstance(a, list | dict) and type(a) is type(b):
        return _parts(a, b, tolerances)
    if not (_is_array(a) and _is_array(b)):
        if not _is_array(a) and not _is_array(b) and type(a) is type(b) and a == b:
            return Deviation()
        return Deviation(False, "kind", expected=_kind(a), found=_kind(b), excess=math.inf)
    left, right = np.asarray(a), np.asarray(b)
    kinds = data_type_of(left.dtype), data_type_of(right.dtype)
    known = Deviation(
        element_type=kinds[0].onnx_name,
        shape=left.shape,
        other_type=kinds[1].onnx_name,
        other_shape=right.shape,
        elements=int(left.size),
    )
    if kinds[0] != kinds[1]:
        return replace(known, agrees=False, reason="type", excess=math.inf)
    if left.shape != right.shape:
        return replace(known, agrees=False, reason="shape", excess=math.inf)
    if not left.size:
        return known
    if kinds[0] is DataType.STRING:
        return _texts(left, right, known)
    return _numbers(left, right, known, tolerances.get(kinds[0], (0.0, 0.0)))


def _parts(a: Any, b: Any, tolerances: Tolerances) -> Deviation:
    """Sequences and maps: what is true of their worst part."""
    keys = list(a) if isinstance(a, dict) else list(range(len(a)))
    if keys != (list(b) if isinstance(b, dict) else list(range(len(b)))):
        texts = [f"{_kind(one)} of {len(one)}" for one in (a, b)]
        return Deviation(False, "kind", expected=texts[0], found=texts[1], excess=math.inf)
    worst = Deviation()
    for key in keys:
        # Floating numbers in ONNX's maps are float32, which Python hands out as float.
        left, right = (np.float32(one[key]) if isinstance(one[key], float) else one[key] for one in (a, b))
        found = deviation(left, right, tolerances)
        if found.excess > worst.excess or not worst.part:
            worst = replace(found, part=f"[{key!r}]{found.part}")
    return worst


def _texts(left: Array, right: Array, known: Deviation) -> Deviation:
    different = [place for place, (one, other) in enumerate(zip(left.flat, right.flat, strict=True)) if one != other]
    if not different:
        return known
    return replace(
        known,
        agrees=False,
        reason="values",
        beyond=len(different),
        absolute=math.inf,
        excess=math.inf,
        index=_index(different[0], left.shape),
        expected=repr(left.flat[different[0]]),
        found=repr(right.flat[different[0]]),
    )


@dataclass(slots=True)
class _Worst:
    """The worst deviation in the blocks so far."""

    key: float = -1.0
    place: int = 0
    absolute: float = 0.0
    beyond: int = 0
    max_ulp: int = 0
    nan: list[int] = field(default_factory=lambda: [0, 0])
    infinite: list[int] = field(default_factory=lambda: [0, 0])


def _numbers(left: Array, right: Array, known: Deviation, tolerance: tuple[float, float]) -> Deviation:
    flats = left.reshape(-1), right.reshape(-1)
    relative, absolute = tolerance
    allowed = absolute * max(_largest(flats[0]), absolute)
    worst = _Worst()
    with np.errstate(all="ignore"):
        for start in range(0, known.elements, _BLOCK):
            left_block, right_block = (flat[start : start + _BLOCK] for flat in flats)
            _add_block(worst, start, left_block, right_block, relative, allowed)
    pair = [flat[worst.place : worst.place + 1] for flat in flats]
    size = float(abs(_wide(pair[0])[0]))
    finite = math.isfinite(worst.absolute)
    reason = "nan" if any(worst.nan) else "infinity" if any(worst.infinite) else "values"
    exact = not (relative or absolute)
    return replace(
        known,
        agrees=not worst.beyond,
        reason=reason if worst.beyond else "",
        beyond=worst.beyond,
        absolute=worst.absolute,
        relative=worst.absolute / size if size and finite else math.inf if worst.absolute else 0.0,
        ulp=_ulp(*pair) if finite else None,
        max_ulp=worst.max_ulp if known.element_type in _COUNTED else None,
        excess=(math.inf if worst.beyond else 0.0) if exact else max(worst.key, 0.0),
        index=_index(worst.place, left.shape),
        expected=str(pair[0][0]),
        found=str(pair[1][0]),
        nan_only_a=worst.nan[0],
        nan_only_b=worst.nan[1],
        infinite_only_a=worst.infinite[0],
        infinite_only_b=worst.infinite[1],
    )


def _add_block(worst: _Worst, start: int, a: Array, b: Array, relative: float, absolute: float) -> None:
    if a.tobytes() == b.tobytes():  # so are most values of most comparisons
        return
    left, right = _wide(a), _wide(b)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    error = np.where(same, 0.0, np.abs(left - right))
    error[np.isnan(error)] = np.inf  # NaN on one side
    allowed = relative * np.abs(np.where(np.isfinite(left), left, 0.0)) + absolute
    worst.beyond += int((error > allowed).sum())
    key = np.where(same, 0.0, error / allowed) if relative or absolute else error
    at = int(key.argmax())
    if float(key[at]) > worst.key:
        worst.key, worst.place, worst.absolute = float(key[at]), start + at, float(error[at])
    finite = np.isfinite(left) & np.isfinite(right)
    if data_type_of(a.dtype) in _BITS and finite.any():
        worst.max_ulp = max(worst.max_ulp, int(_ulps(a[finite], b[finite]).max()))
    for side, wide in enumerate((left, right)):
        worst.nan[side] += int((np.isnan(wide) & ~same).sum())
        worst.infinite[side] += int((np.isinf(wide) & ~same).sum())


def _largest(flat: Array) -> float:
    found = 0.0
    for start in range(0, flat.size, _BLOCK):
        wide = _wide(flat[start : start + _BLOCK])
        finite = np.abs(wide[np.isfinite(wide)])
        found = max(found, float(finite.max()) if finite.size else 0.0)
    return found


def _wide(array: Array) -> Array:
    """In a type that holds the differences of the elements: NumPy does not compute with the small ones."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    # Beyond 2^53 differences of 64-bit integers are rounded; where long doubles are no longer than doubles, to 0 maybe.
    return array.astype(np.longdouble if array.dtype.kind in "iu" and array.dtype.itemsize == 8 else np.float64)


_COUNTED = {one.onnx_name for one in _BITS}


def _ulps(a: Array, b: Array) -> Array:
    """Floating numbers between the two, element by element."""
    bits = _BITS[data_type_of(a.dtype)]
    sign = np.uint64(1 << (bits - 1))
    raw = [np.ascontiguousarray(one).view(np.dtype(f"u{bits // 8}")).astype(np.uint64) for one in (a, b)]
    sizes = [one & ~sign for one in raw]
    apart = np.where(sizes[0] > sizes[1], sizes[0] - sizes[1], sizes[1] - sizes[0])
    return np.where((raw[0] ^ raw[1]) & sign != 0, sizes[0] + sizes[1], apart)


def _ulp(a: Array, b: Array) -> int | None:
    return int(_ulps(a, b)[0]) if data_type_of(a.dtype) in _BITS else None


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(one) for one in np.unravel_index(place, shape)) if shape else ()


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if _is_array(value):
        return "an array"
    return "a sequence" if isinstance(value, list) else "a map" if isinstance(value, dict) else repr(value)
