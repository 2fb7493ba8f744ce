"""Schemas written as lines: parameters, types, and what is known of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import FormalParameter, NodeSpec, OperatorSchema, ValueSpec
from ort_py.dtypes import DataType, Shape, TensorType
from ort_py_array.contrib.schemas.notation import ShapesFunction, broadcast, dims, operator, same_shape
from ort_py_kit.kernel_runner import make_node_spec


def node(inputs: Sequence[Any], outputs: int = 1) -> NodeSpec:
    """A node with these values as inputs."""
    return make_node_spec("Op", inputs, domain="com.microsoft", outputs=outputs)


def symbolic(*shapes: Shape | None) -> NodeSpec:
    """A node with float inputs of these shapes."""
    values = tuple(ValueSpec(f"x{i}", TensorType(DataType.FLOAT, shape)) for i, shape in enumerate(shapes))
    return NodeSpec(
        index=0, name="n", op_type="Op", domain="", since_version=1, inputs=values, outputs=(ValueSpec("y"),)
    )


def types(schema: OperatorSchema, spec: NodeSpec) -> list[Any]:
    """Types that the schema infers."""
    assert schema.infer is not None
    return list(schema.infer(spec))


def test_parameters() -> None:
    """Names, variables, and what may be absent or repeated."""
    schema = operator("Op", "A: T, bias: T?, rest: tensor(int64)*", "Y: T", T="float double")
    assert schema.inputs == (
        FormalParameter("A", "T"),
        FormalParameter("bias", "T", optional=True),
        FormalParameter("rest", "tensor(int64)", variadic=True),
    )
    (mixed,) = operator("Op", "values: T**", "", T="float uint8").inputs
    assert mixed == FormalParameter("values", "T", variadic=True, homogeneous=False)
    assert schema.types == {"T": frozenset({"tensor(float)", "tensor(double)"})}
    assert (schema.domain, schema.since_version) == ("com.microsoft", 1)


def test_a_type_that_does_not_exist_is_refused() -> None:
    """A slip of the pen is found when the module is imported."""
    with pytest.raises(ValueError, match=r"Op: T names the element types \['flaot'\]"):
        operator("Op", "A: T", "Y: T", T="flaot")


def test_a_variable_without_types_is_refused() -> None:
    """Every variable says what it allows."""
    with pytest.raises(ValueError, match="Op: 'Y' has the type variable 'U', which allows nothing"):
        operator("Op", "A: T", "Y: U", T="float")


def test_element_types_follow_from_variables() -> None:
    """Bound by an input, the only one allowed, or written out; unknown where nothing says. Absent ones have none."""
    schema = operator(
        "Op", "A: T, B: T?", "Y: T, Z: U, I: tensor(int64), V: W", T="float double", U="bool", W="int8 uint8"
    )
    x = np.zeros((2, 3))
    assert types(schema, node([x], outputs=4)) == [
        TensorType(DataType.DOUBLE),
        TensorType(DataType.BOOL),
        TensorType(DataType.INT64),
        None,
    ]
    spec = make_node_spec("Op", [None, x], domain="com.microsoft", output_mask=[False, True])
    assert types(schema, spec) == [None, TensorType(DataType.BOOL)]


def test_shapes_of_inputs_are_handed_on() -> None:
    schema = operator("Op", "A: T, B: T", "Y: T, Z: T", shapes=same_shape(1, 0), T="float")
    given = [np.zeros((2, 3), np.float32), np.zeros((4,), np.float32)]
    assert [one.shape for one in types(schema, node(given, outputs=2))] == [(4,), (2, 3)]
    assert dims(node([None]), 0) is None
    assert dims(node([]), 0) is None


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((2, 1), (3,)), (2, 3)),
        (((), (3, "n")), (3, "n")),
        ((("n",), ("n",)), ("n",)),
        ((("n",), (1,)), ("n",)),
        ((("n",), (4,)), (4,)),
        ((("n",), ("m",)), (None,)),
        (((None,), (1,)), (None,)),
        ((None, (1,)), None),
    ],
)
def test_broadcast_shapes(shapes: tuple[Shape | None, ...], expected: Shape | None) -> None:
    """Sizes above 1 win; two names may both be 1."""
    function: ShapesFunction = broadcast(*range(len(shapes)))
    assert list(function(symbolic(*shapes))) == [expected]
