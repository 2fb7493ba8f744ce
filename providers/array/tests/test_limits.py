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


def call(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any], opset: int = 18) -> Any:
    """Bind the kernel of a node with a capped context and call it."""
    node = make_node_spec(op_type, inputs, opset=opset, attributes=attributes)
    for definition in kernel_defs():
        if definition.op_type == op_type and definition.since <= node.since_version <= definition.last:
            return definition.factory(Capped(node))(*inputs)
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
