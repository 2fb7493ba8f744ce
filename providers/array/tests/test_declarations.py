"""The declarations of the library: real schema versions, no overlaps, every promise that the planner relies on."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from onnx import defs

from ort_py.contracts.kernel import KernelDef
from ort_py.contracts.kernel import kernel_defs as collect
from ort_py_array import LibraryKernels, kernel_defs
from ort_py_array.contrib.schemas import schemas as contributed_schemas
from ort_py_array.families import FAMILIES

from .backend_cases import cases, compare, definition_for, run_case, writing_cases

pytestmark = pytest.mark.slow  # thousands of cases; the tests of each family are quick

_DEFINITIONS = kernel_defs()
_CONTRIBUTED = {(schema.domain, schema.op_type) for schema in contributed_schemas()}
"""Operators that ONNX does not define, some of which stand in its own domain."""

_EARLIER = {("", "LayerNormalization")}
"""Operators of ONNX that onnxruntime had before, from version 1 on: optimisers put them into models of older opsets."""

_STANDARD = [
    definition
    for definition in _DEFINITIONS
    if definition.domain in ("", "ai.onnx.ml") and (definition.domain, definition.op_type) not in _CONTRIBUTED
]


def _schemas(*, deprecated: bool) -> dict[tuple[str, str], list[int]]:
    versions = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if deprecated or not schema.deprecated:
            versions[schema.domain, schema.name].append(schema.since_version)
    return versions


def test_ranges_begin_and_end_at_schema_versions() -> None:
    """`since` and `until` name versions that exist, so that a range means what it seems to."""
    schemas = _schemas(deprecated=True)
    wrong = [
        str(definition)
        for definition in _STANDARD
        for key in [(definition.domain, definition.op_type)]
        if not {definition.since, definition.last} <= {*schemas[key], *([1] if key in _EARLIER else [])}
    ]
    assert wrong == []


def test_no_two_kernels_claim_one_node() -> None:
    """Where version ranges overlap, types tell the kernels apart."""
    by_operator: dict[tuple[str, str], list[KernelDef]] = defaultdict(list)
    for definition in _DEFINITIONS:
        by_operator[definition.domain, definition.op_type].append(definition)
    for group in by_operator.values():
        for left, right in itertools.combinations(group, 2):
            if left.since <= right.last and right.since <= left.last:
                shared = set(left.types) & set(right.types)
                assert any(not left.types[name] & right.types[name] for name in shared), f"{left} and {right}"


def test_operators_are_covered_without_gaps() -> None:
    """From the first version an operator's kernels cover to the last, none that is in force is left out."""
    schemas = _schemas(deprecated=False)
    covered: dict[tuple[str, str], set[int]] = defaultdict(set)
    for definition in _STANDARD:
        versions = schemas[definition.domain, definition.op_type]
        inside = [version for version in versions if definition.since <= version <= definition.last]
        covered[definition.domain, definition.op_type].update(inside)
    gaps = {
        name: sorted({version for version in schemas[name] if version > min(found)} - found)
        for name, found in covered.items()
    }
    assert {name: gap for name, gap in gaps.items() if gap} == {}


def test_kernels_say_where_they_are() -> None:
    """Reports can name each kernel's code."""
    assert all(definition.implementation for definition in _DEFINITIONS)


@pytest.mark.redundant(one_in=3)  # an operator has several cases, and a kernel several operators
@pytest.mark.parametrize("name", sorted(cases()))
def test_inputs_are_neither_written_nor_returned(name: str) -> None:
    """Inputs are read only; what is not declared a view shares no memory with one, and is contiguous if they are."""
    case = cases()[name]
    arrays = [value for value in case.inputs if isinstance(value, np.ndarray)]
    before = [array.copy() for array in arrays]
    results = run_case(case)
    for array, copy in zip(arrays, before, strict=True):
        assert array.tobytes() == copy.tobytes() or array.dtype.kind == "O"
    views = {output for output, _ in definition_for(case).views}
    for index, result in enumerate(results):
        if isinstance(result, np.ndarray) and index not in views and result.size:
            assert not any(np.shares_memory(result, array) for array in arrays), f"output {index} is a view"
            assert result.flags.c_contiguous, f"output {index} is strided, though the inputs are not"


