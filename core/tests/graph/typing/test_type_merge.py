"""Inferred types compared with the model's declarations."""

from __future__ import annotations

import pytest

from ort_py.dtypes import DataType, OptionalType, SequenceType, Shape, TensorType, ValueType
from ort_py.graph.typing.type_merge import (
    element_conflict,
    made_up,
    merge_types,
    rename_dims,
    shape_conflict,
    substitute,
)


def tensor(*shape: int | str | None) -> TensorType:
    return TensorType(DataType.FLOAT, shape)


UNRANKED = TensorType(DataType.FLOAT)


@pytest.mark.parametrize(
    ("inferred", "declared", "with_sizes", "without"),
    [
        ((None, 3), (2, 3), (2, 3), (None, 3)),
        ((None, 3), ("N", 3), ("N", 3), ("N", 3)),
        (("unk__1", 3), ("N", 3), ("N", 3), ("N", 3)),
        (("batch", 3), ("N", 3), ("batch", 3), ("batch", 3)),
        (("batch", 3), (1, 3), ("batch", 3), ("batch", 3)),
        ((4, 3), (2, 3), (4, 3), (4, 3)),
        ((4, 3), (2, 3, 4), (4, 3), (4, 3)),
        (None, (2, "N"), (2, "N"), (None, "N")),
    ],
)
def test_merging(inferred: Shape | None, declared: Shape, with_sizes: Shape, without: Shape) -> None:
    """Inference wins; gaps are filled with names, and with sizes where those are believed."""
    left = UNRANKED if inferred is None else tensor(*inferred)
    assert merge_types(left, tensor(*declared), sizes=True) == tensor(*with_sizes)
    assert merge_types(left, tensor(*declared), sizes=False) == tensor(*without)


def test_merging_with_nothing() -> None:
    """Where one side knows nothing the other counts, its sizes only if believed."""
    assert merge_types(None, None, sizes=True) is None
    assert merge_types(tensor(2), None, sizes=True) == tensor(2)
    assert merge_types(None, tensor(2, "N"), sizes=True) == tensor(2, "N")
    assert merge_types(None, SequenceType(tensor(2, "N")), sizes=False) == SequenceType(tensor(None, "N"))


def test_merging_inside_sequences() -> None:
    """Sequences and optionals merge what they hold."""
    left, right = SequenceType(tensor(None)), SequenceType(tensor("N"))
    assert merge_types(left, right, sizes=False) == right
    assert merge_types(OptionalType(left), OptionalType(right), sizes=False) == OptionalType(right)
    assert merge_types(left, tensor(1), sizes=True) == left


def test_conflicts() -> None:
    """Kinds and element types conflict; shapes do where ranks or known sizes differ."""
    assert element_conflict(tensor(2), SequenceType(tensor(2)))
    assert not element_conflict(tensor(2), UNRANKED)
    assert shape_conflict(tensor(2), tensor(3))
    assert shape_conflict(tensor(2), tensor(2, 2))
    assert not shape_conflict(tensor(2, "N"), tensor(None, 3))
    assert not shape_conflict(UNRANKED, tensor(1))
    assert not shape_conflict(None, tensor(1))


def test_made_up_names() -> None:
    """Names onnx invented are found, those the model uses itself are not; a name that ties two sizes can be kept."""
    types: list[ValueType] = [tensor("unk__0", "unk__1"), tensor("unk__1", "N"), SequenceType(tensor("unk__2"))]
    assert made_up(types, {"unk__2"}) == {"unk__0", "unk__1"}
    assert made_up(types, (), uses=1) == {"unk__0", "unk__2"}
    assert rename_dims(types[0], {"unk__0"}) == tensor(None, "unk__1")
    assert rename_dims(types[2], {"unk__2"}) == SequenceType(tensor(None))
    assert rename_dims(UNRANKED, {"unk__0"}) is UNRANKED


def test_substitute() -> None:
    """Known sizes are put in for names."""
    assert substitute(("N", 3, None, "M"), {"N": 2}) == (2, 3, None, "M")
