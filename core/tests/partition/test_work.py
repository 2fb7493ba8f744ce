"""Estimates of a node's arithmetic and memory traffic."""

from __future__ import annotations

import pytest

from core.tests.driving import typed_model
from ort_py.graph.view import ModelGraphView
from ort_py.partition.work import work_of

CASES = {
    "MatMul": ("g (float[8,16] x, float[16,4] w) => (float[8,4] y) { y = MatMul(x, w) }", 2 * 8 * 4 * 16),
    "Gemm": (
        "g (float[16,8] x, float[16,4] w) => (float[8,4] y) { y = Gemm<transA=1>(x, w) }",
        2 * 8 * 4 * 16,
    ),
    "Conv": (
        "g (float[1,3,8,8] x, float[5,3,3,3] w) => (float[1,5,6,6] y) { y = Conv(x, w) }",
        2 * 5 * 6 * 6 * 3 * 3 * 3,
    ),
    "ConvTranspose": (
        "g (float[1,3,8,8] x, float[3,5,3,3] w) => (float[1,5,10,10] y) { y = ConvTranspose(x, w) }",
        2 * 3 * 8 * 8 * 5 * 3 * 3,
    ),
    "Add": ("g (float[4] x, float[4] w) => (float[4] y) { y = Add(x, w) }", 0),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_arithmetic_is_counted(name: str) -> None:
    """Two operations for each element of the result and each term of its sum; none for what is not a product."""
    text, flops = CASES[name]
    assert work_of(ModelGraphView(typed_model(text).graph).nodes[0]).flops == flops


def test_bytes_are_those_of_the_type() -> None:
    """Everything that is read and written counts, in the element type of each."""
    text = "g (float16[10] x) => (float[10] y) { y = Cast<to=1>(x) }"
    assert work_of(ModelGraphView(typed_model(text).graph).nodes[0]).nbytes == 20 + 40


def test_views_move_nothing() -> None:
    """A new shape is a call, no copy."""
    text = "g (float[2,3] x) => (float[6] y) { y = Flatten(x) }".replace("float[6]", "float[2,3]")
    work = work_of(ModelGraphView(typed_model(text).graph).nodes[0])
    assert (work.flops, work.nbytes) == (0, 0)


def test_sizes_of_values_are_remembered() -> None:
    """A caller with many nodes pays once for each value."""
    sizes: dict[str, int] = {}
    text = "g (float[4] x) => (float[4] y) { y = Neg(x) }"
    work_of(ModelGraphView(typed_model(text).graph).nodes[0], sizes)
    assert sizes == {"x": 16, "y": 16}
