"""Sequences: the suite's cases, lists as an oracle for what moves, NumPy and onnxruntime for what splits and joins."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_array import sequences
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec
from ort_py_kit.tolerances import assert_close

from .backend_cases import cases, compare, run_case
from .oracle import BF16, DEFINITIONS, i64, run, sample
from .runtime_oracle import runtime_outputs
from .standin import array_module, to_device, to_host

OPERATORS = {
    definition.op_type for definition in DEFINITIONS if definition.implementation.startswith(sequences.__name__)
}
ANY = [
    *(np.dtype(code) for code in "?bhilBHILefdFD"),
    np.dtype(object),
    BF16,
    *(np.dtype(one) for one in (ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.float4_e2m1fn)),
]
properties = settings(max_examples=25, deadline=None, derandomize=True)


def filled(shape: Sequence[int], dtype: Any, seed: int = 0) -> Any:
    """Any element type, strings too."""
    if np.dtype(dtype).kind == "O":
        return np.array([f"s{seed}_{index}" for index in range(prod(shape))], object).reshape(shape)
    return sample(shape, dtype, seed)


def scalar(value: int, dtype: Any = np.int64) -> Any:
    """A tensor of rank 0."""
    return np.array(value, dtype)


THREE = [sample((2,), np.float32, seed) for seed in range(3)]


@pytest.mark.parametrize("name", sorted(name for name, case in cases().items() if case.op_type in OPERATORS))
def test_backend_case(name: str) -> None:
    case = cases()[name]
    for left, right in zip(run_case(case), case.expected, strict=True):
        compare(left, right, case)


def test_every_operator_is_here() -> None:
    """The specification's eight operators on sequences."""
    on_lists = {"SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength"}
    assert on_lists | {"SplitToSequence", "ConcatFromSequence"} == OPERATORS


@pytest.mark.parametrize("dtype", ANY, ids=str)
def test_elements_of_every_type_go_through(dtype: Any) -> None:
    """Split, measured, taken out, put in, erased and joined again, the tensor is what it was."""
    x = filled((4, 3), dtype)
    (parts,) = run("SplitToSequence", [x, i64(1, 0, 3)])
    assert [part.shape for part in parts] == [(1, 3), (0, 3), (3, 3)]
    assert run("SequenceLength", [parts])[0] == 3
    (first,) = run("SequenceAt", [parts, scalar(0)])
    (rest,) = run("SequenceErase", [parts, scalar(0)])
    (again,) = run("SequenceInsert", [rest, first, scalar(0)])
    (whole,) = run("ConcatFromSequence", [again], axis=0)
    assert whole.dtype == x.dtype
    np.testing.assert_array_equal(whole, x)


def test_device_arrays_go_through() -> None:
    """Split, moved and joined on arrays that refuse NumPy: only sizes and positions are on the host."""
    x = sample((3, 4), np.float32)
    for given_ in ([], [i64(1, 3)], [scalar(3)]):
        (parts,) = run("SplitToSequence", [to_device(x), *given_], xp=array_module, axis=1)
        (turned,) = run("SequenceInsert", [parts[:-1], parts[-1], scalar(0)], xp=array_module)
        (whole,) = run("ConcatFromSequence", [turned], xp=array_module, axis=1)
        last = to_host(parts[-1])
        np.testing.assert_array_equal(to_host(whole), np.concatenate([last, x[:, : -last.shape[1]]], 1))
    (rows,) = run("SplitToSequence", [to_device(x)], xp=array_module, keepdims=0)
    np.testing.assert_array_equal(to_host(run("ConcatFromSequence", [rows], axis=0, new_axis=1, xp=array_module)[0]), x)


def test_constructing_keeps_the_tensors() -> None:
    """A sequence holds the inputs themselves: nothing is copied."""
    (found,) = run("SequenceConstruct", THREE)
    assert all(left is right for left, right in zip(found, THREE, strict=True))


