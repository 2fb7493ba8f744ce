"""If, Loop, Scan and SequenceMap at each of their versions, with a value of every type that the version allows.

Bodies hand on what they get, so the feeds say what is expected: dtype, shape and bits survive carrying, capturing,
slicing and stacking.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper

import ort_py
from ort_py.dtypes import OptionalType, SequenceType, TensorType, ValueType, numpy_dtype, parse_value_type
from ort_py_kit.tolerances import assert_close

EXERCISED = {
    op_type: sorted(schema.since_version for schema in defs.get_all_schemas_with_history() if schema.name == op_type)
    for op_type in ("If", "Loop", "Scan", "SequenceMap")
}
"""All versions of the schemas of the operators that are tried here; counted in `tests.conformance`."""


def types(op_type: str, version: int, variable: str = "V") -> list[ValueType]:
    """Types that a version allows for a type variable."""
    constraints = defs.get_schema(op_type, version).type_constraints
    (found,) = (one for one in constraints if one.type_param_str == variable)
    return [parse_value_type(text) for text in sorted(found.allowed_type_strs)]


def value_of(value_type: ValueType, shape: tuple[int, ...], seed: int = 0) -> Any:
    """A value of the type."""
    if isinstance(value_type, OptionalType):
        return None if seed % 2 else value_of(value_type.element, shape, seed)
    if isinstance(value_type, SequenceType):
        return [value_of(value_type.element, shape, seed + index) for index in range(3)]
    assert isinstance(value_type, TensorType)
    dtype = numpy_dtype(value_type.data_type)
    if dtype.kind == "O":
        return np.array([f"{seed}_{index}" for index in range(prod(shape))], object).reshape(shape)
    return np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)


def proto_of(value_type: ValueType, shape: tuple[int, ...]) -> onnx.TypeProto:
    """The type as a message."""
    if isinstance(value_type, OptionalType):
        return helper.make_optional_type_proto(proto_of(value_type.element, shape))
    if isinstance(value_type, SequenceType):
        return helper.make_sequence_type_proto(proto_of(value_type.element, shape))
    assert isinstance(value_type, TensorType)
    return helper.make_tensor_type_proto(int(value_type.data_type), shape)


def infos(prefix: str, held: list[ValueType], shape: tuple[int, ...]) -> list[onnx.ValueInfoProto]:
    """Declarations of one value a type."""
    return [helper.make_value_info(f"{prefix}{index}", proto_of(one, shape)) for index, one in enumerate(held)]


def names(prefix: str, count: int) -> list[str]:
    """Names of so many values."""
    return [f"{prefix}{index}" for index in range(count)]


def run(
    version: int, node: onnx.NodeProto, given: list[onnx.ValueInfoProto], made: list[onnx.ValueInfoProto], feeds: Any
) -> list[Any]:
    """Run one node at an opset."""
    graph = helper.make_graph([node], "g", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
    with ort_py.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]) as session:
        results: list[Any] = session.run(None, feeds)
        return results


SHAPE = (2, 3)
COUNT = helper.make_tensor_value_info("n", TensorProto.INT64, [])
CONDITION = helper.make_tensor_value_info("c", TensorProto.BOOL, [])


@pytest.mark.parametrize("version", EXERCISED["If"])
@pytest.mark.parametrize("condition", [True, False])
def test_if(version: int, condition: bool) -> None:
    """Both branches hand on outer values."""
    held = types("If", version)
    given = infos("x", held, SHAPE)
    branch = helper.make_graph([], "b", [], given)
    made = names("y", len(held))
    node = helper.make_node("If", ["c"], made, then_branch=branch, else_branch=branch)
    feeds = {f"x{index}": value_of(one, SHAPE, index) for index, one in enumerate(held)}
    results = run(version, node, [CONDITION, *given], infos("y", held, SHAPE), {"c": np.array(condition), **feeds})
    assert_close(results, list(feeds.values()))


@pytest.mark.parametrize("version", EXERCISED["Loop"])
def test_loop(version: int) -> None:
    """Each value is carried; tensors are stacked too."""
    held = types("Loop", version)
    tensors = [index for index, one in enumerate(held) if isinstance(one, TensorType)]
    inside = infos("v", held, SHAPE)
    body = helper.make_graph(
        [],
        "b",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), CONDITION, *inside],
        [CONDITION, *inside, *(inside[index] for index in tensors)],
    )
    carried = names("x", len(held))
    node = helper.make_node("Loop", ["n", "", *carried], [*names("y", len(held)), *names("s", len(tensors))], body=body)
    feeds = {f"x{index}": value_of(one, SHAPE, index) for index, one in enumerate(held)}
    made = [*infos("y", held, SHAPE), *infos("s", [held[index] for index in tensors], (2, *SHAPE))]
    results = run(version, node, [COUNT, *infos("x", held, SHAPE)], made, {"n": np.array(2), **feeds})
    assert_close(results[: len(held)], list(feeds.values()))
    assert_close(results[len(held) :], [np.stack([feeds[f"x{index}"]] * 2) for index in tensors])


@pytest.mark.parametrize("version", EXERCISED["Scan"])
def test_scan(version: int) -> None:
    """Each tensor is a state and is scanned; opset 8 has a batch in front."""
    held = types("Scan", version)
    count = len(held)
    batch = (2,) if version == 8 else ()
    body = helper.make_graph(
        [],
        "b",
        [*infos("v", held, SHAPE), *infos("e", held, SHAPE[1:])],
        [*infos("v", held, SHAPE), *infos("e", held, SHAPE[1:])],
    )
    node = helper.make_node(
        "Scan",
        [*([""] if version == 8 else []), *names("x", count), *names("p", count)],
        [*names("y", count), *names("s", count)],
        body=body,
        num_scan_inputs=count,
    )
    shape = (*batch, *SHAPE)
    feeds = {f"x{index}": value_of(one, shape, index) for index, one in enumerate(held)}
    feeds |= {f"p{index}": value_of(one, shape, index + 500) for index, one in enumerate(held)}
    given = [*infos("x", held, shape), *infos("p", held, shape)]
    made = [*infos("y", held, shape), *infos("s", held, shape)]
    assert_close(run(version, node, given, made, feeds), list(feeds.values()))


@pytest.mark.parametrize("version", EXERCISED["SequenceMap"])
def test_sequence_map(version: int) -> None:
    """Each sequence is walked with the first, each tensor goes in as it is."""
    sequences = types("SequenceMap", version, "S")
    held = [*sequences, *(one for one in types("SequenceMap", version) if isinstance(one, TensorType))]
    elements = [one.element if isinstance(one, SequenceType) else one for one in held]
    body = helper.make_graph([], "b", infos("v", elements, SHAPE), infos("v", elements, SHAPE))
    node = helper.make_node("SequenceMap", names("x", len(held)), names("y", len(held)), body=body)
    feeds = {f"x{index}": value_of(one, SHAPE, index) for index, one in enumerate(held)}
    made = infos("y", [one if isinstance(one, SequenceType) else SequenceType(one) for one in held], SHAPE)
    results = run(version, node, infos("x", held, SHAPE), made, feeds)
    assert_close(results, [value if isinstance(value, list) else [value] * 3 for value in feeds.values()])
