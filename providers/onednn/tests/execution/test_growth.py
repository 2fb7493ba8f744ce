"""Shapes of a run with a past, those of its plan, and back."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.execution.growth import Growth, growth_of
from ort_py_onednn.graph.operation import Operation

ATTENTION = Operation(
    "MultiHeadAttention",
    "a",
    ("q", "k", "v", None, None, "mask", "pk", "pv"),
    ("y", "keys", "values"),
    {"num_heads": 2},
)


@pytest.mark.parametrize(("rows", "most"), [(0, 256), (3, 256), (256, 256), (257, 1024), (1100, 4096)])
def test_a_plan_serves_many_numbers_of_rows(rows: int, most: int) -> None:
    growth = Growth((0, 1), (2,), (1,))
    shapes = (1, 2, rows, 8), (1, 2, rows, 4), (1, 1, 3, rows + 3), (1, 3, 16)
    held = growth.held(shapes)
    assert held is not None
    whole, length, more = held
    assert whole == ((1, 2, most, 8), (1, 2, most, 4), (1, 1, 3, most + 3), (1, 3, 16))
    assert (length, more) == (rows, most - rows)
    assert growth.made((1, 2, most + 3, 8), more) == (1, 2, rows + 3, 8)


def test_the_arrays_in_their_place_take_no_memory() -> None:
    growth = Growth((0,), (), ())
    (found,) = growth.stand_ins([np.zeros((1, 2, 3, 4), np.float32)], ((1, 2, 4096, 4),))
    assert found.shape == (1, 2, 4096, 4)
    assert found.strides == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 2, 3, 8), (1, 2, 4, 8), (1, 1, 1, 4)),
        ((1, 2, 3), (1, 2, 3), (1, 1, 1, 4)),
        ((1, 2, 3, 8), (1, 2, 3, 8), (1, 1, 1, 1)),
        ((1, 2, 3, 8), (1, 2, 3, 8), ()),
    ],
)
def test_other_shapes_have_plans_of_their_own(shapes: tuple[tuple[int, ...], ...]) -> None:
    """Pasts of different lengths, and a bias that is spread over all keys."""
    assert Growth((0, 1), (2,), ()).held(shapes) is None


def test_what_grows_in_a_region() -> None:
    found = growth_of([ATTENTION], ("q", "k", "v", "pk", "pv", "mask"), ("y", "values", "keys"))
    assert found == Growth((3, 4), (5,), (1, 2))


@pytest.mark.parametrize("other", ["pk", "mask"])
def test_nothing_grows_where_another_operation_reads_it(other: str) -> None:
    reader = Operation("eltwise", "e", (other,), ("z",))
    assert growth_of([ATTENTION, reader], ("q", "k", "v", "pk", "pv", "mask"), ("y", "z")) is None


def test_nothing_grows_that_the_region_makes() -> None:
    maker = Operation("eltwise", "e", ("m",), ("mask",))
    assert growth_of([maker, ATTENTION], ("q", "k", "v", "pk", "pv", "m"), ("y",)) is None
