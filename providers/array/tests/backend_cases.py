"""The single-node cases of ONNX's own backend suite, taken apart for running kernels without an engine.

Collected are those whose operator has a kernel in the library. Used by the backend and the portability tests.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ort_py.contracts.kernel import KernelDef, KernelForms
from ort_py.errors import KernelNotFoundError
from ort_py_array import kernel_defs
from ort_py_kit.backend_cases import SuiteCase, compare, plain_value, suite_cases
from ort_py_kit.kernel_runner import LocalKernelContext, check_ownership, make_node_spec

__all__ = ["Case", "cases", "compare", "definition_for", "run_case", "writing_cases"]

DEFINITIONS = kernel_defs()


@dataclass(frozen=True)
class Case:
    """One node with its inputs, what it should give, and how exactly.

    Attributes:
        name: The suite's name of the case.
        op_type, domain, opset, attributes: The node.
        inputs: One entry a formal input, None where an optional one is absent; trailing absent ones are cut.
        mask: Which outputs the node has.
        expected: One entry a present output.
        rtol, atol: Tolerances of the case.
    """

    name: str
    op_type: str
    domain: str
    opset: int
    attributes: dict[str, Any]
    inputs: tuple[Any, ...]
    mask: tuple[bool, ...]
    expected: tuple[Any, ...]
    rtol: float
    atol: float


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name."""
    operators = {(definition.domain, definition.op_type) for definition in DEFINITIONS}
    found = {}
    for case in suite_cases():
        model = case.model if case.kind == "node" else None
        if model is None or len(model.graph.node) != 1 or model.functions:
            continue
        if any(attribute.HasField("g") for attribute in model.graph.node[0].attribute):
            continue  # a graph needs an engine: these run through sessions
        if (model.graph.node[0].domain, model.graph.node[0].op_type) in operators:
            found[case.name] = _taken_apart(case, model)
    return found


def _taken_apart(case: SuiteCase, model: onnx.ModelProto) -> Case:
    node = model.graph.node[0]
    given, expected = case.sets[0]
    feeds = dict(zip((value.name for value in model.graph.input), map(plain_value, given), strict=True))
    inputs = [feeds[name] if name else None for name in node.input]
    while inputs and inputs[-1] is None:
        inputs.pop()
    return Case(
        name=case.name,
        op_type=node.op_type,
        domain=node.domain,
        opset=next(entry.version for entry in model.opset_import if entry.domain == node.domain),
        attributes={attribute.name: _attribute(attribute) for attribute in node.attribute},
        inputs=tuple(inputs),
        mask=tuple(bool(name) for name in node.output),
        expected=tuple(map(plain_value, expected)),
        rtol=case.rtol,
        atol=case.atol,
    )


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, str | int | float):
        return value
    return tuple(item.decode() if isinstance(item, bytes) else item for item in value)


def definition_for(case: Case) -> KernelDef:
    """The kernel that the registry would choose.

    Raises:
        KernelNotFoundError: There is none for this version and these types.
    """
    node = _node(case)
    for definition in DEFINITIONS:
        if (definition.op_type, definition.domain) != (case.op_type, case.domain):
            continue
        allowed = all(
            bound in definition.types.get(variable, (bound,)) for variable, bound in node.type_bindings.items()
        )
        if definition.since <= node.since_version <= definition.last and allowed:
            return definition
    raise KernelNotFoundError(f"No kernel for {case.op_type}({node.since_version}).")


def _node(case: Case) -> Any:
    return make_node_spec(
        case.op_type,
        case.inputs,
        domain=case.domain,
        opset=case.opset,
        output_mask=case.mask,
        attributes=case.attributes,
    )


def run_case(
    case: Case,
    xp: Any = np,
    to_device: Callable[[Any], Any] = lambda value: value,
    constants: bool = False,
    outputs: tuple[Any, ...] = (),
) -> list[Any]:
    """Run a case's kernel.

    Args:
        case: The case.
        xp: Array module.
        to_device: Applied to each input that the kernel does not read on the host.
        constants: Whether all inputs but the first are known when the kernel is bound.
        outputs: Arrays to write to, for cases that are among `writing_cases`.

    Returns:
        The present outputs.
    """
    definition, kernel = _bound(case, xp, constants)
    inputs = [value if index in definition.host_inputs else to_device(value) for index, value in enumerate(case.inputs)]
    result = kernel(*inputs, *outputs)
    results = [result] if definition.outputs == 1 else list(result)
    if not outputs:
        check_ownership(definition, inputs, results)
    return [result for result, present in zip(results, case.mask, strict=False) if present]


def _bound(case: Case, xp: Any, constants: bool) -> tuple[KernelDef, Any]:
    definition = definition_for(case)
    known = {
        index: value
        for index, value in enumerate(case.inputs)
        if constants and index > 0 and isinstance(value, np.ndarray)
    }
    return definition, definition.factory(LocalKernelContext(_node(case), xp, known))


@functools.cache
def writing_cases() -> list[str]:
    """Names of the cases whose kernel writes into given arrays, with all inputs but the first known."""
    found = []
    for name, case in sorted(cases().items()):
        definition = definition_for(case)
        if definition.out and all(case.mask) and definition.outputs in (None, len(case.mask)):
            _, kernel = _bound(case, np, True)
            if not isinstance(kernel, KernelForms) or kernel.into is not None:
                found.append(name)
    return found
