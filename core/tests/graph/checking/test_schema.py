"""Lookup of a node's operator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from ort_py.contracts.schema import FormalParameter, OperatorSchema
from ort_py.errors import InvalidArgument, InvalidGraph
from ort_py.graph.checking.domains import onnx_domains
from ort_py.graph.checking.resolved_schema import attribute_kind_name, canonical_type, formal_at, from_onnx
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Graph, Model, Node

pytestmark = pytest.mark.quick


def node(op_type: str, opset: int, domain: str = "") -> Node:
    """A node of an operator in a model that imports this opset of its domain, or nothing where 0."""
    model = Model({domain: opset} if opset else {})
    model.graph = Graph("g", model)
    return Node(op_type, [], model.graph, name="n", domain=domain)


FUSED = OperatorSchema(
    "Fused",
    "my.ops",
    since_version=2,
    inputs=(FormalParameter("X", "T"), FormalParameter("B", "T", optional=True)),
    outputs=(FormalParameter("Y", "T", variadic=True),),
    attributes={"alpha": 0.5, "mode": str, "axes": (), "any": None, "table": np.ndarray, "scale": float | None},
    types={"T": frozenset({"tensor(float)"})},
)


def test_the_version_in_force_is_the_newest_not_above_the_opset() -> None:
    """Add at opset 21 is version 14."""
    found = SchemaRegistry().resolve(node("Add", 21))
    assert found.since_version == 14
    assert found is SchemaRegistry().resolve(node("Add", 17))


def test_a_schema_has_parameters_counts_and_types() -> None:
    """Formal inputs with options, attributes with defaults, type variables with what they allow."""
    found = from_onnx("Clip", "", 13)
    assert found is not None
    assert [(formal.name, formal.type, formal.optional) for formal in found.inputs] == [
        ("input", "T", False),
        ("min", "T", True),
        ("max", "T", True),
    ]
    assert (found.max_inputs, found.max_outputs) == (3, 1)
    assert "tensor(float)" in found.types["T"]
    assert found.has_function
    assert found.deterministic


def test_attributes_have_kinds_and_defaults() -> None:
    found = from_onnx("Gemm", "", 13)
    assert found is not None
    assert (found.attributes["alpha"].kind, found.attributes["alpha"].default) == ("FLOAT", 1.0)
    cast = from_onnx("Cast", "", 13)
    assert cast is not None
    assert cast.attributes["to"].required
    lstm = from_onnx("LSTM", "", 14)
    assert lstm is not None
    assert lstm.attributes["direction"].default == "forward"


def test_variadic_parameters_stand_for_the_rest() -> None:
    """Concat takes any number of one type, Loop any number of any types."""
    concat, loop = from_onnx("Concat", "", 13), from_onnx("Loop", "", 16)
    assert concat is not None
    assert loop is not None
    assert concat.max_inputs is None
    formal = formal_at(concat.inputs, 7)
    assert formal is not None
    assert formal.homogeneous
    state = formal_at(loop.inputs, 9)
    assert state is not None
    assert not state.homogeneous
    clip = from_onnx("Clip", "", 13)
    assert clip is not None
    assert formal_at(clip.inputs, 3) is None
    assert formal_at(clip.outputs, 1) is None


def test_random_operators_are_not_deterministic() -> None:
    found = from_onnx("RandomNormal", "", 1)
    assert found is not None
    assert not found.deterministic


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seq(map(string, float))", "seq(map(string,tensor(float)))"),
        ("map(int64,string)", "map(int64,tensor(string))"),
        ("map(int64,tensor(float))", "map(int64,tensor(float))"),
        ("optional(seq(tensor(float)))", "optional(seq(tensor(float)))"),
    ],
)
def test_type_strings_have_one_spelling(text: str, expected: str) -> None:
    """onnx leaves out that the values of maps are tensors."""
    assert canonical_type(text) == expected


def test_contributed_schemas_are_found_like_onnx_ones() -> None:
    registry = SchemaRegistry([FUSED])
    found = registry.resolve(node("Fused", 3, "my.ops"))
    assert found.since_version == 2
    assert (found.max_inputs, found.max_outputs) == (2, None)
    kinds = {name: (spec.kind, spec.required) for name, spec in found.attributes.items()}
    assert kinds == {
        "alpha": ("FLOAT", False),
        "mode": ("STRING", True),
        "axes": ("LIST", False),
        "any": ("ANY", False),
        "table": ("TENSOR", True),
        "scale": ("FLOAT", False),
    }
    assert registry.contributed("Fused", "my.ops", 1) is None
    assert registry.contributed("Fused", "my.ops", 5) is FUSED


def test_contributed_domains_need_no_import() -> None:
    """Models may use known domains without an import, as in onnxruntime."""
    registry = SchemaRegistry([FUSED])
    assert registry.resolve(node("Fused", 0, "my.ops")).since_version == 2
    assert registry.opset(node("X", 0, "com.microsoft")) == 1


def test_what_onnx_defines_cannot_be_contributed() -> None:
    """The specification alone says what its operators do."""
    with pytest.raises(InvalidArgument, match=r"contributed for Relu, which ONNX defines"):
        SchemaRegistry([OperatorSchema("Relu", "ai.onnx", since_version=99)])


def test_the_domains_of_onnx_can_be_extended_by_other_operators() -> None:
    """Exporters put some of onnxruntime's operators into ONNX's default domain."""
    registry = SchemaRegistry([OperatorSchema("Fused", "")])
    assert registry.resolve(node("Fused", 17)).since_version == 1


def test_the_newest_opset_of_a_domain() -> None:
    """The result comes from ONNX or a plug-in, and is 0 for an unknown domain."""
    registry = SchemaRegistry([FUSED])
    assert registry.newest("") == onnx.defs.onnx_opset_version()
    assert (registry.newest("my.ops"), registry.newest("nobody")) == (2, 0)


def test_the_domains_of_onnx_are_those_of_its_schemas() -> None:
    newest: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        newest[schema.domain] = max(newest.get(schema.domain, 0), schema.since_version)
    known = onnx_domains()
    assert {domain: min(known[domain], opset) for domain, opset in newest.items()} == newest


def test_two_schemas_of_one_version_conflict() -> None:
    """The same object twice is not a conflict, another one is."""
    registry = SchemaRegistry([FUSED, FUSED])
    with pytest.raises(InvalidArgument, match=r"Two schemas are contributed for my\.ops\.Fused since version 2"):
        registry.add([OperatorSchema("Fused", "my.ops", since_version=2)])


@pytest.mark.parametrize(
    ("op_type", "opset", "domain", "text"),
    [
        ("Sofmax", 17, "", "domain 'ai.onnx' has no operator Sofmax; did you mean Softmax?"),
        ("relu", 17, "", "did you mean Relu?"),
        ("Qwertzuiop", 17, "", "domain 'ai.onnx' has no operator Qwertzuiop"),
        ("Gelu", 17, "", "Gelu exists from opset 20 of ai.onnx on, but the model imports opset 17"),
        ("Upsample", 17, "", "Upsample exists until opset 9 of ai.onnx, later it is deprecated; the model imports 17"),
        ("ZipMap", 17, "", "domain 'ai.onnx' has no operator ZipMap; domain 'ai.onnx.ml' has"),
        ("X", 1, "nobody", "no installed plug-in defines operators of domain 'nobody'"),
        ("X", 0, "nobody", "uses domain 'nobody' but imports no opset for it"),
        ("Fusde", 3, "my.ops", "did you mean Fused?"),
        ("Fused", 1, "my.ops", "Fused exists from opset 2 of my.ops on, but the model imports opset 1"),
    ],
)
def test_unknown_operators_are_explained(op_type: str, opset: int, domain: str, text: str) -> None:
    """The message suggests another spelling, opset, domain or plug-in."""
    with pytest.raises(InvalidGraph) as caught:
        SchemaRegistry([FUSED]).resolve(node(op_type, opset, domain))
    assert f"Operator {op_type} is not defined" in str(caught.value)
    assert text in str(caught.value)
    assert "node 'n'" in str(caught.value)
    assert caught.value.fix


def test_every_schema_of_onnx_converts() -> None:
    """Each operator at each version, with canonical types and known attribute kinds."""
    for schema in onnx.defs.get_all_schemas_with_history():
        found = from_onnx(schema.name, schema.domain, schema.since_version)
        assert found is not None
        assert found.since_version == schema.since_version
        for spec in found.attributes.values():
            assert spec.default is None or spec.accepts(attribute_kind_name(spec.default))


def test_plug_ins_are_asked_only_for_operators_that_onnx_does_not_define() -> None:
    """Once, when the first one is met."""
    asked: list[SchemaRegistry] = []

    def ask(registry: SchemaRegistry) -> None:
        asked.append(registry)
        registry.add([FUSED])

    registry = SchemaRegistry(ask=ask)
    assert registry.resolve(node("Add", 21)).since_version == 14
    assert not asked
    for _ in range(2):
        assert registry.resolve(node("Fused", 3, "my.ops")).since_version == 2
    assert asked == [registry]
