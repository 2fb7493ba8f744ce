"""Elements along an axis that a nearest Resize takes, in ONNX and in oneDNN. If both agree, one primitive does it.
Arithmetic is float32, so that positions between two pixels fall to the same side as elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["NEAREST_COORDINATES", "nearest_places", "onednn_places"]

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
    factor = np.float32(scale)
    x = np.arange(target, dtype=np.float32)
    if coordinates == "asymmetric":
        x = x / factor
    elif coordinates == "align_corners":
        x = x * np.float32(size - 1) / (np.float32(scale * size) - np.float32(1)) if target > 1 else np.zeros_like(x)
    elif coordinates == "pytorch_half_pixel" and target <= 1:
        x = np.zeros_like(x)
    else:
        offset = np.float32(0)
        if coordinates == "half_pixel_symmetric":
            offset = np.float32(size / 2) * (np.float32(1) - np.float32(target) / (factor * np.float32(size)))
        x = offset + (x + _HALF) / factor - _HALF
    match rounding:
        case "round_prefer_floor":
            x = np.ceil(x - _HALF)
        case "round_prefer_ceil":
            x = np.floor(x + _HALF)
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


def _inside(x: Places, size: int) -> Places:
    found: Places = np.clip(x, 0, size - 1).astype(np.int64)
    return found
