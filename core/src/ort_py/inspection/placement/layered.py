"""A layered drawing of a directed acyclic graph: boxes in rows, edges downwards, few crossings, folded into columns.

In the manner of Sugiyama: layers by longest path, long edges through invisible points, order by the mean of the
neighbours, positions by least squares. It works on boxes and edges only. Near-linear: every step is a fixed number of
sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ort_py.lazy_dataclass import dataclass

ASPECT = 1.5
"""Width over height that folding aims for."""

_SWEEPS = 8
_PULL = 4.0
_POINTS_PER_BOX = 8
"""Invisible points at most, as a multiple of the boxes; edges beyond that are drawn straight."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Positions of boxes and lines; the y axis points down.

    Attributes:
        positions: Left and upper border of each box.
        routes: For each edge the points it passes between its boxes, often none.
    """

    positions: list[tuple[float, float]]
    routes: dict[tuple[int, int], list[tuple[float, float]]]
    width: float
    height: float


def draw(
    sizes: Sequence[tuple[float, float]],
    edges: Iterable[tuple[int, int]],
    *,
    gap_x: float,
    gap_y: float,
    aspect: float = ASPECT,
) -> Drawing:
    """Lay out boxes.

    Args:
        edges: Pairs of boxes, from and to; without cycles.
        aspect: Width over height to aim for.
    """
    if not sizes:
        return Drawing([], {}, 0.0, 0.0)
    pairs = sorted({(source, target) for source, target in edges if source != target})
    layer = _layers(len(sizes), pairs)
    points = _Points(sizes, pairs, layer, gap_x)
    rows = _ordered(points)
    centres = _centres(points, rows, gap_x)
    heights = [max(points.sizes[item][1] for item in row) for row in rows]
    columns = _folded(points, rows, centres, heights, gap_x, gap_y, aspect)
    return _drawing(points, pairs, rows, centres, heights, columns, gap_x, gap_y)


def _layers(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: below all that it reads, and what reads nothing close to its first reader."""
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target in pairs:
        after[source].append(target)
        waiting[target] += 1
    fed = [bool(number) for number in waiting]
    layer = [0] * count
    ready = [box for box in range(count) if not waiting[box]]
    for box in ready:  # grows while it is read
        for target in after[box]:
            layer[target] = max(layer[target], layer[box] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for box in reversed(ready):
        if not fed[box] and after[box]:
            layer[box] = min(layer[target] for target in after[box]) - 1
    lowest = min(layer)
    return [number - lowest for number in layer]


class _Points:
    """Boxes and the invisible points of long edges, as one graph whose edges join neighbouring layers."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], pairs: Sequence[tuple[int, int]], layer: list[int], gap_x: float
    ) -> None:
        self.boxes = len(sizes)
        self.sizes = list(sizes)
        self.layer = list(layer)
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.chains: dict[int, list[int]] = {}
        room = _POINTS_PER_BOX * max(64, self.boxes)
        furthest: dict[int, int] = {}
        for source, target in pairs:
            furthest[source] = max(furthest.get(source, 0), layer[target])
        for source, last in sorted(furthest.items(), key=lambda item: item[1] - layer[item[0]]):
            length = last - layer[source] - 1
            if length <= 0 or length > room:
                continue
            room -= length
            # All readers of a box share one chain: what many read is one line with branches.
            chain: list[int] = []
            before = source
            for step in range(length):
                point = len(self.sizes)
                self.sizes.append((gap_x / 2, 0.0))
                self.layer.append(layer[source] + 1 + step)
                self.above.append([])
                self.below.append([])
                self._join(before, point)
                chain.append(point)
                before = point
            self.chains[source] = chain
        for source, target in pairs:
            distance = layer[target] - layer[source] - 1
            chain = self.chains.get(source, [])
            if distance == 0:
                self._join(source, target)
            elif len(chain) >= distance:
                self._join(chain[distance - 1], target)

    def _join(self, upper: int, lower: int) -> None:
        self.below[upper].append(lower)
        self.above[lower].append(upper)

    def pull(self, item: int) -> float:
        """The weight of a place: invisible points weigh more, so that long edges become straight."""
        return 1.0 if item < self.boxes else _PULL

    def route(self, source: int, target: int) -> list[int]:
        distance = self.layer[target] - self.layer[source] - 1
        chain = self.chains.get(source, [])
        return chain[:distance] if len(chain) >= distance else []


def _ordered(points: _Points) -> list[list[int]]:
    """Rows in an order with few crossings: each sweep sorts a row by the mean place of its neighbours."""
    rows: list[list[int]] = [[] for _ in range(max(points.layer) + 1)]
    for item, layer in enumerate(points.layer):
        rows[layer].append(item)
    place = [0.0] * len(points.layer)
    for row in rows:
        for position, item in enumerate(row):
            place[item] = float(position)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        near = points.above if down else points.below
        for row in rows if down else reversed(rows):
            if len(row) < 2:
                continue
            key = {
                item: sum(place[other] for other in near[item]) / len(near[item]) if near[item] else place[item]
                for item in row
            }
            row.sort(key=key.__getitem__)
            for position, item in enumerate(row):
                place[item] = float(position)
    return rows


def _centres(points: _Points, rows: Sequence[Sequence[int]], gap_x: float) -> list[float]:
    """The horizontal middle of each point: as near to its neighbours as its row lets it be."""
    centre = [0.0] * len(points.layer)
    for row in rows:
        x = 0.0
        for item in row:
            centre[item] = x + points.sizes[item][0] / 2
            x += points.sizes[item][0] + gap_x
        for item in row:
            centre[item] -= x / 2
    for sweep in range(_SWEEPS):
        last = sweep >= _SWEEPS - 2
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted: list[float] = []
            for item in row:
                near = points.above[item] if down else points.below[item]
                if last or not near:
                    near = points.above[item] + points.below[item]
                total = sum(points.pull(other) for other in near)
                wanted.append(
                    sum(centre[other] * points.pull(other) for other in near) / total if near else centre[item]
                )
            for item, x in zip(row, _spread(points, row, wanted, gap_x), strict=True):
                centre[item] = x
    return centre


def _spread(points: _Points, row: Sequence[int], wanted: Sequence[float], gap_x: float) -> list[float]:
    """Places in the order of the row, far enough apart, nearest to those wanted in least squares.

    With the distances taken off, that is regression by a rising function: neighbours that would change sides are
    pooled at their weighted mean.
    """
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (points.sizes[left][0] + points.sizes[right][0]) / 2 + gap_x)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for item, x, offset in zip(row, wanted, offsets, strict=True):
        mean, weight, members = x - offset, points.pull(item), 1
        while pools and pools[-1][0] > mean:
            other, other_weight, other_members = pools.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, members = weight + other_weight, members + other_members
        pools.append((mean, weight, members))
    flat = [mean for mean, _, members in pools for _ in range(members)]
    return [x + offset for x, offset in zip(flat, offsets, strict=True)]


def _folded(
    points: _Points,
    rows: Sequence[Sequence[int]],
    centres: Sequence[float],
    heights: Sequence[float],
    gap_x: float,
    gap_y: float,
    aspect: float,
) -> list[range]:
    """Rows of each column: a tall drawing is cut like text, into as many columns as come nearest to the aspect."""
    height = sum(heights) + gap_y * (len(rows) - 1)
    extents = [_extent(points, row, centres) for row in rows]
    most = round(math.sqrt(aspect * height / max(right - left for left, right in extents))) + 2
    best, columns = math.inf, [range(len(rows))]
    for count in range(1, min(most, len(rows)) + 1):
        tried = _cut(rows, heights, gap_y, height / count)
        width = sum(_width(extents, column) + 2 * gap_x for column in tried)
        tallest = max(sum(heights[row] + gap_y for row in column) for column in tried)
        off = abs(math.log(width / tallest / aspect))
        if off < best:
            best, columns = off, tried
    return columns


def _width(extents: Sequence[tuple[float, float]], column: range) -> float:
    return max(extents[row][1] for row in column) - min(extents[row][0] for row in column)


def _cut(rows: Sequence[Sequence[int]], heights: Sequence[float], gap_y: float, target: float) -> list[range]:
    """Columns of about a height; cut where a row is thin, in the last fifth of each."""
    columns: list[range] = []
    start = 0
    while start < len(rows):
        used, stop, cuts = 0.0, start, []
        while stop < len(rows) and (used < target or stop == start):
            used += heights[stop] + gap_y
            stop += 1
            if used > 0.8 * target:
                cuts.append(stop)
        if stop < len(rows):
            stop = min(reversed(cuts), key=lambda row: len(rows[row]))
        columns.append(range(start, stop))
        start = stop
    return columns


def _extent(points: _Points, row: Sequence[int], centres: Sequence[float]) -> tuple[float, float]:
    left = min(centres[item] - points.sizes[item][0] / 2 for item in row)
    return left, max(centres[item] + points.sizes[item][0] / 2 for item in row)


def _drawing(
    points: _Points,
    pairs: Sequence[tuple[int, int]],
    rows: Sequence[Sequence[int]],
    centres: Sequence[float],
    heights: Sequence[float],
    columns: Sequence[range],
    gap_x: float,
    gap_y: float,
) -> Drawing:
    middle: list[tuple[float, float]] = [(0.0, 0.0)] * len(points.layer)
    tops = [0.0] * len(rows)
    lanes: list[float] = []
    lane_of = [0] * len(rows)
    left_border, tallest = 0.0, 0.0
    for number, column in enumerate(columns):
        extents = [_extent(points, rows[row], centres) for row in column]
        left, right = min(one[0] for one in extents), max(one[1] for one in extents)
        y = 0.0
        for row in column:
            tops[row], lane_of[row] = y, number
            for item in rows[row]:
                middle[item] = (left_border + centres[item] - left, y + heights[row] / 2)
            y += heights[row] + gap_y
        tallest = max(tallest, y - gap_y)
        lanes.append(left_border - gap_x)  # to the left of the column, where nothing stands
        left_border += right - left + 2 * gap_x
    positions = [
        (middle[box][0] - points.sizes[box][0] / 2, middle[box][1] - points.sizes[box][1] / 2)
        for box in range(points.boxes)
    ]
    ways = _Ways(points, middle, tops, heights, lanes, lane_of, gap_y)
    return Drawing(positions, {pair: ways.route(*pair) for pair in pairs}, left_border - 2 * gap_x, tallest)


@dataclass(frozen=True, slots=True)
class _Ways:
    """Ways of edges that cross no box: straight through rows, bent between them, along the lanes between columns."""

    points: _Points
    middle: Sequence[tuple[float, float]]
    tops: Sequence[float]
    heights: Sequence[float]
    lanes: Sequence[float]
    lane_of: Sequence[int]
    gap_y: float

    def route(self, source: int, target: int) -> list[tuple[float, float]]:
        """Points between the lower border of a box and the upper border of another one."""
        stops = [source, *self.points.route(source, target), target]
        found: list[tuple[float, float]] = []
        for upper, lower in pairwise(stops):
            above, below = self.points.layer[upper], self.points.layer[lower]
            x0, x1 = self.middle[upper][0], self.middle[lower][0]
            bottom, top = self.tops[above] + self.heights[above], self.tops[below]
            found.append((x0, bottom))
            if self.lane_of[above] != self.lane_of[below]:
                lane = self.lanes[self.lane_of[below]]
                low, high = bottom + self.gap_y / 2, top - self.gap_y / 2
                found += [(x0, low), (lane, low), (lane, high), (x1, high)]
            found.append((x1, top))
        return found
