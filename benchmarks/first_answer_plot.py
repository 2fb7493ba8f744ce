"""The picture of `benchmarks.first_answer`: for each model, the stages of each runtime as a stacked bar, in SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.first_answer import Answer

__all__ = ["drawn"]

_COLOURS = {"interpreter": "#9aa5b1", "numpy": "#c3cad2", "import": "#4c78a8", "session": "#f58518", "run": "#54a24b"}
_NAMES = {"onnxruntime": "onnxruntime", "prepared": "ort-py, no cache", "cached": "ort-py, warm cache"}
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 270, 620, 15, 14, 44
_FONT = 'font-family="sans-serif" font-size="12"'


def drawn(results: Mapping[str, Mapping[str, Answer]]) -> str:
    """Draw results.

    Args:
        results: The median of each runtime by model.

    Returns:
        An SVG document, readable on a light and on a dark background.
    """
    longest = max(one.seconds for found in results.values() for one in found.values())
    height = _TOP + sum(len(found) * (_BAR + 3) + _GAP for found in results.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 80}" height="{height}" {_FONT}>',
        f'<rect width="100%" height="{height}" fill="#ffffff"/>',
        *_legend(),
    ]
    y = _TOP
    for model, found in results.items():
        parts.append(f'<text x="8" y="{y + 12}" font-weight="bold">{escape(model)}</text>')
        for runtime, one in found.items():
            parts.append(f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{_NAMES[runtime]}</text>')
            x = float(_LEFT)
            for (stage, colour), seconds in zip(_COLOURS.items(), one.stages, strict=True):
                width = seconds / longest * _WIDTH
                title = f"<title>{stage}: {seconds * 1e3:.0f} ms</title>"
                parts.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}">{title}</rect>'
                )
                x += width
            parts.append(f'<text x="{x + 6:.1f}" y="{y + 12}">{one.seconds * 1e3:.0f} ms</text>')
            y += _BAR + 3
        y += _GAP
    return "\n".join([*parts, "</svg>\n"])


def _legend() -> list[str]:
    parts = []
    for place, (stage, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + place * 110
        parts.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="24">{stage}</text>')
    return parts
