"""`python -m benchmarks.providers_plot PAGE FILE`: the tables of `benchmarks.providers` on a page as one picture.

The page is Markdown, `docs/benchmarks/onednn.md` for instance. Tables with columns *by onnxruntime* and *by the faster*
are drawn, each named by the heading above it. A mark stands for our speed on a model as a multiple of the peer's, so
right of the line we are faster; circles are for one thread, squares for two. Measures nothing itself.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

__all__ = ["Series", "drawn", "main", "series_of"]

PEERS = {"by onnxruntime": "times onnxruntime's speed", "by the faster": "times the speed of the faster one"}
"""Columns of ratios, and the titles of their panels."""

_COLOURS = ("#4c78a8", "#e45756", "#54a24b", "#b279a2")
_LEAST, _MOST = 0.7, 4.0
_TICKS = (0.8, 0.95, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
_LEFT, _WIDTH, _BETWEEN, _ROW, _TOP = 190, 380, 40, 20, 96


@dataclass
class Series:
    """The ratios of one table on a number of threads: our time divided by the peer's.

    Attributes:
        place: Heading above the table.
        threads: Of every runtime.
        ratios: By column and model.
    """

    place: str
    threads: int
    ratios: dict[str, dict[str, float]] = field(default_factory=dict)


def main(arguments: list[str]) -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(prog="benchmarks.providers_plot", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", type=Path, help="a Markdown file with tables")
    parser.add_argument("file", type=Path, help="the SVG file to write")
    chosen = parser.parse_args(arguments)
    chosen.file.write_text(drawn(series_of(chosen.page.read_text("utf-8"))), "utf-8")
    return 0


def series_of(page: str) -> list[Series]:
    """Read the tables of a page, in their order."""
    found: list[Series] = []
    for place, header, rows in _tables(page):
        if header[:1] != ["model"] or not set(PEERS) <= set(header):
            continue
        threads = 0
        for column, title in enumerate(header):
            if title not in PEERS:
                continue
            if title == next(iter(PEERS)):
                threads += 1
                found.append(Series(place, threads))
            known = {row[0]: _number(row[column]) for row in rows}
            found[-1].ratios[title] = {model: ratio for model, ratio in known.items() if ratio is not None}
    return found


def _tables(page: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """The heading above each table, its first row, and its other rows."""
    place, rows = "", list[list[str]]()
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not all(re.fullmatch(":?-+:?", cell) for cell in cells):
                rows.append(cells)
            continue
        if rows:
            yield place, rows[0], rows[1:]
            rows = []
        if line.startswith("#"):
            place = line.lstrip("# ")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def drawn(series: Sequence[Series]) -> str:
    """Draw ratios.

    Returns:
        An SVG document, readable on a light and on a dark background.
    """
    models = list(dict.fromkeys(model for one in series for found in one.ratios.values() for model in found))
    places = list(dict.fromkeys(one.place for one in series))
    width, height = _LEFT + 2 * (_WIDTH + _BETWEEN), _TOP + _ROW * len(models) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="100%" height="{height}" fill="#ffffff"/>',
        *_legend(places),
    ]
    for row, model in enumerate(models):
        y = _TOP + row * _ROW
        if row % 2 == 0:
            parts.append(f'<rect x="0" y="{y}" width="{width}" height="{_ROW}" fill="#f3f5f7"/>')
        parts.append(f'<text x="{_LEFT - 12}" y="{y + 14}" text-anchor="end">{escape(model)}</text>')
    for panel, (column, title) in enumerate(PEERS.items()):
        left = _LEFT + panel * (_WIDTH + _BETWEEN)
        parts += _axis(left, title, height)
        for one in series:
            colour = _COLOURS[places.index(one.place) % len(_COLOURS)]
            for model, ratio in one.ratios.get(column, {}).items():
                told = f"{model}, {one.place}, {one.threads} thread(s): {1 / ratio:.2f}"
                parts.append(_mark(left, _TOP + models.index(model) * _ROW + 10, 1 / ratio, one.threads, colour, told))
    return "\n".join([*parts, "</svg>\n"])


def _x(left: int, speed: float) -> float:
    """The place of a speed on a logarithmic axis; what lies outside is drawn at its end."""
    bounded = min(max(speed, _LEAST), _MOST)
    return left + _WIDTH * math.log(bounded / _LEAST) / math.log(_MOST / _LEAST)


def _mark(left: int, y: int, speed: float, threads: int, colour: str, told: str) -> str:
    x, style = _x(left, speed), f'fill="{colour}" fill-opacity="0.75"><title>{escape(told)}</title>'
    if threads == 1:
        return f'<circle cx="{x:.1f}" cy="{y}" r="4.5" {style}</circle>'
    return f'<rect x="{x - 4:.1f}" y="{y - 4}" width="8" height="8" {style}</rect>'


def _axis(left: int, title: str, height: int) -> list[str]:
    parts = [f'<text x="{left}" y="{_TOP - 30}" font-weight="bold">{escape(title)}</text>']
    for tick in _TICKS:
        x, strong = _x(left, tick), tick == 1.0
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{height - 12}" '
            f'stroke="{"#333333" if strong else "#c3cad2"}" stroke-width="{1.5 if strong else 0.7}"/>'
        )
        if tick != 0.95:  # its line stands for the bound; there is no room for its number
            parts.append(f'<text x="{x:.1f}" y="{_TOP - 9}" text-anchor="middle" font-size="11">{tick:g}</text>')
    return parts


def _legend(places: Sequence[str]) -> list[str]:
    parts = []
    for number, place in enumerate(places):
        x = 12 + number * 230
        parts.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{_COLOURS[number % len(_COLOURS)]}"/>')
        parts.append(f'<text x="{x + 18}" y="24">{escape(place)}</text>')
    parts.append('<circle cx="18" cy="44" r="4.5" fill="#777777"/><text x="30" y="48">one thread</text>')
    parts.append('<rect x="114" y="40" width="8" height="8" fill="#777777"/><text x="128" y="48">two threads</text>')
    return parts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
