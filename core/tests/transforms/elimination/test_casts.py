"""Casts of casts become one where nothing is lost between."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.transforms.elimination.casts import MergeCasts
from ort_py.transforms.elimination.no_ops import noop_rules


def chain(first: str, second: str, last: str) -> str:
    """Two casts, in ONNX's text."""
    types = {name: int(getattr(DataType, name.upper())) for name in (first, second, last)}
    return f"""g ({first}[3] x) => ({last}[3] y) {{
        a = Cast<to = {types[second]}>(x) y = Cast<to = {types[last]}>(a)
    }}"""


@pytest.mark.parametrize(
    ("first", "second", "last"),
    [
        ("float16", "float", "double"),
        ("float", "double", "float16"),
        ("float16", "float", "int8"),
        ("int8", "int64", "int16"),
        ("uint8", "int32", "float"),
        ("int16", "float", "float16"),
        ("int32", "double", "int32"),
        ("bool", "uint8", "float"),
        ("float", "float", "int32"),
    ],
)
def test_a_type_that_holds_everything_is_left_out(first: str, second: str, last: str) -> None:
    """One Cast is left, with the values of both."""
    feed = np.array([0, 1, 2]).astype(numpy_dtype(getattr(DataType, first.upper())))
    model, _ = optimise(chain(first, second, last), MergeCasts(), feeds={"x": feed})
    assert operators(model) == {"Cast": 1}
    assert model.graph.nodes[0].inputs == model.graph.inputs


@pytest.mark.parametrize(
    ("first", "second", "last"),
    [
        ("float", "float16", "float"),
        ("float", "int32", "float"),
        ("int64", "float", "int64"),
        ("int8", "uint8", "int32"),
        ("int8", "float", "uint8"),
        ("uint8", "int8", "int32"),
        ("int32", "int64", "string"),
        ("float16", "float", "string"),
        ("bool", "float", "string"),
        ("float", "bool", "float"),
    ],
)
def test_a_type_that_loses_something_stays(first: str, second: str, last: str) -> None:
    """Rounding, wrapping and what is written as text depend on the type between; the reason names all three."""
    model, report = optimise(chain(first, second, last), MergeCasts())
    assert operators(model) == {"Cast": 2}
    assert f"{first.upper()} -> {second.upper()} -> {last.upper()} is not the same as" in notes(report)


def test_there_and_back_is_nothing() -> None:
    """Together with the rule for casts that change nothing, both go."""
    model, _ = optimise(
        """g (float16[3] x) => (float16[3] y) { a = Cast<to = 1>(x) b = Cast<to = 10>(a) y = Neg(b) }""",
        MergeCasts(),
        *noop_rules(),
        feeds={"x": np.ones(3, np.float16)},
    )
    assert operators(model) == {"Neg": 1}


def test_a_first_cast_that_is_read_elsewhere_stays_for_that() -> None:
    """The second one no longer waits for it."""
    model, _ = optimise(
        "g (float16[3] x) => (double[3] y, float[3] z) { a = Cast<to = 1>(x) y = Cast<to = 11>(a) z = Neg(a) }",
        MergeCasts(),
        feeds={"x": np.ones(3, np.float16)},
    )
    assert [node.inputs[0] for node in model.graph.nodes if node.op_type == "Cast"] == model.graph.inputs * 2


def test_a_wide_way_for_a_wide_value_has_no_effect_on_unknown_types() -> None:
    """Other producers are none of its business."""
    model, report = optimise("g (float[3] x) => (double[3] y) { a = Neg(x) y = Cast<to = 11>(a) }", MergeCasts())
    assert operators(model) == {"Neg": 1, "Cast": 1}
    assert not notes(report)
