"""Elements along an axis that a nearest Resize takes, in ONNX and in oneDNN. If both agree, one primitive does it.
Arithmetic is float32, so that positions between two pixels fall to the same side as elsewhere; it is float64 where they
are rounded and the scale follows from sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["NEAREST_COORDINATES", "Places", "nearest_places", "onednn_places"]

NEAREST_COORDINATES = frozenset(
    {"align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"}
)

Places = np.ndarray[Any, Any]
_HALF = np.float32(0.5)


def nearest_places(coordinates: str, rounding: str, size: int, target: int, scale: float) -> Places:
    """The element of ``size`` that each of ``target`` is.

    Args:
        coordinates: ``coordinate_transformation_mode``, one of `NEAREST_COORDINATES`.
        rounding: ``nearest_mode``, or ``"simple"``: up where the result is shorter, else down, as before version 11.
        size: Length of the axis.
        target: Length of the result's.
        scale: As given, else the quotient of both.
    """
    kind: Any = np.float64 if rounding.startswith("round") and scale == target / size else np.float32
    half, factor = kind(0.5), kind(scale)
    x = np.arange(target, dtype=kind)
    if coordinates == "asymmetric":
        x = x / factor
    elif coordinates == "align_corners":
        x = x * kind(size - 1) / (kind(scale * size) - kind(1)) if target > 1 else np.zeros_like(x)
    elif coordinates == "pytorch_half_pixel" and target <= 1:
        x = np.zeros_like(x)
    else:
        offset = kind(0)
        if coordinates == "half_pixel_symmetric":
            offset = kind(size / 2) * (kind(1) - kind(target) / (factor * kind(size)))
        x = offset + (x + half) / factor - half
    match rounding:
        case "round_prefer_floor":
            x = np.ceil(x - half)
        case "round_prefer_ceil":
            x = np.floor(x + half)
        case "ceil":
            x = np.ceil(x)
        case "simple" if scale < 1:
            x = np.ceil(x)
        case _:
            x = np.floor(x)
    return _inside(x, size)


def onednn_places(size: int, target: int) -> Places:
    """Elements that oneDNN's nearest resampling takes: centres of pixels, rounded away from zero."""
    x = (np.arange(target, dtype=np.float32) + _HALF) * np.float32(size) / np.float32(target) - _HALF
    return _inside(np.floor(x + _HALF), size)


def repeated_places(size: int, places: Places) -> tuple[int, int] | None:
    """How often each of ``size`` elements is repeated, and where the places begin in what comes of that; None if they
    are no range of it."""
    times = -(-len(places) // max(1, size))
    every = np.repeat(np.arange(size), times)
    first = times * int(places[0]) if len(places) else 0  # of those that are the same as the first place
    starts = range(first, min(first + max(1, times), len(every) - len(places) + 1))
    start = next((start for start in starts if np.array_equal(every[start : start + len(places)], places)), None)
    return None if start is None else (times, start)


def _inside(x: Places, size: int) -> Places:
    found: Places = np.clip(x, 0, size - 1).astype(np.int64)
    return found
