"""Write `docs/operators.md`: every operator that ONNX or a provider defines, with versions and types, per provider.

Run in the project's environment from the repository's root: `.venv/bin/python -m scripts.operator_table`. A test keeps
the page true (`tests/architecture/test_operator_table.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx

from ort_py.contracts import KernelDef

__all__ = ["main", "page"]

TARGET = Path(__file__).resolve().parent.parent / "docs" / "operators.md"

HEAD = """# Operators

Written by `python -m scripts.operator_table` from the schemas of onnx {onnx} and the providers' kernels.

A row is an operator with its schema versions; a version stands for all opsets up to the next. Types are those the
newest version allows for each type variable (f16 is float16, bf16 bfloat16, f32 float, f64 double, i8 to u64 integers,
f8 the five float8 types, f6 float6, f4 float4, c64 and c128 complex). A provider's column says which versions it has
kernels for and, where it does not take every type of the newest, which ones it takes.

*engine* marks operators that are no kernels: the core runs them as steps of its plan on whatever providers run their
bodies, or rewrites them (`Gradient`). An operator that ONNX defines by a function of others runs on every provider that
runs these, even without a kernel; those are marked *f*. Deprecated versions are in parentheses: ONNX does not allow
them in a model that imports that opset.

"""

_ENGINE = frozenset({"If", "Loop", "Scan", "SequenceMap", "Gradient"})

_INTEGERS = {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}

_SHORT = _INTEGERS | {
    "float": "f32",
    "double": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "string": "string",
    "bool": "bool",
    "complex64": "c64",
    "complex128": "c128",
}

_ORDER = (
    "f16",
    "bf16",
    "f32",
    "f64",
    "f8",
    "f6",
    "f4",
    "i2",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
)


@dataclass(frozen=True)
class Operator:
    """An operator with what the table says of it.

    Attributes:
        domain, name: Which operator.
        versions: Schema versions, each with whether it is deprecated.
        types: Allowed type strings of each type variable in the newest version.
        function: The newest version is defined by a function.
    """

    domain: str
    name: str
    versions: Mapping[int, bool]
    types: Mapping[str, frozenset[str]]
    function: bool


def _cpu() -> Sequence[KernelDef]:
    from ort_py_cpu.provider import CpuProvider

    return list(CpuProvider("CPUExecutionProvider").kernel_registry())


PROVIDERS: dict[str, Callable[[], Sequence[KernelDef]]] = {"CPUExecutionProvider": _cpu}
"""Providers of this repository, and how to ask them for their kernels."""


def operators() -> list[Operator]:
    """All operators, by domain and name; those of plug-ins' schemas behind ONNX's."""
    found: dict[tuple[str, str], dict[int, onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), {})[schema.since_version] = schema
    result = []
    for (domain, name), versions in sorted(found.items()):
        newest: Any = versions[max(versions)]  # the stub lacks half of its attributes
        result.append(
            Operator(
                domain,
                name,
                {since: schema.deprecated for since, schema in sorted(versions.items())},
                {one.type_param_str: frozenset(one.allowed_type_strs) for one in newest.type_constraints},
                bool(newest.has_function or newest.has_context_dependent_function),
            )
        )
    return result + _contributed()


def _contributed() -> list[Operator]:
    from ort_py_cpu.plugin import ort_py_operator_schemas

    schemas = sorted(ort_py_operator_schemas(), key=lambda schema: (schema.domain, schema.op_type))
    return [
        Operator(schema.domain, schema.op_type, {schema.since_version: False}, schema.types, function=False)
        for schema in schemas
    ]


def page() -> str:
    """The text of `docs/operators.md`."""
    kernels = {name: _by_operator(ask()) for name, ask in PROVIDERS.items()}
    text = HEAD.format(onnx=version("onnx"))
    title = ""
    for operator in operators():
        heading = operator.domain or "ai.onnx"
        if not operator.domain and not onnx.defs.has(operator.name):
            heading = "ai.onnx, operators that onnxruntime adds"
        if heading != title:
            text += (
                f"{chr(10) if title else ''}## {heading}\n\n| operator | versions | types | {' | '.join(PROVIDERS)} |\n"
            )
            text += f"|---|---|---|{'---|' * len(PROVIDERS)}\n"
            title = heading
        cells = [_support(operator, found.get((operator.domain, operator.name), [])) for found in kernels.values()]
        name = f"`{operator.name}`{' *f*' if operator.function else ''}"
        text += f"| {name} | {_versions(operator)} | {_types(operator.types)} | {' | '.join(cells)} |\n"
    return text


def _by_operator(definitions: Iterable[KernelDef]) -> dict[tuple[str, str], list[KernelDef]]:
    found: dict[tuple[str, str], list[KernelDef]] = {}
    for definition in definitions:
        found.setdefault((definition.domain, definition.op_type), []).append(definition)
    return found


def _versions(operator: Operator) -> str:
    return ", ".join(f"({since})" if deprecated else str(since) for since, deprecated in operator.versions.items())


def _support(operator: Operator, kernels: Sequence[KernelDef]) -> str:
    """The support of a provider for an operator."""
    if not kernels:
        return "*engine*" if operator.name in _ENGINE else "–"
    covered = [since for since in operator.versions if any(one.since <= since <= one.last for one in kernels)]
    versions = "all versions" if covered == list(operator.versions) else ", ".join(map(str, covered))
    newest = max(operator.versions)
    current = [one for one in kernels if one.since <= newest <= one.last]
    limited = {}
    for variable, allowed in operator.types.items():
        taken = frozenset().union(*(one.types.get(variable, allowed) for one in current)) & allowed
        if current and taken != allowed:
            limited[variable] = taken
    return f"{versions}; {_types(limited)}" if limited else f"{versions}, all types"


def _types(types: Mapping[str, frozenset[str]]) -> str:
    """Type variables and what they allow, in few words."""
    return "; ".join(f"{variable}: {_short(allowed)}" for variable, allowed in types.items()) or "–"


def _short(allowed: frozenset[str]) -> str:
    tensors = {_shortened(text) for text in allowed if text.startswith("tensor(")}
    others = {text.split("(")[0] for text in allowed if not text.startswith("tensor(")}
    names = {"seq": "sequences", "map": "maps", "optional": "optionals", "sparse_tensor": "sparse tensors"}
    words = sorted(tensors, key=lambda one: (_ORDER.index(one) if one in _ORDER else len(_ORDER), one))
    if len(words) > 14:
        missing = [one for one in (*_ORDER, "bool", "c128", "c64", "string") if one not in tensors]
        words = ["all tensors" + (f" but {' '.join(missing)}" if missing else "")]
    return " ".join([*words, *sorted(names[one] for one in others)])


def _shortened(text: str) -> str:
    element = text.removeprefix("tensor(").rstrip(")")
    if element.startswith(("float8", "float6", "float4")):
        return f"f{element[5]}"
    return _SHORT[element]


def main() -> int:
    """Write the page."""
    TARGET.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
