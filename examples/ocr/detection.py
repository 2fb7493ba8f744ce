"""Find text: a picture in, a map of the probability that a pixel belongs to text out.

Comes after `picture`, before `regions`. The network wants sides that are multiples of 32 and BGR in [-1, 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from examples.ocr.runtime import Session

__all__ = ["probability_map", "to_network_range"]

LONGEST_SIDE = 960
"""Larger pictures are shrunk to this; the detector was trained on text of that scale."""

_STRIDE = 32


def to_network_range(picture: Image.Image) -> np.ndarray[Any, Any]:
    """Pixels as the PP-OCR networks expect them: (3, height, width) float32, BGR, in [-1, 1]."""
    pixels = np.asarray(picture.convert("RGB"), dtype=np.float32)[:, :, ::-1]
    return np.ascontiguousarray((pixels / 127.5 - 1.0).transpose(2, 0, 1))


def probability_map(session: Session, picture: Image.Image) -> np.ndarray[Any, Any]:
    """Run the detector.

    Returns:
        (height, width) float32 in [0, 1], at the network's resolution; scale by the picture's size to get back.
    """
    scale = min(1.0, LONGEST_SIDE / max(picture.size))
    width, height = (max(_STRIDE, round(side * scale / _STRIDE) * _STRIDE) for side in picture.size)
    resized = picture.resize((width, height), Image.Resampling.BILINEAR)
    (probabilities,) = session.run(None, {"x": to_network_range(resized)[np.newaxis]})
    found: np.ndarray[Any, Any] = np.asarray(probabilities)[0, 0]
    return found
