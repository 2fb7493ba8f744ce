"""Operators that move, repeat or pick elements give exactly what onnxruntime gives, for known and unknown shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

import ort_py as ort
from ort_py_kit.graphs import model_from_text
from providers.onednn.tests.models import model, node, open_session, run_here, run_plain

RNG = np.random.default_rng(23)


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(RNG.standard_normal(shape), np.float32)


def _i(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


def _s(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


X = _f(2, 8, 6, 9)
Constants = Mapping[str, np.ndarray[Any, Any]]


def _slice(start: int, end: int, axis: int, step: int) -> tuple[NodeProto, Constants]:
    return node("Slice", "x s e a t", "y"), {"s": _i(start), "e": _i(end), "a": _i(axis), "t": _i(step)}


def _resize(scale: float, coordinates: str, rounding: str) -> tuple[NodeProto, Constants]:
    made = node(
        "Resize",
        "x - s",
        "y",
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
    )
    return made, {"s": _s(1, 1, scale, scale)}


CASES: Mapping[str, tuple[NodeProto, Constants]] = {
    "Expand to itself": (node("Expand", "x s", "y"), {"s": _i(2, 8, 6, 9)}),
    "DepthToSpace": (node("DepthToSpace", "x", "y", blocksize=2), {}),
    "DepthToSpace by columns": (node("DepthToSpace", "x", "y", blocksize=2, mode="CRD"), {}),
    "Expand by a leading dimension": (node("Expand", "x s", "y"), {"s": _i(3, 1, 1, 1, 1)}),
    "Gather a range": (node("Gather", "x i", "y", axis=1), {"i": _i(2, 3, 4)}),
    "Gather every other": (node("Gather", "x i", "y", axis=3), {"i": _i(1, 3, 5, 7)}),
    "Gather from the end": (node("Gather", "x i", "y", axis=2), {"i": np.array(-1, np.int64)}),
    "Gather in a square": (node("Gather", "x i", "y", axis=1), {"i": np.array([[0, 7], [7, 7]], np.int64)}),
    "Gather out of order": (node("Gather", "x i", "y", axis=3), {"i": _i(8, 0, 1, 2, 2, 2, 5)}),
    "Pad by itself": (node("Pad", "x p", "y", mode="wrap"), {"p": _i(0, 0, 1, 3, 0, 0, 2, 0)}),
    "Pad by the border": (node("Pad", "x p", "y", mode="edge"), {"p": _i(0, 0, 2, 0, 0, 1, 0, 3)}),
    "Pad mirrored": (node("Pad", "x p", "y", mode="reflect"), {"p": _i(0, 0, 2, 1, 0, 0, 3, 4)}),
    "Pad with a number": (
        node("Pad", "x p v", "y"),
        {"p": _i(0, 1, 2, 0, 0, 0, 1, -2), "v": np.array(-7.5, np.float32)},
    ),
    "Pad with an infinity": (
        node("Pad", "x p v", "y"),
        {"p": _i(0, 0, 1, 1, 0, 0, 0, 0), "v": np.array(-np.inf, np.float32)},
    ),
    "Slice every other": _slice(0, 9, 3, 2),
    "Slice every other of a part": _slice(1, 8, 3, 2),
    "Slice every third to the last": _slice(2, 9, 3, 3),
    "Slice far apart": _slice(1, 6, 2, 4),
    "Slice one": _slice(2, 3, 2, 5),
    "SpaceToDepth": (node("SpaceToDepth", "x", "y", blocksize=3), {}),
    "Tile": (node("Tile", "x r", "y"), {"r": _i(1, 2, 1, 3)}),
    "Resize asymmetric": _resize(2.0, "asymmetric", "floor"),
    "Resize by corners": _resize(2.0, "align_corners", "round_prefer_floor"),
    "Resize by halves": _resize(1.5, "half_pixel", "round_prefer_floor"),
    "Resize down": _resize(0.5, "asymmetric", "floor"),
    "Resize upwards": _resize(2.0, "asymmetric", "ceil"),
    "Resize to the larger": _resize(0.5, "pytorch_half_pixel", "round_prefer_ceil"),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_moved_is_the_same(name: str) -> None:
    """Not one bit changes, and every node ran here."""
    made, constants = CASES[name]
    x = X[:, :, :6, :] if made.op_type == "SpaceToDepth" else X
    data = model([made], {"x": x}, constants)
    np.testing.assert_array_equal(run_here(data, {"x": x})[0], run_plain(data, {"x": x})[0])


@pytest.mark.parametrize("name", sorted(name for name in CASES if not name.startswith(("Resize", "Space", "Depth"))))
def test_what_is_moved_between_products_is_the_same(name: str) -> None:
    """Blocked layouts of neighbours and shapes that are not known before a run change nothing."""
    made, constants = CASES[name]
    nodes = [node("Conv", "feed w", "x"), made, node("Relu", "y", "z")]
    feeds = {"feed": _f(2, 4, 6, 9)}
    data = model(nodes, feeds, {**constants, "w": _f(8, 4, 1, 1)}, ("z",), dynamic=True)
    with open_session(data) as session:
        (found,) = session.run(None, feeds)
        assert not session.fallback_report
    np.testing.assert_allclose(found, run_plain(data, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("start", "step"), [(724, 3), (1, 2), (4090, 4), (5, 7), (4, 1500)])
def test_long_slices_begin_anywhere(start: int, step: int) -> None:
    """Also where the beginning is no multiple of the step, and where the last group is not whole."""
    data = model(
        [node("Neg", "x", "n"), node("Slice", "n s e a t", "y")],
        {"x": X.reshape(-1)[:0]},
        {"s": _i(start), "e": _i(2**62), "a": _i(0), "t": _i(step)},
        dynamic=True,
    )
    x = np.random.default_rng(start).standard_normal(4096, np.float32)
    with open_session(data) as session:
        (found,) = session.run(None, {"x": x})
        assert not session.fallback_report
    np.testing.assert_array_equal(found, -x[start::step])


@pytest.mark.parametrize("op_type", ["MatMul", "Relu", "Softmax", "Transpose", "LayerNormalization", "Concat"])
def test_an_empty_tensor_stays_here(op_type: str) -> None:
    """Nothing is computed, the result has the right shape, and the next run is oneDNN's again."""
    inputs = {"MatMul": "x w", "LayerNormalization": "x s", "Concat": "x x"}.get(op_type, "x")
    made = node(op_type, inputs, "y", **({"axis": 1} if op_type == "Concat" else {}))
    constants = {"MatMul": {"w": _f(8, 5)}, "LayerNormalization": {"s": _f(8)}}.get(op_type, {})
    data = model([made], {"x": _f(3, 8)}, constants, dynamic=op_type != "LayerNormalization")
    if op_type == "LayerNormalization":
        data = model(
            [node("MatMul", "x v", "m"), node(op_type, "m s", "y")],
            {"x": _f(3, 4)},
            {**constants, "v": _f(4, 8)},
            dynamic=True,
        )
    width = 4 if op_type == "LayerNormalization" else 8
    with open_session(data) as session:
        for rows in (0, 3):
            feeds = {"x": _f(rows, width)}
            (found,) = session.run(None, feeds)
            wanted = run_plain(data, feeds)[0]
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        assert not session.fallback_report


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_part_is_multiplied_as_itself(axis: int) -> None:
    """oneDNN has products that overlook where a part of a larger tensor begins; none of them is used."""
    shape = (4, 6, 16)
    nodes = [
        node("Tanh", "x", "t"),
        node("Split", "t", "a b", axis=axis, num_outputs=2),
        node("Transpose", "b", "turned", perm=[0, 2, 1]),
        node("MatMul", "b w", "y"),
        node("MatMul", "a turned", "z"),
    ]
    feeds = {"x": _f(*shape)}
    data = model(nodes, feeds, {"w": _f(8 if axis == 2 else 16, 5)}, ("y", "z"))
    for left, right in zip(run_here(data, feeds), run_plain(data, feeds), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("mode", "scale", "expected"), [("nearest", 1.2, [0, 0, 1, np.inf]), ("linear", 1.0, [0, 1, np.inf, 3])]
)
def test_resize_to_the_size_that_it_has(mode: str, scale: float, expected: list[float]) -> None:
    """By a factor that is not 1, other elements are taken; by 1, all stay as they are, infinite ones too."""
    text = f"""g (float[1,1,1,4] x) => (float[?,?,?,?] y) <float[4] s = {{1, 1, 1, {scale}}}> {{
        y = Resize <mode = "{mode}", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , s)
    }}"""
    session = ort.InferenceSession(
        model_from_text(text, 18).SerializeToString(), providers=[("DnnlExecutionProvider", {"claim_small": "1"})]
    )
    x = np.array([0, 1, np.inf, 3], np.float32).reshape(1, 1, 1, 4)
    np.testing.assert_array_equal(np.ravel(session.run(None, {"x": x})[0]), expected)
