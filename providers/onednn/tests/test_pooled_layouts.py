"""Pools of plain arrays: results that have a closed form, and code that was generated for the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.execution.plan import Plan
from providers.onednn.tests.models import model, node, run_here

RNG = np.random.default_rng(41)


def _computes_fast(plans: list[Plan]) -> bool:
    """Whether what does more than move elements was generated for the processor."""
    made = [one for plan in plans for step in plan.steps if isinstance(one := step.primitive, Primitive)]
    work = [one for one in made if one._call != "reorder"]
    return bool(work) and all(one.is_tuned for one in work)


def _windows(x: np.ndarray[Any, Any], rank: int) -> np.ndarray[Any, Any]:
    """Windows of two elements along each spatial axis, two apart: (..., elements of a window)."""
    for axis in range(2, 2 + rank):
        places = [2 * place for place in range(x.shape[axis] // 2)]
        x = np.stack([x.take(places, axis), x.take([place + 1 for place in places], axis)], -1)
    return x.reshape(*x.shape[: 2 + rank], -1)


@pytest.mark.parametrize(
    "shape",
    [(2, 5, 64), (1, 3, 22, 18), (2, 16, 12, 10), (1, 6, 8, 6, 10), (5, 1, 14, 16), (1, 8, 30), (2, 24, 4, 6, 8)],
)
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_plain_pictures_are_pooled_in_fast_code(plans: list[Plan], op_type: str, shape: tuple[int, ...]) -> None:
    """Lines, pictures and volumes, and a batch of pictures of one channel."""
    rank = len(shape) - 2
    feeds = {"x": RNG.standard_normal(shape).astype(np.float32)}
    nodes = [node(op_type, "x", "p", kernel_shape=[2] * rank, strides=[2] * rank), node("Relu", "p", "y")]
    (found,) = run_here(model(nodes, feeds), feeds)
    windows = _windows(feeds["x"], rank)
    assert_close(found, np.maximum(windows.max(-1) if op_type == "MaxPool" else windows.mean(-1), 0))
    assert _computes_fast(plans)


@pytest.mark.parametrize("shape", [(2, 5, 64), (1, 48, 7, 7), (3, 1, 20, 30), (1, 6, 8, 6, 10), (2, 3, 80, 100)])
@pytest.mark.parametrize("op_type", ["GlobalMaxPool", "GlobalAveragePool"])
def test_plain_pictures_are_pooled_as_rows(plans: list[Plan], op_type: str, shape: tuple[int, ...]) -> None:
    """Whole pools lie in a row, and an operand follows."""
    rank = len(shape) - 2
    feeds = {"x": RNG.standard_normal(shape).astype(np.float32), "z": np.ones((shape[1], *(1,) * rank), np.float32)}
    (found,) = run_here(model([node(op_type, "x", "p"), node("Add", "p z", "y")], feeds), feeds)
    axes = tuple(range(2, 2 + rank))
    wide = feeds["x"].astype(np.float64)
    wanted = wide.max(axes, keepdims=True) if op_type == "GlobalMaxPool" else wide.mean(axes, keepdims=True)
    assert_close(found, (wanted + 1).astype(np.float32))
    assert _computes_fast(plans)


@pytest.mark.parametrize("place", [0, 3, 1000])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_largest_of_a_row_is_exact(value: float, place: int) -> None:
    """NaN at any place, infinities, and rows that hold nothing but one of them."""
    x = RNG.standard_normal((2, 3, 13, 77)).astype(np.float32)
    x.reshape(-1)[place] = value
    x[1, 1] = value
    x[1, 2] = np.finfo(np.float32).min
    with ort.InferenceSession(model([node("GlobalMaxPool", "x", "y")], {"x": x})) as session:
        (found,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(found, x.max((2, 3), keepdims=True))


@pytest.mark.parametrize("axes", [(0,), (1,), (3,), (0, 2), (0, 3), (1, 3), (0, 1, 3), (0, 2, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"])
def test_any_axes_are_reduced_in_fast_code(plans: list[Plan], op_type: str, axes: tuple[int, ...]) -> None:
    """Neighbours at once, others one after the other, of a value that is computed."""
    x = RNG.standard_normal((4, 6, 10, 12)).astype(np.float32)
    nodes = [node("Abs", "x", "a"), node(op_type, "a axes", "r", keepdims=0), node("Neg", "r", "y")]
    (found,) = run_here(model(nodes, {"x": x}, {"axes": np.array(axes)}), {"x": x})
    reduced: Any = {"ReduceMax": np.max, "ReduceMean": np.mean, "ReduceMin": np.min, "ReduceSum": np.sum}[op_type]
    assert_close(found, -np.asarray(reduced(np.abs(x).astype(np.float64), axis=axes), np.float32))
    assert _computes_fast(plans)


@pytest.mark.parametrize("axes", [(1,), (2,), (0, 2)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_extremes_are_exact(op_type: str, value: float, axes: tuple[int, ...]) -> None:
    """NaN and infinities, alone and among other numbers, and rows of nothing but the largest and the lowest number."""
    x = RNG.standard_normal((6, 8, 40)).astype(np.float32)
    x[1, 2, 3] = value
    x[2], x[3], x[4] = value, np.finfo(np.float32).max, np.finfo(np.float32).min
    data = model([node(op_type, "x axes", "y")], {"x": x}, {"axes": np.array(axes)})
    with ort.InferenceSession(data) as session:
        (found,) = session.run(None, {"x": x})
    reduced = np.max if op_type == "ReduceMax" else np.min
    np.testing.assert_array_equal(found, reduced(x, axis=axes, keepdims=True))


def test_one_channel_is_left_to_others() -> None:
    """oneDNN's code for it is portable, and slower than NumPy's kernel."""
    x = RNG.standard_normal((1, 1, 30, 40)).astype(np.float32)
    data = model([node("MaxPool", "x", "y", kernel_shape=[3, 3], pads=[1] * 4)], {"x": x})
    with ort.InferenceSession(data, providers=["DnnlExecutionProvider", "CPUExecutionProvider"]) as session:
        (placed,) = session.placement.nodes
        assert placed.provider == "CPUExecutionProvider"
        assert any("one channel" in why for _, why in placed.refusals)
        (found,) = session.run(None, {"x": x})
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    wanted = np.max([padded[:, :, i : i + 30, j : j + 40] for i in range(3) for j in range(3)], axis=0)
    np.testing.assert_array_equal(found, wanted)
