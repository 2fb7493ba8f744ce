"""Boxes of text lines out of a probability map: connected components, smallest rectangles, grown to the full line.

Comes after `detection`, before `crops`. Works on runs of pixels (one row, neighbouring columns), of which a page has
a few thousand, instead of on pixels. Knows nothing of pictures and networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Region", "find_regions"]

Floats: TypeAlias = np.ndarray[Any, Any]

THRESHOLD = 0.3
"""Probability from which a pixel counts as text."""

MIN_SCORE = 0.5
"""Mean probability a region must have."""

MIN_SIDE = 3.0
"""Shorter side, in pixels of the map, below which a region is noise."""

GROWTH = 2.0
"""The network marks the core of a line; the box grows by area * GROWTH / perimeter to hold the letters whole."""


@dataclass(frozen=True, slots=True)
class Region:
    """One line of text.

    Attributes:
        corners: (4, 2) float64 x, y: top left, top right, bottom right, bottom left, seen along the line.
        score: Mean probability inside.
    """

    corners: Floats
    score: float


def find_regions(probabilities: Floats, size: tuple[int, int]) -> list[Region]:
    """All regions, in reading order.

    Args:
        probabilities: (height, width) map.
        size: Width and height of the picture the corners are scaled to.
    """
    rows, starts, stops = _runs(probabilities > THRESHOLD)
    labels = _components(rows, starts, stops, probabilities.shape[1])
    sums = np.concatenate(
        [np.zeros((len(probabilities), 1)), np.cumsum(probabilities, axis=1, dtype=np.float64)], axis=1
    )
    run_sums = sums[rows, stops] - sums[rows, starts]
    scale = np.array(size, dtype=np.float64) / probabilities.shape[::-1]
    regions = []
    for label in np.unique(labels):
        own = labels == label
        score = float(run_sums[own].sum() / (stops - starts)[own].sum())
        if score < MIN_SCORE:
            continue
        corners = _smallest_rectangle(_outline(rows[own], starts[own], stops[own]))
        width, height = _sides(corners)
        if min(width, height) < MIN_SIDE:
            continue
        corners = _grow(corners, width * height * GROWTH / (2 * (width + height)))
        regions.append(Region(_along_the_line(corners * scale), score))
    return sorted(regions, key=lambda region: (region.corners[:, 1].mean(), region.corners[:, 0].min()))


def _runs(mask: Floats) -> tuple[Floats, Floats, Floats]:
    """Row, first and last-plus-one column of each run, in row order."""
    padded = np.zeros((mask.shape[0], mask.shape[1] + 2), dtype=np.int8)
    padded[:, 1:-1] = mask
    steps = np.diff(padded, axis=1)
    rows, starts = np.nonzero(steps == 1)
    return rows, starts, np.nonzero(steps == -1)[1]


def _components(rows: Floats, starts: Floats, stops: Floats, width: int) -> Floats:
    """Label of each run; runs of adjacent rows that touch, also diagonally, have one label."""
    # Positions in one long line of rows; a row is followed by two columns of nothing, so that rows stay apart.
    line = (rows + 1) * (width + 2)
    first = np.searchsorted(rows * (width + 2) + stops, line + starts, side="left")
    last = np.searchsorted(rows * (width + 2) + starts, line + stops, side="right")
    counts = np.maximum(last - first, 0)
    upper = np.repeat(np.arange(len(rows)), counts)
    lower = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    labels = np.arange(len(rows))
    while True:
        before = labels
        smallest = np.minimum(labels[upper], labels[lower])
        labels = labels.copy()
        np.minimum.at(labels, upper, smallest)
        np.minimum.at(labels, lower, smallest)
        labels = labels[labels]  # a label's own label is at least as small: halves the way to the root
        if np.array_equal(labels, before):
            return labels


def _outline(rows: Floats, starts: Floats, stops: Floats) -> Floats:
    """Corners of all runs' pixels: (n, 2) x, y. Their convex hull is the component's."""
    x = np.concatenate([starts, starts, stops, stops])
    y = np.concatenate([rows, rows + 1, rows, rows + 1])
    return np.stack([x, y], axis=1).astype(np.float64)


def _smallest_rectangle(points: Floats) -> Floats:
    """Corners of the rectangle of least area around points: one of its sides lies on the convex hull."""
    hull = _convex_hull(points)
    edges = np.roll(hull, -1, axis=0) - hull
    angles = np.unique(np.arctan2(edges[:, 1], edges[:, 0]) % (np.pi / 2))
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    normals = np.stack([-directions[:, 1], directions[:, 0]], axis=1)
    along, across = hull @ directions.T, hull @ normals.T
    areas = np.ptp(along, axis=0) * np.ptp(across, axis=0)
    best = int(np.argmin(areas))
    low, high = along[:, best].min(), along[:, best].max()
    left, right = across[:, best].min(), across[:, best].max()
    frame = np.array([[low, left], [high, left], [high, right], [low, right]])
    corners: Floats = frame @ np.stack([directions[best], normals[best]])
    return corners


def _convex_hull(points: Floats) -> Floats:
    """Corners of the convex hull in order (Andrew's monotone chain)."""
    ordered = np.unique(points, axis=0)
    halves = []
    for sequence in (ordered, ordered[::-1]):
        chain: list[Floats] = []
        for point in sequence:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        halves += chain[:-1]
    return np.array(halves)


def _turn(a: Floats, b: Floats, c: Floats) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _sides(corners: Floats) -> tuple[float, float]:
    return float(np.linalg.norm(corners[1] - corners[0])), float(np.linalg.norm(corners[2] - corners[1]))


def _grow(corners: Floats, distance: float) -> Floats:
    """The rectangle with every side moved outwards."""
    along = (corners[1] - corners[0]) / np.linalg.norm(corners[1] - corners[0])
    across = (corners[2] - corners[1]) / np.linalg.norm(corners[2] - corners[1])
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    grown: Floats = corners + distance * (signs @ np.stack([along, across]))
    return grown


def _along_the_line(corners: Floats) -> Floats:
    """Corners beginning at the top left, clockwise on the screen."""
    centre = corners.mean(axis=0)
    angles = np.arctan2(corners[:, 1] - centre[1], corners[:, 0] - centre[0])
    clockwise = corners[np.argsort(angles)]
    first = int(np.argmin(clockwise.sum(axis=1)))
    return np.roll(clockwise, -first, axis=0)
