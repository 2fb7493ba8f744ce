"""The sample picture: a page with lines of several sizes, one of them slanted and one upside down.

Drawn again each time with the font that Pillow brings, so no binary is kept and no system font is needed.
"""

from __future__ import annotations

from PIL import Image, ImageDraw, ImageFont

__all__ = ["SAMPLE_LINES", "render_sample"]

PAPER = (250, 247, 240)
INK = (32, 36, 48)

SAMPLE_LINES = (
    "ort-py reads a picture",
    "Three networks find, turn and read each line.",
    "No hardware is known to the core.",
    "Invoice 2048-77 total 1,234.50 EUR",
    "slanted lines are straightened first",
    "and this one stood on its head",
)
"""What a reader should find, from top to bottom."""


def render_sample() -> Image.Image:
    """The page, 960 × 640, RGB."""
    page = Image.new("RGB", (960, 640), PAPER)
    draw = ImageDraw.Draw(page)
    draw.rectangle((24, 24, 936, 616), outline=(180, 170, 150), width=3)
    draw.text((60, 52), SAMPLE_LINES[0], INK, ImageFont.load_default(52))
    draw.text((60, 142), SAMPLE_LINES[1], INK, ImageFont.load_default(30))
    draw.text((60, 212), SAMPLE_LINES[2], (150, 40, 30), ImageFont.load_default(36))
    draw.rectangle((60, 284, 760, 348), fill=(40, 70, 120))
    draw.text((76, 294), SAMPLE_LINES[3], (255, 255, 255), ImageFont.load_default(34))
    _paste_turned(page, SAMPLE_LINES[4], (70, 380), degrees=4, size=34)
    _paste_turned(page, SAMPLE_LINES[5], (70, 530), degrees=180, size=34)
    return page


def _paste_turned(page: Image.Image, text: str, corner: tuple[int, int], *, degrees: float, size: int) -> None:
    font = ImageFont.load_default(size)
    _, _, right, bottom = font.getbbox(text)
    mask = Image.new("L", (int(right) + 8, int(bottom) + 8), 0)
    ImageDraw.Draw(mask).text((4, 4), text, 255, font)
    turned = mask.rotate(degrees, Image.Resampling.BICUBIC, expand=True)
    page.paste(Image.new("RGB", turned.size, INK), corner, turned)
