"""Results and scratch whose size the model or its data decide are announced before they are made."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from ort_py.errors import LimitError
from ort_py_array import kernel_defs
from ort_py_array.matmul import einsum_shape
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .oracle import sample

CAP = 1 << 24
PIXELS = np.ones((1, 1, 4, 4), np.float32)
COLUMN, ROW = np.ones((6000, 1), np.float32), np.ones((1, 6000), np.float32)
FILTER = np.ones((1, 1, 3, 3), np.float32)
WIDE = 1 << 12


class Capped(LocalKernelContext):
    """Refuses arrays above `CAP` elements."""

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        if prod(shape) > CAP:
            raise LimitError(f"too large: {tuple(shape)}")


def call(
    op_type: str,
    inputs: Sequence[Any],
    attributes: dict[str, Any],
    opset: int = 18,
    context: type[LocalKernelContext] = Capped,
) -> Any:
    """Bind the kernel of a node with a context, a capped one by default, and call it."""
    node = make_node_spec(op_type, inputs, opset=opset, attributes=attributes)
    for definition in kernel_defs():
        if definition.op_type == op_type and definition.since <= node.since_version <= definition.last:
            return definition.factory(context(node))(*inputs)
    raise AssertionError(f"no kernel for {op_type}")


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("MatMul", [COLUMN, ROW], {}),
        ("MatMul", [COLUMN[:, :0], ROW[:0]], {}),
        ("MatMul", [COLUMN[None], ROW[None]], {}),
        ("Gemm", [COLUMN, ROW], {}),
        ("Einsum", [COLUMN, ROW], {"equation": "ij,jk->ik"}),
        ("Einsum", [COLUMN[:, 0], ROW[0]], {"equation": "i,j"}),
        ("Conv", [PIXELS, FILTER], {"pads": (WIDE,) * 4}),
        ("Conv", [PIXELS, FILTER], {"pads": (WIDE,) * 4, "strides": (WIDE, WIDE)}),
        ("ConvTranspose", [PIXELS, FILTER], {"strides": (WIDE, WIDE)}),
        ("MaxPool", [PIXELS], {"kernel_shape": (WIDE, WIDE), "pads": (WIDE - 1,) * 4}),
        ("AveragePool", [PIXELS], {"kernel_shape": (WIDE, WIDE), "pads": (WIDE - 1,) * 4}),
        ("LpPool", [PIXELS], {"kernel_shape": (WIDE, WIDE), "pads": (WIDE - 1,) * 4}),
    ],
)
def test_what_is_too_large_is_refused(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> None:
    """Products, convolutions and pools ask first: for the result, and for what padding makes of the input."""
    with pytest.raises(LimitError, match="too large"):
        call(op_type, inputs, attributes)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,...jk", [(1, 6, 2, 3), (5, 1, 3, 4)]),
        ("i...->...", [(2, 3, 4)]),
        ("bi,bj->bij", [(1, 3), (7, 4)]),
        ("->", [()]),
    ],
)
def test_the_shape_of_an_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    """The shape said before is the shape NumPy makes."""
    operands = [sample(shape, np.float32) for shape in shapes]
    assert einsum_shape(equation, shapes) == np.einsum(equation, *operands).shape


@pytest.mark.parametrize(("equation", "shapes"), [("ij", [(2,)]), ("i,j->ij", [(2,)]), ("i->k", [(2,)])])
def test_an_einsum_that_does_not_fit_has_no_shape(equation: str, shapes: list[tuple[int, ...]]) -> None:
    """The kernel reports the error."""
    assert einsum_shape(equation, shapes) is None


class Timed(LocalKernelContext):
    """A run in which a second is left: estimates above it are refused, and so is every look after the tenth."""

    looks = 0

    @property
    def is_timed(self) -> bool:
        return True

    def check_time(self, ahead: float = 0.0) -> None:
        self.looks += 1
        if ahead > 1 or self.looks > 10:
            raise LimitError("too late")


def _zeros(*shape: int) -> np.ndarray[Any, Any]:
    """Zeros that take no memory."""
    return np.broadcast_to(np.float32(0), shape)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("DFT", [_zeros(1, 4, 1), np.array(1 << 28)], {"axis": 1}),
        ("DFT", [_zeros(2, 4, 1), np.array(60_000_011)], {"axis": 1}),
        ("Det", [np.broadcast_to(np.float32(0), (40_000, 40_000))], {}),
        ("TopK", [_zeros(1 << 30), np.array([1 << 29])], {"axis": 0}),
        ("TopK", [_zeros(2, 1 << 30), np.array([1 << 29])], {}),
        ("Unique", [_zeros(1 << 30)], {}),
        ("Unique", [_zeros(1 << 28, 1)], {"axis": 0}),
        ("Einsum", [_zeros(30_000, 30_000)] * 3, {"equation": "ij,jk,kl->il"}),
        ("Einsum", [_zeros(5000, 5000)] * 3, {"equation": "ij,jk,ik->ijk"}),
        ("Einsum", [_zeros(100_000, 100_000)] * 2, {"equation": "ij,jk"}),
    ],
)
def test_a_call_that_nothing_interrupts_is_estimated(
    op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]
) -> None:
    """Transforms, decompositions, sorts and contractions that would take minutes on any machine are not begun."""
    with pytest.raises(LimitError, match="too late"):
        call(op_type, inputs, attributes, context=Timed)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("LSTM", [np.zeros((300_000, 1, 1), np.float32), *[np.zeros((1, 4, 1), np.float32)] * 2], {"hidden_size": 1}),
        ("GRU", [np.zeros((300_000, 1, 1), np.float32), *[np.zeros((1, 3, 1), np.float32)] * 2], {"hidden_size": 1}),
        ("RNN", [np.zeros((300_000, 1, 1), np.float32), *[np.zeros((1, 1, 1), np.float32)] * 2], {"hidden_size": 1}),
        ("Multinomial", [np.zeros((1, 5), np.float32)], {"sample_size": 1 << 22}),
        (
            "NonMaxSuppression",
            [np.zeros((1, 40_000, 4), np.float32), np.zeros((1, 1, 40_000), np.float32), np.array([40_000])],
            {},
        ),
    ],
)
def test_loops_look_at_the_clock(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> None:
    """Steps, samples and stretches of boxes are asked about more than ten times."""
    with pytest.raises(LimitError, match="too late"):
        call(op_type, inputs, attributes, context=Timed)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_many_rows_are_sorted_in_blocks(largest: int, axis: int) -> None:
    """In the order of the definition, along any axis: equal elements by their places."""
    x = np.random.default_rng(axis).integers(0, 9, (40, 60, 50)).astype(np.float32)
    values, places = call("TopK", [x, np.array([30])], {"axis": axis, "largest": largest})
    order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(30), axis=axis)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))
