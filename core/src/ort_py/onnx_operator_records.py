"""Asking onnx's native library what `ort_py.onnx_operators` tells of operators, and writing that into its file.

Only a process that has no such file imports this.
"""

from __future__ import annotations

from typing import Any

from ort_py.mapped_parts import write_parts
from ort_py.onnx_operators import FORMAT, Operator, Parameter
from ort_py.onnx_parts import onnx

__all__ = ["ir_version_of_messages", "opsets_of_library", "versions_of", "write_operators"]

_UNBOUNDED = 2**31 - 1

_ONNX = "ai.onnx"
"""How onnx's own domains begin, but for the one without a name. Others are a program's, which registered them."""


def ir_version_of_messages() -> int:
    """The newest version of ONNX's format that its messages know."""
    return int(onnx.IR_VERSION)


def opsets_of_library() -> dict[str, int]:
    """Domains that the library defines, each with its newest opset."""
    return {domain: newest for domain, (_, newest) in onnx.onnx_cpp2py_export.defs.schema_version_map().items()}


def versions_of(op_type: str, domain: str) -> list[Operator]:
    """The versions of an operator, oldest first."""
    found: list[Operator] = []
    newest = opsets_of_library().get(domain, 0)
    while newest > 0:
        try:
            schema = onnx.defs.get_schema(op_type, newest, domain)
        except onnx.defs.SchemaError:
            break
        found.append(record(schema))
        newest = schema.since_version - 1
    return found[::-1]


def record(schema: Any) -> Operator:
    """The record of one schema."""
    return Operator(
        schema.name,
        schema.domain,
        schema.since_version,
        schema.deprecated,
        bool(schema.has_type_and_shape_inference_function),
        bool(schema.has_function),
        bool(schema.function_opset_versions or schema.context_dependent_function_opset_versions),
        schema.node_determinism != onnx.defs.OpSchema.NodeDeterminism.NonDeterministic,
        None if schema.max_input >= _UNBOUNDED else schema.max_input,
        None if schema.max_output >= _UNBOUNDED else schema.max_output,
        tuple(map(_parameter, schema.inputs)),
        tuple(map(_parameter, schema.outputs)),
        tuple(
            (name, one.type.name, int(one.type.value), one.required, _default(one._default_value))
            for name, one in schema.attributes.items()
        ),
        tuple((one.type_param_str, tuple(one.allowed_type_strs)) for one in schema.type_constraints),
    )


_FIELDS = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints", 8: "strings"}
"""The field of an ``AttributeProto`` with its value, by its type; no operator has other defaults, but for tensors."""


def _default(content: bytes) -> Any:
    """The value in an ``AttributeProto``, as `Operator` has it."""
    given = onnx.AttributeProto.FromString(content)
    if not given.type:
        return None
    return _python(getattr(given, _FIELDS[given.type])) if given.type in _FIELDS else content


def _python(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, int | float) else tuple(map(_python, value))


def _parameter(formal: Any) -> Parameter:
    option, allowed = formal.option.name, formal.types
    return Parameter(
        formal.name,
        formal.type_str,
        next(iter(allowed)) if len(allowed) == 1 else "",
        option == "Optional",
        option == "Variadic",
        formal.is_homogeneous,
        formal.min_arity,
    )


def write_operators(path: str, library: tuple[object, ...]) -> None:
    """Write the file with all operators.

    Args:
        path: The file.
        library: What tells the library that the operators come from.
    """
    operators: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if _is_own(schema.domain):
            operators.setdefault((schema.domain, schema.name), []).append(_plain(record(schema)))
    parts = [sorted(versions, key=lambda one: one[2]) for versions in operators.values()]
    opsets = {domain: newest for domain, newest in opsets_of_library().items() if _is_own(domain)}
    write_parts(
        path,
        FORMAT,
        parts,
        lambda places: (library, ir_version_of_messages(), opsets, dict(zip(operators, places, strict=True))),
    )


def _is_own(domain: str) -> bool:
    return not domain or domain.startswith(_ONNX)


def _plain(value: Any) -> Any:
    """A record as tuples, the only kind that `marshal` writes."""
    return tuple([_plain(one) for one in value]) if isinstance(value, tuple) else value
