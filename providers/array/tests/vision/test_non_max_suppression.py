"""NonMaxSuppression against onnxruntime: thresholds, ties, both layouts, many boxes; its one loop; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_array.vision import non_max_suppression

from ..oracle import DEFINITIONS, agree, i64, run
from ..runtime_oracle import agree_with_runtime


def boxes_of(seed: int, images: int, count: int, centred: bool) -> Any:
    """Boxes that overlap a lot, some of them equal; of corners, in any order."""
    generator = np.random.default_rng(seed)
    middle, size = generator.uniform(0, 10, (images, count, 2)), generator.uniform(0.5, 6, (images, count, 2))
    if centred:
        boxes = np.concatenate((middle, size), axis=2)
    else:
        boxes = np.concatenate((middle - size / 2, middle + size / 2), axis=2)
        turned = generator.random((images, count)) < 0.3
        boxes[turned] = boxes[turned][:, [2, 3, 0, 1]]
    return np.rint(boxes * 2).astype(np.float32) / 2


def scores_of(seed: int, images: int, classes: int, count: int, steps: int = 8) -> Any:
    """Scores with many ties."""
    return np.random.default_rng(seed).integers(0, steps, (images, classes, count)).astype(np.float32) / steps


def f32(value: float) -> Any:
    """One number."""
    return np.array([value], np.float32)


@pytest.mark.parametrize("center_point_box", [0, 1])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    images=st.integers(1, 2),
    classes=st.integers(1, 3),
    count=st.integers(1, 60),
    most=st.integers(0, 12),
    iou=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    score=st.sampled_from([None, 0.0, 0.5, 2.0]),
    opset=st.sampled_from([10, 11]),
    seed=st.integers(0, 1000),
)
def test_selections_equal_onnxruntime(
    center_point_box: int,
    images: int,
    classes: int,
    count: int,
    most: int,
    iou: float,
    score: float | None,
    opset: int,
    seed: int,
) -> None:
    """Boxes, classes and thresholds together; the order of equal scores, too."""
    inputs = [boxes_of(seed, images, count, bool(center_point_box)), scores_of(seed, images, classes, count)]
    inputs += [i64(most), f32(iou)] + ([] if score is None else [f32(score)])
    agree_with_runtime("NonMaxSuppression", inputs, opset=opset, center_point_box=center_point_box)


@pytest.mark.parametrize(
    ("count", "most", "score"), [(700, 700, None), (700, 40, None), (700, 700, 0.2), (3000, 20, 0.5)]
)
def test_many_boxes_equal_onnxruntime(count: int, most: int, score: float | None) -> None:
    """Several stretches of candidates, those of different lengths together."""
    boxes, scores = boxes_of(0, 2, count, True) * 2, scores_of(1, 2, 3, count, 1000)
    scores[1, 1] *= 0.3
    boxes[..., 2:] /= 6
    inputs = [boxes, scores, i64(most), f32(0.3)] + ([] if score is None else [f32(score)])
    agree_with_runtime("NonMaxSuppression", inputs, opset=11, center_point_box=1)


def test_the_best_candidates_may_not_be_enough() -> None:
    """Where one place holds all the best boxes, the rest is looked at, and only there."""
    generator = np.random.default_rng(0)
    boxes = np.concatenate((generator.uniform(0, 100, (1, 1000, 2)), np.ones((1, 1000, 2))), axis=2).astype(np.float32)
    scores = generator.random((1, 2, 1000)).astype(np.float32)
    scores[0, 0, :600] += 1
    boxes[0, :600, :2] = 50
    inputs = [boxes, scores, i64(30), f32(0.5)]
    agree_with_runtime("NonMaxSuppression", inputs, opset=11, center_point_box=1)
    agree_with_runtime("NonMaxSuppression", [*inputs, f32(0.1)], opset=11, center_point_box=1)


def test_selections_equal_the_reference() -> None:
    """A second opinion on ties and on the score threshold, which a score must exceed."""
    inputs = [boxes_of(3, 2, 12, False), scores_of(3, 2, 2, 12), i64(4), f32(0.25), f32(0.25)]
    agree("NonMaxSuppression", inputs, opset=11)


def test_boxes_without_area_are_kept() -> None:
    """They overlap nothing, not even each other."""
    boxes = np.zeros((1, 3, 4), np.float32)
    (y,) = run("NonMaxSuppression", [boxes, np.ones((1, 1, 3), np.float32), i64(5), f32(0.0)])
    assert y.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2]]


def test_boxes_without_bounds_end() -> None:
    """Infinity and NaN overlap nothing and stop nothing."""
    boxes = np.array([[[0, 0, np.inf, np.inf], [0, 0, 1, 1], [np.nan, 0, 1, 1]]], np.float32)
    (y,) = run("NonMaxSuppression", [boxes, np.ones((1, 1, 3), np.float32), i64(5), f32(0.5)])
    assert y.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2]]


@pytest.mark.parametrize("shape", [(0, 2, 3), (1, 0, 3), (1, 2, 0)])
def test_nothing_in_nothing_out(shape: tuple[int, int, int]) -> None:
    inputs = [np.zeros((shape[0], shape[2], 4), np.float32), np.zeros(shape, np.float32), i64(5)]
    (y,) = run("NonMaxSuppression", inputs)
    assert (y.shape, y.dtype) == ((0, 3), np.int64)


@pytest.mark.parametrize("most", [None, i64(0), i64(-3), i64(), np.array(0)])
def test_without_a_number_of_boxes_there_are_none(most: Any) -> None:
    """The default is not an output; a scalar is accepted as the number, too."""
    inputs = [boxes_of(0, 1, 5, False), scores_of(0, 1, 1, 5), most]
    assert run("NonMaxSuppression", inputs)[0].shape == (0, 3)


def test_the_loop_goes_over_selected_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that are not selected cost no step: overlaps are computed for whole stretches."""
    calls = 0
    overlap = non_max_suppression._Boxes.overlap

    def counted(self: Any, other: Any, threshold: Any) -> Any:
        nonlocal calls
        calls += 1
        return overlap(self, other, threshold)

    monkeypatch.setattr(non_max_suppression._Boxes, "overlap", counted)
    inputs = [boxes_of(0, 1, 2000, True), scores_of(0, 1, 80, 2000, 1000), i64(100), f32(0.3), f32(0.5)]
    (y,) = run("NonMaxSuppression", inputs, center_point_box=1)
    assert y.shape[0] > 100
    assert calls < 100