@pytest.mark.redundant(one_in=3)
@pytest.mark.parametrize("name", writing_cases())
def test_declared_outputs_are_written(name: str) -> None:
    """A kernel that declares `out` fills the arrays behind its inputs with the very bits that it returns without them.

    Whatever was in them; and it returns those arrays.
    """
    case = cases()[name]
    expected = [np.asarray(result) for result in run_case(case, constants=True)]
    outs = tuple(_garbage(result) for result in expected)
    returned = run_case(case, constants=True, outputs=outs)
    for result, out, given in zip(expected, outs, returned, strict=True):
        _same_bits(out, result)
        assert given is out


@pytest.mark.parametrize("name", [name for name in writing_cases() if definition_for(cases()[name]).inplace])
def test_declared_pairs_share_a_buffer(name: str) -> None:
    """Each input that may be overwritten may also be the output, where shape and type allow it: to the bit."""
    case = cases()[name]
    expected = [np.asarray(result) for result in run_case(case, constants=True)]
    for source, target in definition_for(case).inplace:
        x = case.inputs[source] if source < len(case.inputs) else None
        if x is None or x.shape != expected[target].shape or x.dtype != expected[target].dtype:
            continue
        buffer = np.array(x, order="C")
        inputs = (*case.inputs[:source], buffer, *case.inputs[source + 1 :])
        outs = tuple(buffer if index == target else _garbage(result) for index, result in enumerate(expected))
        run_case(replace(case, inputs=inputs), constants=True, outputs=outs)
        for result, out in zip(expected, outs, strict=True):
            _same_bits(out, result)


def _garbage(like: Any) -> Any:
    """An array of the same form with other content."""
    out = np.empty(like.shape, like.dtype)
    if like.dtype.kind == "O":
        out[...] = "garbage"
    else:
        out.reshape(-1).view(np.uint8)[...] = 1 if like.dtype.kind == "b" else 0x55
    return out


def _same_bits(actual: Any, expected: Any) -> None:
    assert actual.dtype == expected.dtype
    if expected.dtype.kind == "O":
        assert actual.tolist() == expected.tolist()
    else:
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.redundant(one_in=3)
@pytest.mark.parametrize("name", sorted(name for name, case in cases().items() if definition_for(case).strided))
def test_declared_strides_are_read(name: str) -> None:
    """A kernel that declares `strided` reads tensors whose elements are not next to each other."""
    case = cases()[name]
    for left, right in zip(run_case(case, to_device=_spread), case.expected, strict=True):
        compare(left, right, case)


def _spread(value: Any) -> Any:
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    return np.repeat(value, 2, axis=-1)[..., ::2]


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, case in cases().items()
        if any(not isinstance(value, list) and np.shape(value) == () for value in case.inputs)
    ),
)
def test_numpy_scalars_are_tensors(name: str) -> None:
    """Scalars that NumPy's ufuncs return for tensors without axes are accepted as inputs."""
    case = cases()[name]
    scalar = [
        value[()] if isinstance(value, np.ndarray) and value.dtype.kind != "O" else value for value in case.inputs
    ]
    for left, right in zip(run_case(replace(case, inputs=tuple(scalar))), case.expected, strict=True):
        compare(left, right, case)


def test_the_table_of_families_names_what_the_modules_declare() -> None:
    """Each module's operators, no more and no less: the table decides which module is imported for an operator."""
    declared = {}
    for name in FAMILIES:
        definitions = collect(import_module(f"ort_py_array.{name}"))
        declared[name] = {f"{one.domain}:{one.op_type}" if one.domain else one.op_type for one in definitions}
    assert {name: set(operators.split()) for name, operators in FAMILIES.items()} == declared


def test_the_catalogue_has_every_kernel_under_its_operator() -> None:
    """A lookup by operator gives the entries of the list, and nothing for an unknown operator."""
    library = LibraryKernels()
    assert list(library) == kernel_defs()
    for domain, op_type in {(one.domain, one.op_type) for one in kernel_defs()}:
        expected = [one for one in kernel_defs() if (one.domain, one.op_type) == (domain, op_type)]
        assert list(library.kernels_of(domain, op_type)) == expected
    assert list(library.kernels_of("", "Sofmax")) == []


def test_one_operator_imports_its_family_only() -> None:
    """A session pays for the operators of its model."""
    code = (
        "import sys, ort_py_array\n"
        "ort_py_array.LibraryKernels().kernels_of('', 'Softmax')\n"
        "print(sorted(name for name in sys.modules if name.startswith('ort_py_array.contrib')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