@pytest.mark.parametrize("dtype", [None, 7, 8])
def test_an_empty_sequence(dtype: int | None) -> None:
    """It is empty for every element type; each call makes its own list."""
    attributes = {} if dtype is None else {"dtype": dtype}
    assert run("SequenceEmpty", [], **attributes) == [[]]


def test_the_length_is_an_int64_scalar() -> None:
    for given_, count in (([], 0), (THREE, 3)):
        (length,) = run("SequenceLength", [given_])
        assert (length.dtype, length.shape, int(length)) == (np.int64, (), count)


@properties
@given(st.integers(0, 5), st.integers(-7, 7), st.sampled_from([np.int32, np.int64]))
def test_positions_count_from_both_ends(count: int, at: int, dtype: Any) -> None:
    """SequenceAt and SequenceErase take [-n, n - 1], SequenceInsert [-n, n]: what Python's lists do, no more."""
    items = [sample((1,), np.float32, seed) for seed in range(count)]
    before = items.copy()
    new = sample((3,), np.float32, 9)
    position = scalar(at, dtype)
    if -count <= at < count:
        assert run("SequenceAt", [items, position])[0] is items[at]
        wanted = items[:at] + items[at + 1 :] if at != -1 else items[:-1]
        assert_same(run("SequenceErase", [items, position])[0], wanted)
    else:
        for operator in ("SequenceAt", "SequenceErase"):
            with pytest.raises(InvalidArgument, match=rf"Index {at} is out of range for axis of size {count}"):
                run(operator, [items, position])
    if -count <= at <= count:
        wanted = items.copy()
        wanted.insert(at, new)
        assert_same(run("SequenceInsert", [items, new, position])[0], wanted)
    else:
        with pytest.raises(InvalidArgument, match=f"Position {at} is outside a sequence of {count}") as caught:
            run("SequenceInsert", [items, new, position])
        assert f"[{-count}, {count}]" in str(caught.value)
    assert_same(items, before)


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    """The very same tensors in the same order."""
    assert [id(item) for item in found] == [id(item) for item in wanted]


def test_the_end_is_the_default_position() -> None:
    """Without a position the last tensor is erased, and a new one becomes the last."""
    assert_same(run("SequenceErase", [THREE])[0], THREE[:2])
    assert_same(run("SequenceInsert", [THREE[:2], THREE[2]])[0], THREE)
    with pytest.raises(InvalidArgument, match="Index -1 is out of range for axis of size 0"):
        run("SequenceErase", [[]])


@pytest.mark.parametrize("operator", ["SequenceAt", "SequenceErase", "SequenceInsert"])
def test_a_position_is_one_integer(operator: str) -> None:
    inputs = [THREE, i64(0, 1)] if operator != "SequenceInsert" else [THREE, THREE[0], i64(0, 1)]
    with pytest.raises(InvalidArgument, match=r"The position is an array of shape \(2,\), not one integer"):
        run(operator, inputs)


def test_a_sequence_has_one_element_type() -> None:
    """A tensor of another is refused with both."""
    with pytest.raises(InvalidArgument, match="A tensor of float64 cannot go into a sequence of float32"):
        run("SequenceInsert", [THREE, np.zeros(2)])


@properties
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.integers(-3, 2),
    st.one_of(st.none(), st.integers(1, 6)),
    st.sampled_from([0, 1]),
    st.sampled_from([11, 24]),
)
def test_equal_parts(shape: list[int], axis: int, size: int | None, keepdims: int, opset: int) -> None:
    """By default parts of one; the last of a given size may be smaller; `keepdims` counts only without a size."""
    if not -len(shape) <= axis < len(shape):
        axis = 0
    x = filled(shape, np.float32)
    length = shape[axis]
    if size is None and not keepdims:
        wanted = [np.take(x, index, axis=axis) for index in range(length)]
    else:
        step = size or 1
        places = [range(start, min(start + step, length)) for start in range(0, length, step)]
        wanted = [np.take(x, list(place), axis=axis) for place in places]
    split = None if size is None else scalar(size, np.int32)
    inputs = [x] if split is None else [x, split]
    (found,) = run("SplitToSequence", inputs, opset=opset, axis=axis, keepdims=keepdims)
    assert_close(found, wanted)
    assert all(np.shares_memory(part, x) for part in found if part.size), "parts are views"


