"""Tell which lines stand on their head, and turn them.

Comes after `crops`, before `recognition`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from examples.ocr.crops import LINE_HEIGHT, as_line
from examples.ocr.detection import to_network_range
from examples.ocr.runtime import Session

__all__ = ["turn_upright"]

_WIDTH = 192
_SURE = 0.9
"""Probability from which a line is turned; below it, leaving a line alone is the smaller mistake."""


def turn_upright(session: Session, crops: Sequence[Image.Image]) -> list[Image.Image]:
    """The crops, those turned that the classifier is sure stand on their head."""
    if not crops:
        return []
    batch = np.zeros((len(crops), 3, LINE_HEIGHT, _WIDTH), dtype=np.float32)
    for index, crop in enumerate(crops):
        pixels = to_network_range(as_line(crop, widest=_WIDTH))
        batch[index, :, :, : pixels.shape[2]] = pixels
    (probabilities,) = session.run(None, {"x": batch})
    on_head = np.asarray(probabilities)[:, 1] > _SURE
    return [
        crop.transpose(Image.Transpose.ROTATE_180) if turned else crop
        for crop, turned in zip(crops, on_head, strict=True)
    ]
