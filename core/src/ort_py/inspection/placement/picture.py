"""The picture of a placement: nodes within the frames of their islands, islands within the sheets of their graphs.

Comes after `islands`, uses `layered` twice: for the nodes of each island, then for the islands of each graph. It is
independent of colours or of how a page draws it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ort_py.inspection.placement.flow import Flow
from ort_py.inspection.placement.islands import Island
from ort_py.inspection.placement.layered import ASPECT, Drawing, draw
from ort_py.lazy_dataclass import dataclass

NODE_WIDTH, NODE_HEIGHT = 152.0, 40.0
_PADDING, _HEADING = 18.0, 30.0
_SHEET_PADDING, _SHEET_GAP = 40.0, 130.0
_GATE = (8.0, 1.0)
_TRIED = 40
_MIN_ISLAND = 210.0
"""Width in which the heading of an island's frame is readable."""


@dataclass(slots=True)
class Box:
    """A place: left and upper border, width and height."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from a node to one that reads it."""

    source: int
    target: int
    points: list[tuple[float, float]]
    crosses: bool


@dataclass(slots=True)
class Picture:
    """Positions of everything in the picture.

    Attributes:
        edges: Lines between nodes of one graph.
        links: Lines between islands: (source, target, points).
    """

    nodes: list[Box]
    islands: list[Box]
    sheets: list[Box]
    edges: list[Edge] = field(default_factory=list)
    links: list[tuple[int, int, list[tuple[float, float]]]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


def picture_of(flow: Flow, islands: Sequence[Island]) -> Picture:
    """Lay out a placement."""
    count = sum(len(graph.nodes) for graph in flow.graphs)
    picture = Picture(
        [Box(0.0, 0.0, NODE_WIDTH, NODE_HEIGHT) for _ in range(count)],
        [Box(0.0, 0.0, 0.0, 0.0) for _ in islands],
        [Box(0.0, 0.0, 0.0, 0.0) for _ in flow.graphs],
    )
    island_of = {node: island.number for island in islands for node in island.nodes}
    inner: dict[int, list[tuple[int, int]]] = {island.number: [] for island in islands}
    outer: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for source, target in sorted(set(flow.edges())):
        here, there = island_of[source], island_of[target]
        if here == there:
            inner[here].append((source, target))
        else:
            outer.setdefault((here, there), []).append((source, target))
    leaving: dict[int, set[int]] = {}
    entering: dict[int, set[int]] = {}
    for (here, there), pairs in outer.items():
        leaving.setdefault(here, set()).update(source for source, _ in pairs)
        entering.setdefault(there, set()).update(target for _, target in pairs)
    drawings = {
        island.number: _island(
            picture,
            island,
            inner[island.number],
            sorted(entering.get(island.number, ())),
            sorted(leaving.get(island.number, ())),
        )
        for island in islands
    }
    sheets = _sheets(picture, flow, islands, outer)
    _place(picture, sheets)
    _move_contents(picture, islands, inner, outer, drawings, sheets)
    return picture


def _island(
    picture: Picture, island: Island, edges: Sequence[tuple[int, int]], entering: Sequence[int], leaving: Sequence[int]
) -> Drawing:
    """Lay out an island's nodes, and behind them two gates: what enters comes from the first, what leaves goes to the
    second. So lines find their way between the nodes."""
    number = {node: position for position, node in enumerate(island.nodes)}
    count = len(island.nodes)
    sizes = [(NODE_WIDTH, NODE_HEIGHT)] * count
    pairs = [(number[source], number[target]) for source, target in edges]
    sizes = [*sizes, *([_GATE] if entering else []), *([_GATE] if leaving else [])]
    pairs += [(count, number[target]) for target in entering]
    pairs += [(number[source], len(sizes) - 1) for source in leaving]
    drawing = draw(sizes, pairs, gap_x=22.0, gap_y=26.0)
    box = picture.islands[island.number]
    box.width = max(drawing.width + 2 * _PADDING, _MIN_ISLAND)
    box.height = drawing.height + 2 * _PADDING + _HEADING
    return drawing


@dataclass(frozen=True, slots=True)
class _Sheet:
    members: list[int]
    drawing: Drawing


def _sheets(
    picture: Picture, flow: Flow, islands: Sequence[Island], outer: dict[tuple[int, int], list[tuple[int, int]]]
) -> list[_Sheet]:
    members: list[list[int]] = [[] for _ in flow.graphs]
    for island in islands:
        members[island.graph].append(island.number)
    between: list[list[tuple[int, int]]] = [[] for _ in flow.graphs]
    for here, there in outer:
        between[islands[here].graph].append((here, there))
    found: list[_Sheet] = []
    for number, group in enumerate(members):
        position = {island: place for place, island in enumerate(group)}
        drawing = draw(
            [(picture.islands[island].width, picture.islands[island].height) for island in group],
            [(position[here], position[there]) for here, there in between[number]],
            gap_x=44.0,
            gap_y=54.0,
        )
        box = picture.sheets[number]
        box.width = max(drawing.width, 320.0) + 2 * _SHEET_PADDING
        box.height = drawing.height + 2 * _SHEET_PADDING
        found.append(_Sheet(group, drawing))
    return found


def _place(picture: Picture, sheets: Sequence[_Sheet]) -> None:
    """Nested graphs stand below the main one, or beside it: whatever shows all of them largest on a screen."""
    if not sheets:
        return
    ends = [0.0]
    for box in picture.sheets[:_TRIED]:
        ends.append(ends[-1] + box.height + _SHEET_GAP)
    limits = [max(end, *(box.height for box in picture.sheets)) for end in ends]
    limit = min(limits, key=lambda one: _pack(picture, one))
    _pack(picture, limit)
    for box, sheet in zip(picture.sheets, sheets, strict=True):
        spare = (box.width - 2 * _SHEET_PADDING - sheet.drawing.width) / 2
        for island, (left, top) in zip(sheet.members, sheet.drawing.positions, strict=True):
            frame = picture.islands[island]
            frame.x = box.x + _SHEET_PADDING + max(0.0, spare) + left
            frame.y = box.y + _SHEET_PADDING + top


def _pack(picture: Picture, limit: float) -> float:
    """Put the sheets into columns of a height; what that takes of a screen's width or height, the larger."""
    x, y, widest = 0.0, 0.0, 0.0
    picture.width = picture.height = 0.0
    for box in picture.sheets:
        if y and y + box.height > limit:
            x, y, widest = x + widest + _SHEET_GAP, 0.0, 0.0
        box.x, box.y = x, y
        y += box.height + _SHEET_GAP
        widest = max(widest, box.width)
        picture.width = max(picture.width, box.x + box.width)
        picture.height = max(picture.height, box.y + box.height)
    return max(picture.width / ASPECT, picture.height)


def _move_contents(
    picture: Picture,
    islands: Sequence[Island],
    inner: dict[int, list[tuple[int, int]]],
    outer: dict[tuple[int, int], list[tuple[int, int]]],
    drawings: dict[int, Drawing],
    sheets: Sequence[_Sheet],
) -> None:
    """Give nodes and lines the places that follow from those of their islands."""
    contents = [_Contents(island, picture.islands[island.number], drawings[island.number]) for island in islands]
    for content in contents:
        for node, (x, y) in zip(content.island.nodes, content.drawing.positions, strict=False):
            picture.nodes[node].x, picture.nodes[node].y = content.left + x, content.top + y
        for source, target in inner[content.island.number]:
            picture.edges.append(Edge(source, target, content.route(source, target), crosses=False))
    for (here, there), pairs in outer.items():
        sheet = sheets[islands[here].graph]
        position = {island: place for place, island in enumerate(sheet.members)}
        first = sheet.members[0]
        left = picture.islands[first].x - sheet.drawing.positions[0][0]
        top = picture.islands[first].y - sheet.drawing.positions[0][1]
        route = [(left + x, top + y) for x, y in sheet.drawing.routes[position[here], position[there]]]
        picture.links.append((here, there, route))
        for source, target in pairs:
            points = [*contents[here].way_out(source), *route, *contents[there].way_in(target)]
            picture.edges.append(Edge(source, target, points, crosses=True))


class _Contents:
    """The inside of an island's frame."""

    def __init__(self, island: Island, frame: Box, drawing: Drawing) -> None:
        self.island, self.frame, self.drawing = island, frame, drawing
        self.left = frame.x + max(_PADDING, (frame.width - drawing.width) / 2)
        self.top = frame.y + _PADDING + _HEADING
        self._number = {node: position for position, node in enumerate(island.nodes)}

    def route(self, source: int, target: int) -> list[tuple[float, float]]:
        return self._moved((self._number[source], self._number[target]))

    def way_out(self, node: int) -> list[tuple[float, float]]:
        """Points from a node to the middle of the lower border."""
        gate = len(self.drawing.positions) - 1
        x, y, middle = self.left + self.drawing.positions[gate][0] + _GATE[0] / 2, self._low, self._middle
        return [
            *self._moved((self._number[node], gate)),
            (x, y),
            (middle, y),
            (middle, self.frame.y + self.frame.height),
        ]

    def way_in(self, node: int) -> list[tuple[float, float]]:
        """Points from the middle of the upper border to a node."""
        gate = len(self.island.nodes)
        x, y, middle = self.left + self.drawing.positions[gate][0] + _GATE[0] / 2, self._high, self._middle
        return [(middle, self.frame.y), (middle, y), (x, y), *self._moved((gate, self._number[node]))]

    @property
    def _middle(self) -> float:
        return self.frame.x + self.frame.width / 2

    @property
    def _low(self) -> float:
        return self.frame.y + self.frame.height - _PADDING / 2

    @property
    def _high(self) -> float:
        return self.top - _PADDING / 2

    def _moved(self, edge: tuple[int, int]) -> list[tuple[float, float]]:
        return [(self.left + x, self.top + y) for x, y in self.drawing.routes[edge]]
