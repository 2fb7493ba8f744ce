"""The versions of ONNX's operators, and the opset that a model declares to get one of them.

Reads `onnx.defs`; knows no case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from onnx import defs, helper


class OperatorVersion(NamedTuple):
    """One version of an operator's schema.

    Attributes:
        domain: Operator domain, ``""`` for ``ai.onnx``.
        version: The schema's ``since_version``.
    """

    domain: str
    op_type: str
    version: int

    def __str__(self) -> str:
        return f"{self.domain}.{self.op_type}-{self.version}" if self.domain else f"{self.op_type}-{self.version}"


@cache
def operator_versions() -> Mapping[tuple[str, str], tuple[int, ...]]:
    """The versions of each operator that the installed ``onnx`` defines, ascending, by (domain, operator).

    The versions by which operators were deprecated are left out, since no model may use them.
    """
    found = {operator: tuple(v for v, deprecated in all_ if not deprecated) for operator, all_ in _history().items()}
    return {operator: versions for operator, versions in found.items() if versions}


def version_at(domain: str, op_type: str, opset: int) -> int | None:
    """The version of an operator that is in force at an opset of its domain; None where it does not exist there."""
    known = [entry for entry in _history().get((domain, op_type), ()) if entry[0] <= opset]
    return known[-1][0] if known and not known[-1][1] else None


def opset_with(wanted: OperatorVersion) -> int:
    """The newest opset of the operator's domain at which this version of its schema is in force."""
    later = [version for version, _ in _history()[wanted.domain, wanted.op_type] if version > wanted.version]
    return min(later) - 1 if later else max(wanted.version, _newest_opsets().get(wanted.domain, 1))


def schema_of(wanted: OperatorVersion) -> defs.OpSchema:
    """The schema of one version of an operator."""
    return defs.get_schema(wanted.op_type, wanted.version, wanted.domain)


@cache
def _history() -> Mapping[tuple[str, str], list[tuple[int, bool]]]:
    """Each version of each operator, ascending, and whether it deprecates the operator."""
    found: dict[tuple[str, str], list[tuple[int, bool]]] = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        found[schema.domain, schema.name].append((schema.since_version, schema.deprecated))
    return {operator: sorted(versions) for operator, versions in sorted(found.items())}


@cache
def _newest_opsets() -> Mapping[str, int]:
    newest: dict[str, int] = {}
    for _release, _ir, *opsets in helper.VERSION_TABLE:
        for domain, opset in zip(("", "ai.onnx.ml", "ai.onnx.preview.training"), opsets, strict=False):
            newest[domain] = max(newest.get(domain, 0), opset)
    return newest