@properties
@given(st.lists(st.integers(0, 3), max_size=5), st.sampled_from([0, 1, -1, -2]), st.sampled_from([np.int32, np.int64]))
def test_parts_of_given_sizes(sizes: list[int], axis: int, dtype: Any) -> None:
    """A vector says the size of each; zeros are sizes."""
    shape = [2, 2]
    shape[axis] = sum(sizes)
    x = filled(shape, np.float64)
    (found,) = run("SplitToSequence", [x, np.array(sizes, dtype)], axis=axis, keepdims=0)
    assert_close(found, np.split(x, np.cumsum(sizes)[:-1], axis=axis) if sizes else [])


@pytest.mark.parametrize(
    ("split", "attributes"),
    [
        (None, {}),
        (None, {"keepdims": 0, "axis": 1}),
        (None, {"keepdims": 0, "axis": -1}),
        (scalar(2), {"axis": 1}),
        (scalar(1), {"axis": -1}),
        (i64(2, 3), {"axis": 1}),
        (i64(5, 0), {"axis": 1, "keepdims": 0}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, object])
def test_splitting_agrees_with_onnxruntime(split: Any, attributes: dict[str, Any], dtype: Any) -> None:
    """The same parts, of strings too.

    A scalar size without `keepdims` is left to the property above: onnxruntime does not ignore `keepdims` there, though
    the specification says so, and fails over parts of more than one element.
    """
    x = filled((3, 5), dtype)
    inputs = [x] if split is None else [x, split]
    (expected,) = runtime_outputs("SplitToSequence", inputs, opset=11, **attributes)
    assert_close(run("SplitToSequence", inputs, opset=11, **attributes)[0], expected)


@pytest.mark.parametrize("split", [i64(2, 2), i64(6, -1), i64(), i64(2**62, 2**62, 2**62, 2**62, 5)])
def test_sizes_that_do_not_make_up_the_axis_are_refused(split: Any) -> None:
    """Too few, negative, none, or so many that their sum wraps around to the right one."""
    with pytest.raises(InvalidArgument, match="do not make up axis 0 of size 5") as caught:
        run("SplitToSequence", [np.zeros((5, 2)), split])
    assert "add up to 5" in str(caught.value)


@pytest.mark.parametrize("size", [0, -2])
def test_a_part_has_at_least_one_element(size: int) -> None:
    """Parts of nothing would never end."""
    with pytest.raises(InvalidArgument, match=f"Parts of size {size} cannot be made"):
        run("SplitToSequence", [np.zeros(3), scalar(size)])


def test_sizes_are_a_scalar_or_a_vector() -> None:
    """A matrix of sizes means nothing."""
    with pytest.raises(InvalidArgument, match=r"The split is an array of shape \(1, 2\), not one integer"):
        run("SplitToSequence", [np.zeros(3), i64(1, 2).reshape(1, 2)])


@pytest.mark.parametrize(("shape", "axis"), [((2, 3), 2), ((2, 3), -3), ((), 0)])
def test_splitting_needs_the_axis(shape: tuple[int, ...], axis: int) -> None:
    """An axis outside the tensor, and any axis of a scalar."""
    with pytest.raises(InvalidArgument, match=f"Axis {axis} is out of range"):
        run("SplitToSequence", [np.zeros(shape)], axis=axis)


class Capped(LocalKernelContext):
    """Refuses every array it is asked about."""

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        raise LimitError(f"too large: {tuple(shape)}")


@pytest.mark.parametrize("attributes", [{}, {"keepdims": 0}])
def test_many_parts_of_nothing_ask_the_limits(attributes: dict[str, Any]) -> None:
    """A tensor without elements may have a long axis, and every part is an object."""
    x = np.zeros((10**12, 0), np.float32)
    context = Capped(make_node_spec("SplitToSequence", [x], attributes=attributes))
    with pytest.raises(LimitError, match="too large"):
        sequences.split_to_sequence(context, x, **attributes)


@properties
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(-4, 3),
    st.sampled_from([0, 1]),
)
def test_joining(sizes: list[int], rank: int, axis: int, new_axis: int) -> None:
    """Concatenation along an axis of the tensors, or stacking along a new one that counts in the result's rank."""
    places = rank + new_axis
    if not -places <= axis < places:
        axis = 0
    shapes = []
    for size in sizes:
        shape = [2] * rank
        if not new_axis:
            shape[axis] = size
        shapes.append(shape)
    items = [filled(shape, np.float32, seed) for seed, shape in enumerate(shapes)]
    (found,) = run("ConcatFromSequence", [items], axis=axis, new_axis=new_axis)
    expected = np.stack(items, axis) if new_axis else np.concatenate(items, axis)
    assert_close(found, expected)
    assert not any(np.shares_memory(found, item) for item in items)