def test_all_is_read_on_the_host() -> None:
    """The result's size and every step depend on the data."""
    definition = next(d for d in DEFINITIONS if d.op_type == "NonMaxSuppression")
    assert definition.host_inputs == frozenset(range(5))
    assert definition.host_outputs == {0}


BOXES, SCORES = boxes_of(0, 1, 5, False), scores_of(0, 1, 1, 5)


@pytest.mark.parametrize(
    ("inputs", "attributes", "text"),
    [
        ([BOXES[0], SCORES], {}, r"boxes of shape \(n, b, 4\)[\s\S]*what to do"),
        ([BOXES[:, :, :3], SCORES], {}, r"boxes of shape \(n, b, 4\)[\s\S]*what to do"),
        ([BOXES, SCORES[0]], {}, r"scores of shape \(n, classes, b\)[\s\S]*what to do"),
        ([BOXES[:, :4], SCORES], {}, r"\(1, 4, 4\), \(1, 1, 5\)[\s\S]*what to do"),
        ([BOXES, SCORES, i64(1), f32(1.5)], {}, r"iou_threshold is 1.5[\s\S]*in \[0, 1\]"),
        ([BOXES, SCORES, i64(1), f32(np.nan)], {}, r"iou_threshold is nan[\s\S]*in \[0, 1\]"),
        ([BOXES, SCORES, i64(1, 2)], {}, r"max_output_boxes_per_class has the shape \[2\][\s\S]*single number"),
        ([BOXES, SCORES, i64(1)], {"center_point_box": 2}, r"center_point_box is 2[\s\S]*centre and size"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: list[Any], attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        run("NonMaxSuppression", inputs, **attributes)
