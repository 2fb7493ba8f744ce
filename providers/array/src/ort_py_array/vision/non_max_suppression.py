"""NonMaxSuppression: of boxes that overlap, the best; greedily, for each image and class.

Runs on the host only: how many boxes there are, and each next step, depends on the data. All images and classes take
their next box in the same step: the one loop goes over selected boxes. Candidates are looked at in the order of their
scores, a stretch at a time, so that those behind the last selected box cost only their sorting.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import shape_error
from ort_py_array.durations import ahead_of_sort

__all__ = ["KERNELS", "non_max_suppression"]

_PAIRS = 256
"""Pairs of image and class that are taken together."""
_OVERLAPS = 1 << 15
"""Overlaps of two boxes each that are computed at a time: they stay in the cache."""


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Edges and areas of boxes, in arrays of any one shape."""

    top: Any
    left: Any
    bottom: Any
    right: Any
    area: Any

    @staticmethod
    def of(boxes: Any, centred: bool) -> _Boxes:
        """From ``(…, 4)``: either two opposite corners (y, x), or the centre (x, y), width and height."""
        a, b, c, d = np.moveaxis(boxes, -1, 0)
        if centred:
            edges = b - d / 2, a - c / 2, b + d / 2, a + c / 2
        else:
            edges = np.minimum(a, c), np.minimum(b, d), np.maximum(a, c), np.maximum(b, d)
        return _Boxes(*edges, (edges[2] - edges[0]) * (edges[3] - edges[1]))

    def __getitem__(self, index: Any) -> _Boxes:
        return _Boxes(self.top[index], self.left[index], self.bottom[index], self.right[index], self.area[index])

    def overlap(self, other: _Boxes, threshold: Any) -> Any:
        """Whether the intersection over union of two sets of boxes, which broadcast, is above a threshold."""
        shared = np.minimum(self.bottom, other.bottom)
        scratch = np.maximum(self.top, other.top)
        shared -= scratch
        np.maximum(shared, 0, out=shared)
        width = np.minimum(self.right, other.right)
        width -= np.maximum(self.left, other.left, out=scratch)
        shared *= width  # not positive where either extent is not
        union = np.add(self.area, other.area, out=scratch)
        union -= shared
        shared /= union  # 0 / 0 for boxes without area: not above anything
        return shared > threshold


@dataclass(frozen=True, slots=True)
class _Edges:
    """The boxes of all images as they are given, of which most are no candidates."""

    boxes: Any
    centred: bool

    def __getitem__(self, index: Any) -> _Boxes:
        return _Boxes.of(self.boxes[index], self.centred)


