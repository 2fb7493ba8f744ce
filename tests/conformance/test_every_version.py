"""Nothing is left out: every version of every operator is exercised, with every element type that it allows.

Counted over ONNX's own list of schemas, so that a new release of onnx shows here what has to be read, tested and
declared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import onnx
import pytest
from onnx import defs

from ort_py.contracts import KernelDef
from ort_py_array import kernel_defs
from ort_py_array.contrib.schemas import schemas as contributed_schemas
from ort_py_kit.backend_cases import suite_cases
from providers.array.tests.versions.rows import ROWS
from tests.end_to_end.test_control_flow_versions import EXERCISED

pytestmark = pytest.mark.slow  # making the cases of the suite takes seconds

_ENGINE = {
    "If": "the engine runs its branches",
    "Loop": "the engine runs its body",
    "Scan": "the engine runs its body",
    "SequenceMap": "the engine runs its body",
    "Gradient": "a transformation of the graph replaces it",
}
"""Operators without a kernel, and why."""

_Version = tuple[str, str, int]
"""Domain, operator and schema version."""

SCHEMAS: dict[_Version, defs.OpSchema] = {
    (schema.domain, schema.name, schema.since_version): schema for schema in defs.get_all_schemas_with_history()
}


def _in_nodes(nodes: Iterable[onnx.NodeProto], opsets: Mapping[str, int]) -> set[_Version]:
    """Versions in a graph and in the graphs its nodes hold."""
    found = set()
    for node in nodes:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain in opsets and defs.has(node.op_type, opsets[domain], domain):
            found.add((domain, node.op_type, defs.get_schema(node.op_type, opsets[domain], domain).since_version))
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                found |= _in_nodes(graph.node, opsets)
    return found


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {"" if one.domain == "ai.onnx" else one.domain: one.version for one in imports}


def in_the_suite() -> set[_Version]:
    """Versions in the models of ONNX's backend suite, the kit runs them all, and in their functions."""
    found = set()
    for case in suite_cases():
        model = case.model
        found |= _in_nodes(model.graph.node, _opsets(model.opset_import))
        for function in model.functions:
            found |= _in_nodes(function.node, _opsets(function.opset_import))
    return found


def in_rows() -> set[_Version]:
    """Versions that the rows of drawn cases try with at least one element type."""
    return {(row.domain, row.op_type, version) for row in ROWS for version in row.versions if row.dtypes(version)}


def in_control_flow() -> set[_Version]:
    """Versions of operators with graphs, in sessions of their own."""
    return {("", op_type, version) for op_type, versions in EXERCISED.items() for version in versions}


def test_every_version_of_every_operator_is_exercised() -> None:
    """By a case of the suite, by drawn cases, or in sessions; what is missing is listed."""
    missing = sorted(set(SCHEMAS) - in_the_suite() - in_rows() - in_control_flow())
    listed = "".join(f"\n  {domain or 'ai.onnx'}.{name}-{version}" for domain, name, version in missing)
    assert not missing, f"Nothing exercises these; give each a row in providers/array/tests/versions:{listed}"


def test_what_is_exercised_exists() -> None:
    """Rows and sessions name versions that ONNX has; there are as many versions as the list was made for, or more."""
    assert (in_rows() | in_control_flow()) <= set(SCHEMAS)
    assert len(SCHEMAS) >= 659


def _kernels() -> dict[tuple[str, str], list[KernelDef]]:
    found = defaultdict(list)
    for definition in kernel_defs():
        found[definition.domain, definition.op_type].append(definition)
    return found


def test_every_element_type_of_every_version_has_a_kernel() -> None:
    """For each type variable, each type that the schema allows is accepted by a declaration for that version."""
    kernels = _kernels()
    missing = []
    for (domain, name, version), schema in sorted(SCHEMAS.items()):
        if name in _ENGINE:
            continue
        fitting = [one for one in kernels[domain, name] if one.since <= version <= one.last]
        for constraint in schema.type_constraints:
            variable = constraint.type_param_str
            for allowed in constraint.allowed_type_strs:
                text = allowed.replace(" ", "")
                if not any(text in one.types.get(variable, (text,)) for one in fitting):
                    missing.append(f"{domain or 'ai.onnx'}.{name}-{version}: {variable} = {text}")
        if not fitting:
            missing.append(f"{domain or 'ai.onnx'}.{name}-{version}: no kernel")
    assert not missing, "No kernel takes:\n  " + "\n  ".join(missing)


_UNUSABLE = {("com.microsoft", "GridSample"): "its grid, which holds fractions, shares the type of its picture"}
"""Contributed operators whose schema, onnxruntime's own, allows types that mean nothing; and why."""


def test_every_element_type_of_contributed_operators_has_a_kernel() -> None:
    """The same for the operators that ONNX does not define."""
    kernels = _kernels()
    missing = [
        f"{schema.domain or 'ai.onnx'}.{schema.op_type}-{schema.since_version}: {variable} = {text}"
        for schema in contributed_schemas()
        if (schema.domain, schema.op_type) not in _UNUSABLE
        for variable, allowed in schema.types.items()
        for text in allowed
        if not any(
            one.since <= schema.since_version <= one.last and text in one.types.get(variable, (text,))
            for one in kernels[schema.domain, schema.op_type]
        )
    ]
    assert not missing, "No kernel takes:\n  " + "\n  ".join(sorted(missing))


def test_operators_of_the_engine_have_no_kernel() -> None:
    """Names that the test above leaves out have no kernel, and are operators of ONNX."""
    names = {name for _, name, _ in SCHEMAS}
    assert set(_ENGINE) <= names
    assert not {name for _, name in _kernels()} & set(_ENGINE)
