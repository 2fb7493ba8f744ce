"""Pictures the programs look at, drawn with the font that Pillow brings: RGB arrays, (height, width, 3), uint8."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

__all__ = ["as_png", "captcha", "face", "page", "table"]

_INK = (20, 20, 20)


def page() -> np.ndarray[Any, Any]:
    """Three lines of text."""
    picture = Image.new("RGB", (360, 170), "white")
    draw = ImageDraw.Draw(picture)
    for index, line in enumerate(("Invoice 4711", "Total 98.50 EUR", "Thank you")):
        draw.text((20, 14 + 50 * index), line, _INK, ImageFont.load_default(30))
    return np.asarray(picture)


def table() -> np.ndarray[Any, Any]:
    """A ruled table of three rows and two columns."""
    picture = Image.new("RGB", (320, 140), "white")
    draw = ImageDraw.Draw(picture)
    for row, cells in enumerate((("Item", "Price"), ("Apples", "3.20"), ("Bread", "2.75"))):
        for column, text in enumerate(cells):
            left, top = 10 + 150 * column, 10 + 40 * row
            draw.rectangle((left, top, left + 150, top + 40), outline=_INK, width=2)
            draw.text((left + 12, top + 8), text, _INK, ImageFont.load_default(20))
    return np.asarray(picture)


def face() -> np.ndarray[Any, Any]:
    """A drawn face on a plain ground, softly shaded."""
    picture = Image.new("RGB", (200, 200), (90, 110, 140))
    draw = ImageDraw.Draw(picture)
    for inset in range(12):
        tone = (200 + 3 * inset, 160 + 3 * inset, 130 + 3 * inset)
        draw.ellipse((50 + inset, 30 + inset, 150 - inset, 170 - inset), tone)
    for left in (76, 108):
        draw.ellipse((left, 82, left + 18, 94), "white")
        draw.ellipse((left + 5, 83, left + 14, 93), (40, 25, 20))
        draw.arc((left - 2, 70, left + 22, 84), 200, 340, (60, 40, 30), 3)
    draw.line((100, 96, 95, 120), (160, 115, 95), 3)
    draw.line((95, 120, 106, 121), (160, 115, 95), 3)
    draw.chord((82, 130, 118, 146), 0, 180, (170, 60, 60))
    draw.pieslice((48, 22, 152, 110), 190, 350, (60, 40, 25))
    draw.ellipse((62, 48, 138, 120), None)
    return np.asarray(picture)


def captcha() -> np.ndarray[Any, Any]:
    """Five letters and digits."""
    picture = Image.new("RGB", (160, 60), "white")
    ImageDraw.Draw(picture).text((10, 8), "8K4PW", (30, 60, 120), ImageFont.load_default(40))
    return np.asarray(picture)


def as_png(picture: np.ndarray[Any, Any]) -> bytes:
    """A picture as the contents of a PNG file."""
    written = io.BytesIO()
    Image.fromarray(picture).save(written, "PNG")
    return written.getvalue()