def non_max_suppression(ctx: KernelContext) -> KernelCallable:
    """NonMaxSuppression-10..11: boxes ``(n, b, 4)``, scores ``(n, classes, b)`` → int64 ``(selected, 3)``.

    Each row is (image, class, box), in the order of image, class and falling score; of equal scores the first box comes
    first. A box needs a score above `score_threshold`, and is dropped where its intersection over union with a selected
    box is above `iou_threshold`. All inputs are read on the host.

    Raises:
        InvalidArgument: Shapes or thresholds that do not fit.
    """
    where = ctx.node.location
    layout = ctx.node.attributes.get("center_point_box", 0)
    if layout not in (0, 1):
        raise InvalidArgument(
            f"center_point_box is {layout}.", where=where, fix="Use 0 for two corners, or 1 for centre and size."
        )

    def run(boxes: Any, scores: Any, limit: Any = None, iou: Any = None, score: Any = None) -> Array:
        if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
            raise shape_error(
                "NonMaxSuppression needs boxes of shape (n, b, 4) and scores of shape (n, classes, b).",
                where,
                [boxes.shape, scores.shape],
            )
        most = max(0, int(_scalar(ctx, "max_output_boxes_per_class", limit, 0)))
        threshold = _scalar(ctx, "iou_threshold", iou, 0.0)
        if not 0 <= threshold <= 1:
            raise InvalidArgument(f"iou_threshold is {threshold:g}.", where=where, fix="It must be in [0, 1].")
        least = None if score is None else _scalar(ctx, "score_threshold", score, 0.0)
        if most == 0 or scores.size == 0:
            return np.zeros((0, 3), np.int64)
        classes, size = scores.shape[1:]
        # Boxes without area or bounds divide by zero: they overlap nothing.
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            edges = _Edges(boxes.reshape(-1, 4), layout == 1)
            ahead_of_sort(ctx, 1, scores.size)  # of all pairs at once
            pairs, chosen = _select_best(ctx, edges, scores, least, most, boxes.dtype.type(threshold))
        return np.stack((pairs // classes, pairs % classes, chosen % size), -1).astype(np.int64)

    return run


def _scalar(ctx: KernelContext, name: str, value: Any, default: Any) -> Any:
    if value is None or value.size == 0:
        return default
    if value.size != 1:
        raise InvalidArgument(
            f"{name} has the shape {list(value.shape)}.", where=ctx.node.location, fix="Feed a single number."
        )
    return value.reshape(()).item()


@dataclass(frozen=True, slots=True)
class _Queue:
    """Candidates of all pairs of image and class, sorted by pair and falling score.

    Attributes:
        boxes: Index of each candidate's box among those of all images.
        starts: Where each pair's candidates begin; one entry more than pairs.
    """

    boxes: Any
    starts: Any

    @staticmethod
    def of(scores: Any, wanted: Any) -> _Queue:
        """The candidates of `scores` ``(images, classes, boxes)`` where `wanted`, of the same shape."""
        images, classes, size = scores.shape
        found = np.flatnonzero(wanted)
        found = found[np.argsort(-scores.reshape(-1)[found], kind="stable")]
        pairs = found // size
        # Small integers are sorted in linear time.
        small = pairs.astype(np.uint16) if images * classes <= 1 << 16 else pairs
        order = np.argsort(small, kind="stable")
        found, pairs = found[order], pairs[order]
        starts = np.concatenate(([0], np.cumsum(np.bincount(pairs, minlength=images * classes))))
        return _Queue(pairs // classes * size + found % size, starts)


_SPARE = 4
"""How many times more candidates than boxes may be selected are sorted at first, where there are many more still."""
_FEW = 8
"""How many times more scores than candidates there are where all candidates are sorted at once."""


def _select_best(
    ctx: KernelContext, edges: _Edges, scores: Any, least: float | None, most: int, threshold: Any
) -> tuple[Any, Any]:
    """(pairs, boxes) of what is selected, by pair and in the order of selection."""
    wanted = np.ones(scores.shape, np.bool_) if least is None else scores > scores.dtype.type(least)
    first = max(64, _SPARE * most)
    if scores.shape[2] <= 2 * first or np.count_nonzero(wanted) * _FEW <= scores.size:
        return _select(ctx, edges, _Queue.of(scores, wanted), most, threshold)
    # Usually the best candidates are enough. Those equal to the last of them belong to them, whatever their order.
    bound = np.partition(scores, -first, axis=-1)[..., -first, None]
    pairs, chosen = _select(ctx, edges, _Queue.of(scores, wanted & (scores >= bound)), most, threshold)
    short = np.bincount(pairs, minlength=bound.size) < most
    short &= (wanted & ~(scores >= bound)).any(axis=-1).reshape(-1)
    if not short.any():
        return pairs, chosen
    wanted &= short.reshape(*scores.shape[:2], 1)
    again = _select(ctx, edges, _Queue.of(scores, wanted), most, threshold)
    done = ~short[pairs]
    pairs, chosen = np.concatenate((pairs[done], again[0])), np.concatenate((chosen[done], again[1]))
    order = np.argsort(pairs, kind="stable")
    return pairs[order], chosen[order]


def _select(ctx: KernelContext, edges: _Edges, queue: _Queue, most: int, threshold: Any) -> tuple[Any, Any]:
    """(pairs, boxes) of what is selected, in the order of selection within a pair."""
    waiting = np.flatnonzero(np.diff(queue.starts))
    found = [
        _select_some(ctx, edges, queue, waiting[start : start + _PAIRS], most, threshold)
        for start in range(0, waiting.size, _PAIRS)
    ]
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([pairs for pairs, _ in found]), np.concatenate([boxes for _, boxes in found])


def _select_some(
    ctx: KernelContext, edges: _Edges, queue: _Queue, pairs: Any, most: int, threshold: Any
) -> tuple[Any, Any]:
    """`_select` for some pairs: a stretch of each one's candidates at a time."""
    place, end = queue.starts[pairs], queue.starts[pairs + 1]
    taken = np.zeros(pairs.size, np.int64)
    rows, boxes = np.zeros(0, np.int64), np.zeros(0, np.int64)  # of what is selected, by row
    active = np.arange(pairs.size)
    while active.size:
        ctx.check_time()
        length = min(max(32, min(256, isqrt(_OVERLAPS // active.size))), int((end - place)[active].max()))
        positions = place[active, None] + np.arange(length)
        alive = positions < end[active, None]
        stretch = queue.boxes[np.minimum(positions, queue.boxes.size - 1)]
        seen = edges[stretch]
        _suppress(edges, seen, alive, (np.cumsum(taken) - taken)[active], taken[active], boxes, threshold)
        among = seen[:, :, None].overlap(seen[:, None, :], threshold)
        chosen = _greedy(among, alive, (most - taken[active]).tolist())
        found = active[chosen // length]
        taken += np.bincount(found, minlength=taken.size)
        rows, boxes = np.concatenate((rows, found)), np.concatenate((boxes, stretch.reshape(-1)[chosen]))
        order = np.argsort(rows, kind="stable")
        rows, boxes = rows[order], boxes[order]
        place[active] += length
        active = active[(place[active] < end[active]) & (taken[active] < most)]
    return pairs[rows], boxes


def _greedy(among: Any, alive: Any, room: list[int]) -> Any:
    """Flat positions in `alive` that are selected, row by row from the left, at most `room` a row.

    A row of candidates is one Python integer, bit by bit: selecting one is a few operations on integers.

    Args:
        among: Shape ``(rows, length, length)``: whether two candidates overlap.
        alive: Shape ``(rows, length)``: which candidates may be selected.
        room: How many of each row may be.
    """
    length = alive.shape[1]
    width = (length + 7) // 8
    overlaps = np.packbits(among, axis=-1, bitorder="little").tobytes()
    left = np.packbits(alive, axis=-1, bitorder="little").tobytes()
    chosen = []
    for row, most in enumerate(room):
        candidates = int.from_bytes(left[row * width : (row + 1) * width], "little")
        for _ in range(most):
            if not candidates:
                break
            first = candidates & -candidates
            position = row * length + first.bit_length() - 1
            chosen.append(position)
            dropped = int.from_bytes(overlaps[position * width : (position + 1) * width], "little")
            candidates &= ~(dropped | first)  # a box without area does not overlap itself
    return np.array(chosen, np.int64)


def _suppress(edges: _Edges, seen: _Boxes, alive: Any, first: Any, count: Any, boxes: Any, threshold: Any) -> None:
    """Take out of `alive` what overlaps boxes of earlier stretches: `count` a row, from `first` on."""
    step = max(1, _OVERLAPS // alive.size)
    total = int(count.max())
    for start in range(0, total, step):
        rank = start + np.arange(min(step, total - start))
        before = edges[boxes[np.minimum(first[:, None] + rank, boxes.size - 1)]]
        wide = before[:, None, :].overlap(seen[:, :, None], threshold)
        wide &= (rank < count[:, None])[:, None, :]
        alive &= ~wide.any(axis=2)


KERNELS = [
    KernelDef(
        "NonMaxSuppression",
        non_max_suppression,
        since=10,
        until=11,
        host_inputs=frozenset(range(5)),
        host_outputs=frozenset({0}),
        implementation=f"{__name__}:non_max_suppression",
    )
]
