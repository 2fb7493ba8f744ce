"""Layered drawings: nothing overlaps, edges go down, lines cross no box, tall drawings are folded."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ort_py.inspection.placement.layered import Drawing, draw

BOX = (100.0, 40.0)


def drawn(count: int, edges: list[tuple[int, int]], aspect: float = 1.5) -> Drawing:
    """Equal boxes."""
    return draw([BOX] * count, edges, gap_x=20, gap_y=30, aspect=aspect)


def random_graph(count: int, seed: int) -> list[tuple[int, int]]:
    """Each node reads one or two before it, mostly near ones."""
    rng = np.random.default_rng(seed)
    back = 1 + np.minimum(rng.geometric(0.4, (count, 2)), 30)
    return [(node - int(step), node) for node in range(count) for step in back[node] if node >= step]


def overlap(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """Whether two boxes do."""
    return abs(a[0] - b[0]) < BOX[0] - 0.01 and abs(a[1] - b[1]) < BOX[1] - 0.01


def test_boxes_do_not_overlap() -> None:
    for seed in range(5):
        drawing = drawn(60, random_graph(60, seed))
        assert not any(overlap(a, b) for a, b in combinations(drawing.positions, 2))


def test_everything_is_within_the_drawing() -> None:
    """Width and height hold all boxes."""
    drawing = drawn(60, random_graph(60, 7))
    assert min(x for x, _ in drawing.positions) >= -0.01
    assert max(x for x, _ in drawing.positions) + BOX[0] <= drawing.width + 0.01
    assert max(y for _, y in drawing.positions) + BOX[1] <= drawing.height + 0.01


def test_readers_are_below() -> None:
    """In a drawing that is not folded."""
    edges = random_graph(60, 3)
    positions = drawn(60, edges, aspect=1e-3).positions
    assert all(positions[source][1] < positions[target][1] for source, target in edges)


def test_lines_cross_no_box() -> None:
    """Each point where a line bends lies outside of all boxes, that it comes from and goes to included."""
    drawing = drawn(80, random_graph(80, 11))
    for points in drawing.routes.values():
        for x, y in points:
            inside = [
                (left, top)
                for left, top in drawing.positions
                if left + 0.1 < x < left + BOX[0] - 0.1 and top + 0.1 < y < top + BOX[1] - 0.1
            ]
            assert not inside


def test_a_chain_is_straight() -> None:
    """And a line past it stays beside it."""
    chain = [(node, node + 1) for node in range(9)]
    positions = drawn(10, chain, aspect=1e-3).positions
    assert np.ptp([x for x, _ in positions]) < 0.5


def test_tall_drawings_are_folded() -> None:
    """A chain of 400 is about as wide as a screen."""
    drawing = drawn(400, [(node, node + 1) for node in range(399)])
    assert 0.7 < drawing.width / drawing.height < 3


def test_few_crossings() -> None:
    """Two chains that were numbered crosswise are drawn side by side."""
    edges = [(0, 3), (1, 2), (2, 5), (3, 4)]
    positions = drawn(6, edges, aspect=1e-3).positions
    order = [positions[left][0] < positions[right][0] for left, right in ((0, 1), (3, 2), (4, 5))]
    assert len(set(order)) == 1


def test_nothing_to_draw() -> None:
    """An empty graph has an empty drawing."""
    assert draw([], [], gap_x=1, gap_y=1) == Drawing([], {}, 0.0, 0.0)
