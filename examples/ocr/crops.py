"""Cut a region out of a picture and straighten it.

Comes after `regions`, before `direction` and `recognition`, which both want lines 48 pixels high.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

__all__ = ["LINE_HEIGHT", "as_line", "cut_out"]

LINE_HEIGHT = 48

_UPRIGHT = 1.5
"""A region that is this much higher than wide is a line that runs downwards: it is turned first."""


def cut_out(picture: Image.Image, corners: np.ndarray[Any, Any]) -> Image.Image:
    """The quadrilateral between four corners (top left, top right, bottom right, bottom left) as a rectangle."""
    width = max(1, round(float(np.linalg.norm(corners[1] - corners[0]))))
    height = max(1, round(float(np.linalg.norm(corners[3] - corners[0]))))
    top_left, top_right, bottom_right, bottom_left = (tuple(map(float, corner)) for corner in corners)
    quad = (*top_left, *bottom_left, *bottom_right, *top_right)
    line = picture.transform((width, height), Image.Transform.QUAD, quad, Image.Resampling.BICUBIC)
    return line.transpose(Image.Transpose.ROTATE_90) if height >= width * _UPRIGHT else line


def as_line(crop: Image.Image, widest: int | None = None) -> Image.Image:
    """The crop at `LINE_HEIGHT`, its proportions kept unless it would be wider than `widest`."""
    width = max(1, round(crop.width * LINE_HEIGHT / crop.height))
    return crop.resize((width if widest is None else min(width, widest), LINE_HEIGHT), Image.Resampling.BILINEAR)
