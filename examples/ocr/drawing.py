"""A picture of the result: the boxes on the original, what was read beside it."""

from __future__ import annotations

from PIL import Image, ImageDraw, ImageFont

from examples.ocr.pipeline import Reading

__all__ = ["draw_reading"]

_COLOURS = ((200, 60, 40), (40, 120, 60), (40, 80, 180), (160, 100, 20), (120, 50, 140), (20, 130, 140))


def draw_reading(picture: Image.Image, reading: Reading) -> Image.Image:
    """The picture with a box round each line, and a sheet of the same size with the texts in the same places."""
    both = Image.new("RGB", (picture.width * 2, picture.height), (255, 255, 255))
    both.paste(picture, (0, 0))
    draw = ImageDraw.Draw(both)
    for index, line in enumerate(reading.lines):
        colour = _COLOURS[index % len(_COLOURS)]
        corners = [(float(x), float(y)) for x, y in line.region.corners]
        draw.polygon(corners, outline=colour, width=3)
        (left, top), (_, bottom) = corners[0], corners[3]
        size = max(14, min(36, int((bottom - top) * 0.6)))
        place = (picture.width + left, top)
        draw.text(place, f"{line.text}  ({line.score:.2f})", colour, ImageFont.load_default(size))
    return both
