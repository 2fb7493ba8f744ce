"""Models that contradict themselves in ways that neither protobuf nor a schema notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ort_py.errors import Fail, InvalidGraph, LimitError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import validate
from ort_py.graph.reading.loader import load_model
from ort_py.limits import Budget, Limits
from ort_py.limits import budget as budgets
from ort_py.limits.allocation import array_memory

_value = helper.make_tensor_value_info


def _model() -> onnx.ModelProto:
    node = helper.make_node("LeakyRelu", ["x"], ["y"], name="n", alpha=0.1)
    infos = [_value(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _refusal(change: Callable[[onnx.ModelProto], Any]) -> str:
    """The text of the error that a changed model causes."""
    model = _model()
    change(model)
    with pytest.raises((InvalidGraph, Fail)) as caught:
        validate(load_model(model.SerializeToString()), SchemaRegistry())
    return str(caught.value)


def _function(inputs: list[str], outputs: list[str]) -> onnx.FunctionProto:
    nodes = [helper.make_node("Add", [inputs[0], inputs[-1]], outputs[:1])]
    return helper.make_function("d", "F", inputs, outputs, nodes, [helper.make_opsetid("", 17)])


@pytest.mark.parametrize("number", [9999, -3])
@pytest.mark.parametrize("field", ["input", "output", "value_info"])
def test_element_types_that_do_not_exist(field: str, number: int) -> None:
    """In every kind of declaration; onnxruntime refuses them, too."""

    def change(model: onnx.ModelProto) -> None:
        values = getattr(model.graph, field)
        (values[0] if values else values.add(name="v")).type.tensor_type.elem_type = number

    assert f"is declared with the element type {number}, which ONNX does not define" in _refusal(change)


def test_element_types_inside_of_other_types() -> None:
    """A sequence of such tensors is found."""
    sequence = helper.make_tensor_sequence_value_info("v", 9999, None)
    assert "'v' is declared with the element type 9999" in _refusal(
        lambda model: model.graph.value_info.append(sequence)
    )


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_domain_with_two_versions(domain: str) -> None:
    """Under either name of ONNX's domain; the meaning of operators would depend on which import is read."""
    text = _refusal(lambda model: model.opset_import.append(helper.make_opsetid(domain, 11)))
    assert "Opsets 17 and 11 of ai.onnx are imported side by side" in text


def test_a_domain_that_is_imported_twice_alike() -> None:
    """Repetition is harmless."""
    model = _model()
    model.opset_import.append(helper.make_opsetid("", 17))
    assert load_model(model.SerializeToString()).opset_imports == {"": 17}


def test_a_negative_ir_version() -> None:
    """It is no version."""
    assert "The model has no IR version" in _refusal(lambda model: setattr(model, "ir_version", -1))


@pytest.mark.parametrize(
    ("inputs", "outputs", "side"), [(["a", "a"], ["c"], "an input"), (["a", "b"], ["c", "c"], "an output")]
)
def test_functions_that_repeat_a_parameter(inputs: list[str], outputs: list[str], side: str) -> None:
    """A name stands for one value."""
    text = _refusal(lambda model: model.functions.append(_function(inputs, outputs)))
    assert f"Function 'd.F' has {side} twice" in text


@pytest.mark.parametrize(("field", "value"), [("i", 4), ("s", b"x"), ("ints", [1])])
def test_attributes_with_two_values(field: str, value: Any) -> None:
    """Only the field that the type names may be set."""
    other = onnx.AttributeProto(**{field: value})
    text = _refusal(lambda model: model.graph.node[0].attribute[0].MergeFrom(other))
    assert f"Attribute 'alpha' has a value in '{field}', which its type contradicts" in text


def test_nodes_of_one_name_are_told_apart() -> None:
    """Names of nodes need not be unique, but editors find nodes by them."""
    model = _model()
    model.graph.node.insert(0, helper.make_node("Identity", ["x"], ["z"], name="n"))
    model.graph.node[1].input[0] = "z"
    assert len({node.name for node in load_model(model.SerializeToString()).graph.nodes}) == 2


def _declarations(model: onnx.ModelProto) -> None:
    model.graph.value_info.extend(_value(f"v{i}", TensorProto.FLOAT, [2]) for i in range(600))


def _constants(model: onnx.ModelProto) -> None:
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    for i in range(600):
        model.graph.initializer.add().CopyFrom(tensor)
        model.graph.initializer[-1].name = f"w{i}"


def _attributes(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.extend(helper.make_attribute(f"a{i}", 1) for i in range(600))


@pytest.mark.parametrize("change", [_declarations, _constants, _attributes])
def test_time_is_looked_at_while_parts_are_read(
    change: Callable[[onnx.ModelProto], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph of one node may have a million other parts."""
    looked: list[int] = []

    class Counting(Budget):
        def tick(self) -> None:
            before = len(looked)
            super().tick()
            assert len(looked) - before <= 1

        def check_time(self, where: Any = "") -> None:
            looked.append(1)

    monkeypatch.setattr(budgets, "_PER_CHECK", 100)
    monkeypatch.setattr("ort_py.graph.reading.loader.Budget", Counting)
    load_model(_model().SerializeToString())
    few = len(looked)
    looked.clear()
    model = _model()
    change(model)
    load_model(model.SerializeToString())
    assert len(looked) >= few + 5


def test_nodes_in_the_file_are_counted_before_they_are_made() -> None:
    """The contradiction is known at once."""
    budget = Budget(Limits(nodes_after_inlining=10))
    with pytest.raises(LimitError, match="10 are allowed"):
        budget.write_nodes(11)


def test_maps_count_with_their_strings() -> None:
    """A string that several maps share counts once; numbers count for themselves."""
    text = "k" * 10_000
    seen: set[int] = set()
    first = array_memory({text: 1.5}, seen)
    assert 10_000 < first < 11_000
    assert array_memory({text: 2.5}, seen) < 1_000
    assert array_memory({i: float(i) for i in range(1000)}) > 1000 * 24
    assert array_memory(np.zeros(3, np.float32)) == 12
