"""Reductions, and operators that look for places along an axis."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Tensor, Unchecked, Violation, replaced
from ort_py.constraints.sizes import UNKNOWN, Amount, any_of, at_least, equal, less


def reduction(n: NodeScope) -> Outputs:
    """ReduceSum and its kin: axes from the attribute or the second input, all of them where none is named."""
    shape = n.shape(0)
    if "axes" in n.attributes:
        given: Dims | None = n.ints("axes")
    else:
        given = n.content(1) if n.has(1) else None
    keep = n.integer("keepdims", 1) == 1
    if not given:
        if n.integer("noop_with_empty_axes"):
            return [shape]
        gone = tuple(range(len(shape)))
    else:
        gone = n.axes(given, len(shape))
    if keep:
        return [tuple(1 if place in gone else size for place, size in enumerate(shape))]
    return [tuple(size for place, size in enumerate(shape) if place not in gone)]


def _place(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    axis = n.axis(n.integer("axis"), len(shape)) if shape else 0
    if not shape:
        return [()]
    n.require(less(0, shape[axis]), "axis {1} has {0} elements, so there is no largest one", shape[axis], axis)
    keep = n.integer("keepdims", 1) == 1
    made = replaced(shape, axis, 1) if keep else (*shape[:axis], *shape[axis + 1 :])
    return [Tensor(made, bounds=(0, shape[axis] - 1))]


def _top(n: NodeScope) -> Outputs:
    shape = n.require_rank(0, 1)
    axis = n.axis(n.integer("axis", -1), len(shape))
    if n.since_version < 10:
        count: Amount = n.integer("k")
    else:
        content = n.content(1)
        if len(content) != 1:
            raise Violation(f"k has {len(content)} elements instead of one")
        count = content[0]
    n.require(at_least(count, 0), "{} elements are asked for", count)
    n.require(at_least(shape[axis], count), "{1} of {0} elements are asked for", shape[axis], count)
    made = replaced(shape, axis, count)
    return [made, Tensor(made, bounds=(0, shape[axis] - 1))]


def _along(n: NodeScope) -> Outputs:
    """Operators that go along an axis and keep the shape: CumSum, CumProd."""
    shape = n.shape(0)
    axis = n.optional_content(1)
    if axis:
        n.axes(axis, len(shape))
    elif n.has(1):
        raise Unchecked("the axis is computed while the model runs")
    return [shape]


def _softmax(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    if shape or "axis" in n.attributes:
        n.axis(n.integer("axis", -1 if n.since_version >= 13 else 1 if len(shape) > 1 else 0), max(len(shape), 1))
    return [shape]


def _one_hot(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    depth = n.optional_content(1)
    count: Amount = depth[0] if depth else UNKNOWN
    if isinstance(count, float):
        count = int(count)
    if len(n.shape(2)) != 1:
        raise Violation("the values are not a list of two numbers")
    n.require(equal(n.shape(2)[0], 2), "there are {} values instead of two", n.shape(2)[0])
    axis = n.axis(n.integer("axis", -1), len(shape) + 1)
    if count is not UNKNOWN:
        n.require(any_of(less(0, count), equal(count, 0)), "the depth is {}", count)
    return [(*shape[:axis], count, *shape[axis:])]


_REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare"

TABLE: Mapping[tuple[str, str], Constraint] = {
    **{("", name): reduction for name in _REDUCTIONS.split()},
    ("", "ArgMax"): _place,
    ("", "ArgMin"): _place,
    ("", "CumProd"): _along,
    ("", "CumSum"): _along,
    ("", "Hardmax"): _softmax,
    ("", "LogSoftmax"): _softmax,
    ("", "OneHot"): _one_hot,
    ("", "Softmax"): _softmax,
    ("", "TopK"): _top,
}
