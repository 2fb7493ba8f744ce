"""Regions out of a probability map: components, rectangles, scores, order. No network involved."""

from __future__ import annotations

import numpy as np

from examples.ocr.regions import MIN_SCORE, find_regions


def _map(*boxes: tuple[int, int, int, int], value: float = 0.9) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    probabilities = np.zeros((80, 120), dtype=np.float32)
    for left, top, right, bottom in boxes:
        probabilities[top:bottom, left:right] = value
    return probabilities


def test_an_empty_map_has_no_regions() -> None:
    assert find_regions(_map(), (120, 80)) == []


def test_a_box_grows_by_its_area_over_its_perimeter() -> None:
    """A 40 × 10 core grows by 40·10·2.0/(2·50) = 8 on each side, and its score is its mean."""
    (region,) = find_regions(_map((30, 30, 70, 40)), (120, 80))
    np.testing.assert_allclose(region.corners, [[22, 22], [78, 22], [78, 48], [22, 48]], atol=1e-9)
    assert abs(region.score - 0.9) < 1e-6


def test_corners_are_scaled_to_the_picture() -> None:
    """A picture of twice the size has corners at twice the place."""
    small = find_regions(_map((30, 30, 70, 40)), (120, 80))[0].corners
    large = find_regions(_map((30, 30, 70, 40)), (240, 160))[0].corners
    np.testing.assert_allclose(large, small * 2)


def test_touching_parts_are_one_region_and_others_apart() -> None:
    """A cup shape whose arms meet only at the bottom is one component; a box beside it is another."""
    cup = _map((10, 10, 14, 40), (30, 10, 34, 40), (10, 36, 34, 40), (60, 10, 100, 20))
    assert len(find_regions(cup, (120, 80))) == 2


def test_diagonal_neighbours_touch() -> None:
    """Two boxes that share one corner are one region."""
    assert len(find_regions(_map((10, 10, 30, 20), (30, 20, 50, 30)), (120, 80))) == 1


def test_runs_of_adjacent_rows_at_both_ends_do_not_touch() -> None:
    """The end of one row is not adjacent to the beginning of the next."""
    assert len(find_regions(_map((100, 10, 120, 20), (0, 20, 20, 30)), (120, 80))) == 2


def test_faint_regions_are_left_out() -> None:
    """A region above the pixel threshold whose mean is below the region's."""
    assert find_regions(_map((30, 30, 70, 40), value=MIN_SCORE - 0.1), (120, 80)) == []


def test_a_slanted_bar_gets_a_slanted_box() -> None:
    """The smallest rectangle follows a bar of 10 degrees."""
    y, x = np.mgrid[0:80, 0:120]
    angle = np.deg2rad(10)
    along = (x - 60) * np.cos(angle) + (y - 40) * np.sin(angle)
    across = -(x - 60) * np.sin(angle) + (y - 40) * np.cos(angle)
    bar = ((abs(along) < 40) & (abs(across) < 6)).astype(np.float32)
    corners = find_regions(bar, (120, 80))[0].corners
    slope = np.rad2deg(np.arctan2(*(corners[1] - corners[0])[::-1]))
    assert abs(slope - 10) < 1.5


def test_regions_come_in_reading_order() -> None:
    """From top to bottom, whatever their order in the map."""
    regions = find_regions(_map((60, 60, 100, 70), (10, 10, 50, 20), (10, 35, 50, 45)), (120, 80))
    tops = [region.corners[:, 1].min() for region in regions]
    assert tops == sorted(tops)
