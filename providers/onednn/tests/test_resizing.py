"""Nearest pixels: the definition for sizes that are no multiple of the picture's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.execution.plan import Plan
from ort_py_onednn.graph.resampling import repeated_places
from ort_py_onednn.lowering import resizing
from providers.onednn.tests.models import model, node, open_session, run_here, run_plain

RNG = np.random.default_rng(31)


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


def _resize(inputs: str, output: str, rounding: str = "floor") -> Any:
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
    return node("Resize", f"{inputs} - - s", output, mode="nearest", **attributes)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_ceil"])
@pytest.mark.parametrize("sizes", [(11, 17), (12, 17), (6, 17), (16, 9), (13, 29), (7, 10), (5, 17), (11, 26)], ids=str)
def test_pixels_are_those_of_the_definition(sizes: tuple[int, int], rounding: str) -> None:
    """Some are repeated less often than others: the last ones, the first ones, or some between."""
    feeds = {"x": _f(2, 16, 6, 9)}
    data = model([_resize("x", "y", rounding)], feeds, {"s": np.array((2, 16, *sizes), np.int64)})
    np.testing.assert_array_equal(run_here(data, feeds)[0], run_plain(data, feeds)[0])


@pytest.mark.parametrize("shape", [(1, 16, 9), (1, 16, 4, 3, 5)], ids=str)
def test_lines_and_volumes(shape: tuple[int, ...]) -> None:
    """All axes but one of each are repeated twice."""
    feeds = {"x": _f(*shape)}
    sizes = np.array((*shape[:2], *(2 * size - 1 for size in shape[2:])), np.int64)
    data = model([_resize("x", "y")], feeds, {"s": sizes})
    wanted = feeds["x"]
    for axis in range(2, len(shape)):
        wanted = wanted.repeat(2, axis).take(range(2 * shape[axis] - 1), axis)
    np.testing.assert_array_equal(run_here(data, feeds)[0], wanted)


@pytest.mark.parametrize("sizes", [(11, 17), (12, 18), (12, 17)], ids=str)
def test_pictures_of_a_convolution_are_resized_as_they_lie(plans: list[Plan], sizes: tuple[int, int]) -> None:
    """As in the neck of a detector: what is resized is put beside another picture, and read by a convolution. No row or
    column takes a step of its own."""
    feeds = {"x": _f(1, 16, 6, 9), "z": _f(1, 16, *sizes)}
    nodes = [
        node("Conv", "x w", "c"),
        _resize("c", "r"),
        node("Concat", "r z", "j", axis=1),
        node("Conv", "j v", "y", pads=[1, 1, 1, 1]),
    ]
    constants = {"w": _f(16, 16, 1, 1), "v": _f(16, 32, 3, 3) / 9, "s": np.array((1, 16, *sizes), np.int64)}
    data = model(nodes, feeds, constants)
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])
    assert all(len(plan.steps) < 12 for plan in plans)


def test_many_copies_of_rows_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that are met in a run may need a step for each row, and planning of many takes minutes: it is declined."""
    monkeypatch.setattr(resizing, "_MOST_COPIES", 8)
    feeds = {"x": _f(1, 16, 9, 9), "t": _f(1, 16, 13, 13)}
    nodes = [node("Relu", "x", "a"), node("Shape", "t", "s"), _resize("a", "y")]
    with open_session(model(nodes, feeds, dynamic=True)) as session:
        found = session.run(None, feeds)[0]
        assert not session.fallback_report
        assert "declined 1 run(s)" in session.plan
    rows = np.arange(13) * 9 // 13
    np.testing.assert_array_equal(found, np.maximum(feeds["x"], 0)[:, :, rows][..., rows])


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([0, 0, 1, 1, 2, 2, 3], (2, 0)),
        ([0, 1, 1, 2, 2, 3, 3], (2, 1)),
        ([1, 2, 3], (1, 1)),
        ([0, 1, 2, 3], (1, 0)),
        ([0, 2], None),
        ([0, 0, 1, 2, 2, 3], None),
    ],
)
def test_repeated_elements_are_a_range(places: list[int], expected: tuple[int, int] | None) -> None:
    """Of all elements, each repeated as often."""
    assert repeated_places(4, np.array(places)) == expected
