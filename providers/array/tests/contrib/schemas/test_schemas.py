"""The schemas say what onnxruntime's say: parameters, types, attributes and their defaults."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as native

from ort_py.contracts import GraphView, OperatorSchema
from ort_py_array.contrib import schemas as package
from ort_py_array.contrib.schemas import schemas

SCHEMAS = list(schemas())

_THEIRS: dict[tuple[str, str], Any] = {
    (schema.domain, schema.name): schema for schema in native.get_all_operator_schema()
}


_KINDS = {"INT": int, "FLOAT": float, "STRING": str, "TENSOR": np.ndarray, "GRAPH": GraphView}


def _attribute(attribute: Any) -> Any:
    """An attribute as our schemas write it."""
    kind: Any = _KINDS.get(attribute.type.name, tuple)
    if attribute.required:
        return kind
    if not attribute._default_value:
        return kind | None
    value = onnx.helper.get_attribute_value(onnx.AttributeProto.FromString(attribute._default_value))
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
    return pytest.approx(value) if isinstance(value, float) else value


def _formals(formals: Any, types: dict[str, frozenset[str]]) -> list[tuple[str, frozenset[str], str, bool]]:
    return [
        (one.name, types.get(one.typeStr, frozenset({one.typeStr})), one.option.name, one.isHomogeneous)
        for one in formals
    ]


def _ours(schema: OperatorSchema, side: str) -> list[tuple[str, frozenset[str], str, bool]]:
    return [
        (
            one.name,
            schema.types.get(one.type, frozenset({one.type})),
            "Variadic" if one.variadic else "Optional" if one.optional else "Single",
            one.homogeneous,
        )
        for one in getattr(schema, side)
    ]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.op_type)
def test_parameters(schema: OperatorSchema) -> None:
    """Names, element types and options of all inputs and outputs, in their order."""
    theirs = _THEIRS[schema.domain, schema.op_type]
    types = {one.type_param_str: frozenset(one.allowed_type_strs) for one in theirs.type_constraints}
    assert schema.since_version == theirs.since_version
    assert _ours(schema, "inputs") == _formals(theirs.inputs, types)
    assert _ours(schema, "outputs") == _formals(theirs.outputs, types)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.op_type)
def test_attributes(schema: OperatorSchema) -> None:
    theirs = {name: _attribute(one) for name, one in _THEIRS[schema.domain, schema.op_type].attributes.items()}
    assert dict(schema.attributes) == theirs


def test_each_operator_is_described_once() -> None:
    titles = [(schema.domain, schema.op_type, schema.since_version) for schema in SCHEMAS]
    assert len(titles) == len(set(titles))


def test_the_table_names_what_the_families_have() -> None:
    """No module of the package is left out, and none has an operator more."""
    modules = {one.name for one in pkgutil.iter_modules(package.__path__)} - {"notation"}
    assert set(package.FAMILIES) == modules
    named = {(one.domain, one.op_type, one.since_version) for one in SCHEMAS}
    described = {
        (one.domain, one.op_type, one.since_version)
        for name in modules
        for one in importlib.import_module(f"{package.__name__}.{name}").SCHEMAS
    }
    assert named == described


def test_names_cost_no_import_of_a_family() -> None:
    code = (
        "import sys; from ort_py_array.contrib.schemas import schemas; names = [one.op_type for one in schemas()]; "
        "print(len(names), [name for name in sys.modules if name.startswith('ort_py_array.contrib.schemas.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == [str(len(SCHEMAS)), "[]\n"]
