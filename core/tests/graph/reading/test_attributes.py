"""The meaning of a Constant's attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.graph.reading.attributes import constant_weight
from ort_py.graph.weights.weight_store import WeightStore

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("attributes", "dtype", "value"),
    [
        ({"value_int": 3}, np.int64, 3),
        ({"value_ints": (1, 2)}, np.int64, [1, 2]),
        ({"value_float": 0.5}, np.float32, 0.5),
        ({"value_floats": ()}, np.float32, []),
        ({"value_string": "a"}, object, "a"),
        ({"value_strings": ("a", "b")}, object, ["a", "b"]),
        ({"value": np.arange(3)}, np.int64, [0, 1, 2]),
    ],
)
def test_each_form_is_a_tensor(attributes: dict[str, Any], dtype: Any, value: Any) -> None:
    """Scalars and lists with the dtype the specification gives them."""
    weight = constant_weight(attributes, WeightStore())
    assert weight is not None
    assert weight.array().dtype == dtype
    assert weight.array().tolist() == value


@pytest.mark.parametrize(
    "attributes",
    [
        *({}, {"value_int": 1, "value_float": 1.0}, {"value_int": (1,)}, {"value_ints": 1}, {"value": 3}, {"x": 1}),
        *({"value_int": "../../etc/passwd"}, {"value_ints": ("1",)}, {"value_float": "nan"}, {"value_strings": (1,)}),
        *({"value_int": 1.5}, {"value_floats": (np.zeros(2),)}),
    ],
)
def test_anything_else_is_no_constant(attributes: dict[str, Any]) -> None:
    """No attribute, several, or one of the wrong kind."""
    assert constant_weight(attributes, WeightStore()) is None


def test_notes_beside_the_value_are_left_out() -> None:
    """Tools mark constants with attributes of their own, which the operator does not have."""
    weight = constant_weight({"seen_by_a_tool": 1, "value_int": 3}, WeightStore())
    assert weight is not None
    assert weight.array().tolist() == 3
