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


@pytest.mark.parametrize("kind", ["no", "an empty"])
def test_an_input_without_a_type(kind: str) -> None:
    """Only an initializer could tell it."""

    def change(model: onnx.ModelProto) -> None:
        model.graph.input[0].ClearField("type")
        if kind != "no":
            model.graph.input[0].type.SetInParent()

    assert "Input 'x' of the model has no type" in _refusal(change)


def test_an_input_without_an_element_type() -> None:
    """A number of axes is not enough."""
    text = _refusal(lambda model: model.graph.input[0].type.tensor_type.ClearField("elem_type"))
    assert "Input 'x' of the model has no element type" in text


def test_an_initializer_tells_the_type_of_the_input_of_its_name() -> None:
    """This is onnxruntime's behaviour."""
    model = _model()
    model.graph.input[0].ClearField("type")
    model.graph.initializer.append(helper.make_tensor("x", TensorProto.FLOAT, [2], [1.0, 2.0]))
    loaded = load_model(model.SerializeToString())
    validate(loaded, SchemaRegistry())
    assert str(loaded.graph.initializers["x"].type).startswith("tensor(float)")


def test_attributes_without_a_type() -> None:
    """IR version 1 wrote none; since then, it cannot be left out."""
    model = _model()
    model.graph.node[0].attribute[0].ClearField("type")
    text = _refusal(lambda other: other.CopyFrom(model))
    assert "node 'n' (LeakyRelu): attribute 'alpha' has no type" in text
    model.ir_version = 1
    validate(load_model(model.SerializeToString()), SchemaRegistry())


def test_references_to_attributes_of_functions_need_no_type() -> None:
    """The call gives the type with the value."""
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    node.attribute.add(name="alpha", ref_attr_name="slope")
    model = _calling(helper.make_function("d", "F", ["a"], ["b"], [node], [helper.make_opsetid("", 17)], ["slope"]))
    model.graph.node[0].attribute.append(helper.make_attribute("slope", 0.5))
    loaded = load_model(model.SerializeToString())
    validate(loaded, SchemaRegistry())
    assert loaded.graph.nodes[0].attributes == {"alpha": 0.5}


def _calling(function: onnx.FunctionProto) -> onnx.ModelProto:
    """A model that calls a function d.F."""
    model = _model()
    model.graph.node[0].CopyFrom(helper.make_node("F", ["x"], ["y"], domain="d"))
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("d", 1))
    return model


@pytest.mark.parametrize("called", [True, False])
@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("domain", ["", "d"])
def test_functions_import_what_they_use(domain: str, nested: bool, called: bool) -> None:
    """Also in graphs inside of them, and where nothing calls them; imports of the model do not count."""
    node = helper.make_node("Relu", ["a"], ["r"], domain=domain)
    if nested:
        infos = [_value("r", TensorProto.FLOAT, [2])]
        branches: dict[str, Any] = {
            name: helper.make_graph([node], name, [], infos) for name in ("then_branch", "else_branch")
        }
        node = helper.make_node("If", ["a"], ["r"], domain="e", **branches)
    imports = [helper.make_opsetid(other, 17) for other in ("", "d", "e") if other != domain]
    model = _calling(helper.make_function("d", "F", ["a"], ["r"], [node], imports))
    if not called:
        model.graph.node[0].CopyFrom(_model().graph.node[0])
    text = _refusal(lambda other: other.CopyFrom(model))
    assert f"Function 'd.F' uses {domain or 'ai.onnx'} (Relu), but imports no opset of it" in text


def test_models_import_the_domains_of_the_functions_that_they_call() -> None:
    """A function that is called by functions alone need not be imported."""
    imports = [helper.make_opsetid(domain, 17) for domain in ("", "e")]
    outer = helper.make_function("d", "F", ["a"], ["b"], [helper.make_node("G", ["a"], ["b"], domain="e")], imports)
    inner = helper.make_function("e", "G", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], imports)
    model = _calling(outer)
    model.functions.append(inner)
    validate(load_model(model.SerializeToString()), SchemaRegistry())
    del model.opset_import[1]
    text = _refusal(lambda other: other.CopyFrom(model))
    assert "The model calls function 'd.F', but imports no opset of d" in text


def _looping(written: str, nested: bool) -> onnx.ModelProto:
    """A loop in whose body, or in a branch inside of it, a node writes a name, behind nodes that write `before`."""
    infos = {name: _value(name, TensorProto.FLOAT, [2]) for name in ("x", "y", "v", "w", "r")}
    inner = [helper.make_node("Relu", ["v"], [written]), helper.make_node("Identity", [written], ["r"])]
    if nested:
        branches: dict[str, Any] = {
            name: helper.make_graph(inner, name, [], [infos["r"]]) for name in ("then_branch", "else_branch")
        }
        inner = [helper.make_node("If", ["c"], ["w"], **branches)]
    else:
        inner.append(helper.make_node("Identity", ["r"], ["w"]))
    go_on = _value("c", TensorProto.BOOL, [])
    inputs = [_value("i", TensorProto.INT64, []), go_on, infos["v"]]
    body = helper.make_graph(inner, "body", inputs, [go_on, infos["w"]])
    nodes = [
        helper.make_node("Relu", ["x"], ["before"]),
        helper.make_node("Loop", ["n", "c", "before"], ["y"], "L", body=body),
        helper.make_node("Relu", ["y"], ["after"]),
    ]
    given = [_value("n", TensorProto.INT64, []), go_on, infos["x"]]
    weight = helper.make_tensor("weight", TensorProto.FLOAT, [2], [1.0, 2.0])
    graph = helper.make_graph(nodes, "g", given, [infos["y"]], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("name", ["x", "weight", "before"])
def test_nodes_in_bodies_write_no_name_of_the_graphs_around(name: str, nested: bool) -> None:
    """Inputs, initializers and results of earlier nodes keep their meaning."""
    text = _refusal(lambda model: model.CopyFrom(_looping(name, nested)))
    assert f"Value '{name}' is defined again inside '" in text
    assert "(Relu); a name of the graphs around has one meaning" in text


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("name", ["y", "after", "own"])
def test_names_of_later_nodes_may_be_written_in_bodies(name: str, nested: bool) -> None:
    """They mean nothing there yet, as onnx's checker and onnxruntime have it."""
    model = _looping(name, nested)
    onnx.checker.check_model(model)
    validate(load_model(model.SerializeToString()), SchemaRegistry())


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