def test_scalars_make_a_vector() -> None:
    """Stacked along a new axis; without one they have no axis to be joined along."""
    items = [scalar(1), scalar(2)]
    assert run("ConcatFromSequence", [items], axis=-1, new_axis=1)[0].tolist() == [1, 2]
    with pytest.raises(InvalidArgument, match="Axis 0 is out of range for rank 0"):
        run("ConcatFromSequence", [items], axis=0)


@pytest.mark.parametrize(("axis", "new_axis"), [(2, 0), (-3, 0), (3, 1), (-4, 1)])
def test_joining_needs_the_axis(axis: int, new_axis: int) -> None:
    """[-r, r - 1] for tensors of rank r, [-r - 1, r] with a new axis."""
    with pytest.raises(InvalidArgument, match=f"Axis {axis} is out of range for rank {2 + new_axis}"):
        run("ConcatFromSequence", [[np.zeros((2, 2))]], axis=axis, new_axis=new_axis)


@pytest.mark.parametrize(
    ("shapes", "new_axis"),
    [([(2, 3), (2, 4)], 0), ([(2, 3), (2, 3, 1)], 0), ([(2, 3), (3, 3)], 1), ([(2, 3), (2,)], 0)],
)
def test_tensors_that_do_not_fit_are_refused(shapes: list[tuple[int, ...]], new_axis: int) -> None:
    """All shapes are in the error."""
    with pytest.raises(InvalidArgument, match="cannot be joined along axis 0") as caught:
        run("ConcatFromSequence", [[np.zeros(shape) for shape in shapes]], axis=0, new_axis=new_axis)
    assert all(str(shape) in str(caught.value) for shape in shapes)


def test_nothing_cannot_be_joined() -> None:
    """An empty sequence has no shape; the error says how to ask first."""
    with pytest.raises(InvalidArgument, match="An empty sequence cannot be made a tensor") as caught:
        run("ConcatFromSequence", [[]], axis=0)
    assert "SequenceLength" in str(caught.value)


def test_attributes_are_checked() -> None:
    """`axis` must be there, `new_axis` is 0 or 1."""
    with pytest.raises(InvalidArgument, match="new_axis is 2"):
        run("ConcatFromSequence", [THREE], axis=0, new_axis=2)
    with pytest.raises(InvalidArgument, match="ConcatFromSequence has no axis"):
        run("ConcatFromSequence", [THREE])


def test_joining_asks_the_limits() -> None:
    """The result is announced before it is made: a sequence may hold one tensor many times."""
    items = [np.zeros((4, 2), np.float32)] * 3
    context = Capped(make_node_spec("ConcatFromSequence", [items], attributes={"axis": 0}))
    with pytest.raises(LimitError, match=r"too large: \(12, 2\)"):
        sequences.concat_from_sequence(context)(items)
