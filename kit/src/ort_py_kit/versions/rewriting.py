"""A case of one operator, written for another version of the operator's schema.

Where a version changed the meaning, `changes` writes the same computation in the form it had before, or refuses. The
rest follows from the two schemas: inputs and attributes keep their names, inputs that were attributes before become
attributes again, defaults that were others before are written out, and what the older version does not have must have
its default value. ONNX's checker and its type inference have the last word. The expected outputs stay as they are,
because the computation does.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

from ort_py_kit.backend_cases import SuiteCase
from ort_py_kit.graphs import type_text
from ort_py_kit.versions.changes import RENAMED, changes_of
from ort_py_kit.versions.draft import CannotRewrite, Draft
from ort_py_kit.versions.history import OperatorVersion, schema_of

_AttrType = defs.OpSchema.AttrType
_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic


def at_version(case: SuiteCase, wanted: OperatorVersion) -> SuiteCase:
    """The same case for another version of its operator.

    Args:
        wanted: A version of the node's operator, older or newer than that of the case.

    Raises:
        CannotRewrite: The version cannot express it, or gives it another meaning; the message says why.
    """
    draft = Draft.of(case)
    if draft.operator == wanted:
        return case
    if draft.operator.version < wanted.version:
        crossed = [one.since for one in changes_of(wanted, draft.operator.version) if not one.compatible]
        if crossed:
            raise CannotRewrite(f"version {crossed[0]} gave the operator another meaning")
    for change in changes_of(draft.operator, wanted.version):
        change.before(draft)
    _fit(draft, wanted)
    rewritten = draft.as_case()
    _check(rewritten.model, wanted)
    return rewritten


def _fit(draft: Draft, wanted: OperatorVersion) -> None:
    """Move inputs and attributes to where the wanted schema has them."""
    source, target = schema_of(draft.operator), schema_of(wanted)
    renamed = RENAMED.get((wanted.domain, wanted.op_type), {})
    names = [formal.name for formal in target.inputs]
    inputs: list[str] = []
    attributes: dict[str, Any] = {}
    for position, name in enumerate(draft.inputs):
        formal = _formal(source, position)
        if not name:
            continue
        if formal is None:  # a change put it where the older schema has it
            _place(inputs, position, name)
            continue
        title = formal.name
        if title not in names and title not in target.attributes:
            title = renamed.get(title, title)
        if title in names and formal.option != _VARIADIC:
            _place(inputs, names.index(title), name)
        elif title in target.attributes:
            attributes[title] = _as_attribute(draft.feeds[name], target.attributes[title])
        elif _formal(target, position) is None or _is_another(names, position, source, formal):
            raise CannotRewrite(f"it has no input '{formal.name}'")
        else:
            _place(inputs, position, name)
    for name, value in draft.attributes.items():
        declared = target.attributes.get(name)
        if declared is not None:
            if _kind(name, value) != int(declared.type.value):  # type: ignore[attr-defined] # an enumeration
                raise CannotRewrite(f"attribute '{name}' is of another kind")
            attributes[name] = value
        elif name in names or value != _default(source, name):
            raise CannotRewrite(f"it has no attribute '{name}'")
    for name in source.attributes:
        default = _default(source, name)
        if name in target.attributes and name not in attributes and default != _default(target, name):
            if default is None:
                raise CannotRewrite(f"attribute '{name}' has a default")
            attributes[name] = default
    draft.inputs, draft.attributes, draft.operator = inputs, attributes, wanted


def _formal(schema: defs.OpSchema, position: int) -> defs.OpSchema.FormalParameter | None:
    if position < len(schema.inputs):
        return schema.inputs[position]
    return schema.inputs[-1] if schema.inputs and schema.inputs[-1].option == _VARIADIC else None


def _is_another(names: list[str], position: int, source: defs.OpSchema, formal: defs.OpSchema.FormalParameter) -> bool:
    """Return whether the wanted schema has another input of the source's schema at a position."""
    return (
        position < len(names) and names[position] != formal.name and names[position] in {f.name for f in source.inputs}
    )


def _kind(name: str, value: Any) -> int:
    return int(value.type if isinstance(value, onnx.AttributeProto) else helper.make_attribute(name, value).type)


def _place(inputs: list[str], position: int, name: str) -> None:
    inputs += [""] * (position + 1 - len(inputs))
    inputs[position] = name


def _as_attribute(array: Any, declared: defs.OpSchema.Attribute) -> Any:
    """The value fed to an input, as an attribute of the declared kind."""
    values = np.asarray(array).reshape(-1)
    if declared.type == _AttrType.INTS:
        return helper.make_attribute(declared.name, [int(one) for one in values], attr_type=onnx.AttributeProto.INTS)
    if declared.type == _AttrType.FLOATS:
        floats = [float(one) for one in values]
        return helper.make_attribute(declared.name, floats, attr_type=onnx.AttributeProto.FLOATS)
    if declared.type == _AttrType.INT and values.size == 1:
        return int(values[0])
    if declared.type == _AttrType.FLOAT and values.size == 1:
        return float(values[0])
    raise CannotRewrite(f"attribute '{declared.name}' cannot hold what the input is fed")


def _default(schema: defs.OpSchema, name: str) -> Any:
    """The default of an attribute as a Python value, None where it has none."""
    declared = schema.attributes.get(name)
    if declared is None or not declared.default_value.type:
        return None
    return helper.get_attribute_value(declared.default_value)


def _check(model: onnx.ModelProto, wanted: OperatorVersion) -> None:
    """Let ONNX judge the model; whether the version allows the types of the outputs is looked up in its schema."""
    schema = schema_of(wanted)
    allowed = {one.type_param_str: set(one.allowed_type_strs) for one in schema.type_constraints}
    results = {value.name: value.type for value in model.graph.output}
    for place, name in enumerate(model.graph.node[0].output):
        formal = schema.outputs[min(place, len(schema.outputs) - 1)]
        text = type_text(results[name]) if name in results else ""
        if text and text not in allowed.get(formal.type_str, {formal.type_str}):
            raise CannotRewrite(f"output '{formal.name}' cannot be {text}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            onnx.checker.check_model(model)
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise CannotRewrite(str(error).strip().splitlines()[0]) from error
