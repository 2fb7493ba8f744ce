"""Rules of operators that move, repeat, take and put elements, first and second derivatives, against differences.

Each result is squared: then the second derivative goes through the rule again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.end_to_end.gradient.cases import cases
from tests.end_to_end.gradient.finite_differences import check_gradients, random_inputs

X = random_inputs(3, x=(2, 3, 2))
BLOCKS = random_inputs(4, x=(1, 8, 2, 2))
SQUARE = " y = Mul(z, z)"


def ints(name: str, *numbers: int) -> str:
    """A constant vector, as text."""
    return f"{name} = Constant<value_ints = {list(numbers)}>() "


MOVES = [
    (ints("s", 3, 4) + "z = Reshape(x, s)", X),
    ("z = Flatten<axis = 2>(x)", X),
    ("z = Transpose(x)", X),
    ("z = Transpose<perm = [1, 2, 0]>(x)", X),
    (ints("s", 2, 2, 3, 2) + "z = Expand(x, s)", X),
    (ints("s", 2, 1, 3) + "z = Tile(x, s)", X),
    ("z = Tile(x, s)", {**X, "s": np.array([2, 1, 2])}),
    ("z = Concat<axis = 1>(a, b, a)", random_inputs(1, a=(2, 3), b=(2, 1))),
    ("z = Concat<axis = -1>(a, b)", random_inputs(1, a=(2, 3), b=(2, 1))),
    ("z = SpaceToDepth<blocksize = 2>(x)", BLOCKS),
    ("z = DepthToSpace<blocksize = 2>(x)", BLOCKS),
    ('z = DepthToSpace<blocksize = 2, mode = "CRD">(x)', BLOCKS),
    ("z = ReverseSequence<batch_axis = 1, time_axis = 0>(x, n)", {**X, "n": np.array([1, 2, 2])}),
    (ints("b", 2, 0) + ints("e", -9, 2) + ints("k", 1, 2) + ints("s", -2, 2) + "z = Slice(x, b, e, k, s)", X),
    ("z = Slice(x, b, e)", {**X, "b": np.array([0, 1]), "e": np.array([2, 3])}),
    ("z = Pad(x, p, v)", {**X, "p": np.array([0, 1, -1, 2, 0, 1]), "v": np.array(0.5)}),
    ("z = Pad(x, p)", {**X, "p": np.array([1, 0, 0, 0, 2, 1])}),
    ("c = Constant<value = bool[3] {1, 0, 1}>() z = Compress<axis = 1>(x, c)", X),
    ("c = Constant<value = bool[5] {1, 0, 1, 0, 1}>() z = Compress(x, c)", X),
    (ints("k", 2) + "z, i = TopK<axis = 1>(x, k)", X),
]


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"), cases([(body + SQUARE, inputs) for body, inputs in MOVES], 12, 21)
)
def test_movement(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Moved gradients go back, repeated ones are summed, and elements that were not taken get zero."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("u = Unsqueeze<axes = [0, 2]>(x) z = Squeeze<axes = [2]>(u)", 12),
        (ints("k", 0, 2) + ints("m", 2) + "u = Unsqueeze(x, k) z = Squeeze(u, m)", 21),
        ("p, z = Split<axis = 1, split = [1, 2]>(x)", 12),
        (ints("s", 1, 2) + "z, q = Split<axis = -2>(x, s)", 13),
        ("p, q = Split<axis = 2, num_outputs = 2>(x) z = Mul(p, q)", 21),
        ("z = Pad<mode = 'reflect'>(x, p)".replace("'", '"'), 21),
        ("z = Pad<mode = 'edge'>(x, p)".replace("'", '"'), 21),
    ],
)
def test_forms_of_certain_opsets(body: str, opset: int) -> None:
    """Axes and parts as attributes and as inputs; modes of Pad that copy elements."""
    inputs = {**X, "p": np.array([0, 1, 1, 1, 2, 0])} if "p)" in body else X
    for dims in ("static", "symbolic"):
        check_gradients(body + SQUARE, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize("given", ["scales", "sizes"])
def test_resize_to_the_nearest(given: str) -> None:
    """Each element gets the sum over its copies; some are left out where the image shrinks."""
    inputs = random_inputs(8, x=(1, 1, 2, 3))
    if given == "scales":
        body = "r = Constant<value = float[4] {1.0, 1.0, 2.0, 0.7}>() z = Resize(x, , r)"
    else:
        body = ints("r", 1, 1, 3, 5) + 'z = Resize<nearest_mode = "floor">(x, , , r)'
    for opset in (16, 21):
        check_gradients(body + SQUARE, inputs, opset=opset)


def test_pad_of_some_axes() -> None:
    """Since opset 18 axes can be named."""
    inputs = {**X, "p": np.array([1, 2]), "v": np.array(0.5), "k": np.array([-1])}
    check_gradients("z = Pad(x, p, v, k)" + SQUARE, inputs, opset=18, dims="symbolic")


TAKEN = [
    ("z = Gather<axis = 1>(x, i)", {**X, "i": np.array([[0, 2], [-1, 0]])}),
    ("z = Gather(x, i)", {**X, "i": np.array(1)}),
    ("z = Gather<axis = -1>(x, i)", {**X, "i": np.array([1, 1, 0], np.int32)}),
    ("z = GatherElements<axis = 1>(x, i)", {**X, "i": np.array([[[0, 1], [2, 2], [0, 0], [0, -1]]])}),
    ("z = GatherElements<axis = -1>(x, i)", {**X, "i": np.array([[[0, 0, 1], [1, 1, 1]]])}),
]


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"), cases([(body + SQUARE, inputs) for body, inputs in TAKEN], 12, 15, 16, 21)
)
def test_elements_that_are_taken_repeatedly(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Each gets the sum, with products by one-hot matrices before opset 16 and by scattering since then."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases(
        [
            ("z = GatherND(x, i)" + SQUARE, {**X, "i": np.array([[0, 1], [1, 2], [0, 1]])}),
            ("z = GatherND<batch_dims = 1>(x, i)" + SQUARE, {**X, "i": np.array([[1], [2]])}),
            (
                'z = ScatterND<reduction = "add">(x, i, u)' + SQUARE,
                {**X, **random_inputs(5, u=(2, 2)), "i": np.array([[0, 1], [0, 1]])},
            ),
            (
                'z = ScatterElements<axis = 1, reduction = "add">(x, i, u)' + SQUARE,
                {**X, **random_inputs(5, u=(2, 1, 2)), "i": np.array([[[0, 1]], [[1, 1]]])},
            ),
        ],
        16,
        21,
    ),
)
def test_tuples_and_additions(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Slices at tuples of indices, and scattering that adds."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(
    ("body", "indices", "updates"),
    [
        ("z = ScatterElements<axis = 1>(x, i, u)", [[[0, 1]], [[1, 2]]], (2, 1, 2)),
        ("z = ScatterND(x, i, u)", [[0, 1], [1, 1]], (2, 2)),
    ],
)
def test_elements_that_are_replaced(body: str, indices: Any, updates: tuple[int, ...]) -> None:
    """Replaced elements get no gradient, and their replacements get all of it. The second derivative of ScatterND takes
    slices at tuples of indices, whose own derivative needs opset 16.
    """
    inputs = {**X, **random_inputs(5, u=updates), "i": np.array(indices)}
    check_gradients(body + SQUARE, inputs, opset=12, dims="symbolic", second="ND" not in body)
    check_gradients(body + SQUARE, inputs, opset=21)
