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


GROUPED = Operation(
    "GroupQueryAttention",
    "a",
    ("q", "k", "v", "pk", "pv", "ends", "total", "cos", "sin"),
    ("y", "keys", "values"),
    {"num_heads": 2, "kv_num_heads": 2},
)


def test_what_each_run_counts() -> None:
    found = growth_of([GROUPED], ("q", "k", "v", "pk", "pv", "ends", "total", "cos", "sin"), ("y", "values", "keys"))
    assert found == Growth((3, 4), (), (), (5, 6), (1, 2), ((4, 1), (3, 2)))


def test_nothing_grows_where_two_count() -> None:
    other = Operation("GroupQueryAttention", "b", ("y", "k", "v", "pl", "pw", "ends", "all"), ("z", "l", "w"))
    inputs = ("q", "k", "v", "pk", "pv", "pl", "pw", "ends", "total", "all", "cos", "sin")
    assert growth_of([GROUPED, other], inputs, ("z", "l", "w", "keys", "values")) is None


@pytest.mark.parametrize(
    ("rows", "total", "exact", "most"),
    [(16, 17, False, 256), (256, 257, False, 1024), (0, 300, False, 1024), (16, 17, True, 17), (40, 17, True, 40)],
)
def test_a_plan_has_room_for_what_a_run_counts(rows: int, total: int, exact: bool, most: int) -> None:
    shapes = (1, 300, 16), (1, 2, rows, 8), (1,), ()
    held = Growth((1,), (), (), (2, 3), (0,)).held(shapes, ([total - 1], [total]), exact=exact)
    assert held is not None
    assert held == (((1, 300, 16), (1, 2, most, 8), (1,), ()), rows, most - rows)


def test_no_plan_has_more_new_rows_than_inputs_have_elements() -> None:
    shapes = (1, 3, 2), (1, 2, 4, 8), (1,), ()
    assert Growth((1,), (), (), (2, 3), (0,)).held(shapes, ([2**30], [2**30])) is None


@pytest.mark.parametrize(
    ("rows", "counts", "kind", "said"),
    [
        (7, (), (0, 1, 0), [7, 8, 7, 8]),
        (7, ([7], [8]), (1, 1, 9), [7, 8, 7, 8]),
        (9, ([3, 5], [6]), (2, 1, 0), [9, 9, 3, 4, 5, 6]),
        (9, ([3, 2], [4]), (2, 4, 4), [9, 9, 0, 4, 0, 3]),
        (7, ([8], [9]), (1, 1, 9), None),
        (7, ([7], [8]), (1, 1, 7), None),
        (7, ([7, 7], [8]), (1, 1, 0), None),
        (7, ([7], [8, 8]), (1, 1, 0), None),
        (7, ([7], [7]), (1, 1, 0), None),
        (7, ([1], [7]), (1, 3, 0), None),
        (7, ([2], [2]), (1, 3, 0), None),
        (7, ([5], [9]), (1, 1, 0), None),
    ],
)
def test_what_code_is_told(
    rows: int, counts: tuple[list[int], ...], kind: tuple[int, int, int], said: list[int] | None
) -> None:
    """Rows of past and present, then for each entry those of the past that count, and all of them."""
    assert Growth((), (), ()).said(rows, counts, kind) == said


def test_a_present_in_a_buffer() -> None:
    growth = Growth((), (), ())
    assert growth.buffer((1, 2, 256, 8), 9, ([4], [5])) == (1, 2, 9, 8)
    assert growth.buffer((1, 2, 256, 8), 9, ([9], [10])) == (1, 2, 10, 8)
