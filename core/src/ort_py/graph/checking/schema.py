"""Schemas by operator, domain and opset, from the installed onnx or from plug-ins.

A registry belongs to a session, since plug-ins contribute per session; ONNX's own schemas are converted once a
process. Asked by `validate`, `shapes`, kernel look-up and planners. Plug-ins extend any domain, ONNX's own by operators
that ONNX has not (exporters put some of onnxruntime's there), but never change what ONNX defines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ort_py.contracts.schema import OperatorSchema
from ort_py.errors import InvalidArgument, InvalidGraph, operator_title
from ort_py.graph.checking.domains import WELL_KNOWN, newest_opset, normalised, onnx_domains
from ort_py.graph.checking.resolved_schema import ResolvedSchema, from_contributed, from_onnx
from ort_py.graph.ir import Node
from ort_py.onnx_operators import defined
from ort_py.onnx_parts import onnx
from ort_py.suggestions import close_names


class SchemaRegistry:
    """Schemas of ONNX and of plug-ins.

    Args:
        ask: Called with this registry when first an operator is met that ONNX does not define, to `add` what plug-ins
            contribute; most models never come to that.
    """

    def __init__(
        self, contributed: Iterable[OperatorSchema] = (), ask: Callable[[SchemaRegistry], None] | None = None
    ) -> None:
        self._added: dict[tuple[str, str], dict[int, OperatorSchema]] = {}
        self._found: dict[tuple[str, str, int], ResolvedSchema | None] = {}
        self._ask: Callable[[SchemaRegistry], None] | None = None
        self.add(contributed)
        self._ask = ask

    @property
    def _contributed(self) -> dict[tuple[str, str], dict[int, OperatorSchema]]:
        ask, self._ask = self._ask, None
        if ask is not None:
            ask(self)
        return self._added

    def add(self, schemas: Iterable[OperatorSchema]) -> None:
        """Add schemas of one plug-in. A second addition of the same object is not a conflict.

        Raises:
            InvalidArgument: ONNX defines the operator, or another schema has its name and version.
        """
        for schema in schemas:
            domain = normalised(schema.domain)
            title = operator_title(schema.op_type, domain)
            if defined(schema.op_type, domain):
                raise InvalidArgument(
                    f"A schema is contributed for {title}, which ONNX defines.",
                    why="only the ONNX specification defines its operators",
                    fix="Use a domain of your own, such as the name of your package.",
                )
            versions = self._contributed.setdefault((schema.op_type, domain), {})
            if versions.setdefault(schema.since_version, schema) is not schema:
                raise InvalidArgument(
                    f"Two schemas are contributed for {title} since version {schema.since_version}.",
                    fix="Block one of the plug-ins, or give their operators different domains.",
                )
        self._found.clear()

    def contributed(self, op_type: str, domain: str, opset: int) -> OperatorSchema | None:
        versions = self._contributed.get((op_type, normalised(domain)), {})
        since = max((version for version in versions if version <= opset), default=None)
        return None if since is None else versions[since]

    def find(self, op_type: str, domain: str, opset: int) -> ResolvedSchema | None:
        """The schema in force for an operator at an opset of its domain, deprecated ones included, or None."""
        key = (op_type, normalised(domain), opset)
        if key not in self._found:
            # Operators that ONNX defines cannot be contributed.
            schema = None if defined(op_type, key[1]) else self.contributed(*key)
            self._found[key] = from_onnx(*key) if schema is None else from_contributed(schema)
        return self._found[key]

    def opset(self, node: Node) -> int:
        """Opset in force for a node; known domains need no import and then mean their newest opset."""
        known = node.opset_version
        if known:
            return known
        # A model without an import of ONNX's own domain is wrong, not one of its newest opset.
        return self.newest(node.domain) if node.domain else 0

    def newest(self, domain: str) -> int:
        """The newest opset of a domain that ONNX or a plug-in defines; 0 for an unknown domain."""
        contributed = [max(found) for (_, name), found in self._contributed.items() if name == normalised(domain)]
        return max([newest_opset(domain) or 0, *contributed])

    def lookup(self, node: Node) -> ResolvedSchema | None:
        """The schema of a node, None where its operator is unknown; deprecated ones are found."""
        return self.find(node.op_type, node.domain, node.opset_version or self.opset(node))

    def resolve(self, node: Node) -> ResolvedSchema:
        """The schema of a node.

        Raises:
            InvalidGraph: The operator is unknown or deprecated at this opset; the text says what exists instead.
        """
        schema = self.lookup(node)
        if schema is None or schema.deprecated:
            raise InvalidGraph(
                f"Operator {node.op_type} is not defined.",
                where=node.location,
                why=self.explain_unknown(node),
                fix="Export the model with operators that exist, or install the plug-in that defines them.",
            )
        return schema

    def explain_unknown(self, node: Node) -> str:
        """Explain why no schema is in force for a node, and suggest a similar operator."""
        op_type, domain, opset = node.op_type, node.domain, self.opset(node)
        title = domain or "ai.onnx"
        if not opset:
            return f"the model uses domain '{title}' but imports no opset for it"
        versions = self._versions(op_type, domain)
        if versions:
            return _describe_versions(op_type, title, opset, versions)
        elsewhere = sorted(name or "ai.onnx" for name in self._domains() if self._versions(op_type, name))
        if elsewhere:
            return f"domain '{title}' has no operator {op_type}; domain '{elsewhere[0]}' has"
        names = self._names(domain)
        if not names:
            return f"no installed plug-in defines operators of domain '{title}'"
        close = close_names(op_type, names)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"domain '{title}' has no operator {op_type}{hint}"

    def _versions(self, op_type: str, domain: str) -> dict[int, bool]:
        """Versions of an operator, each with whether it is deprecated."""
        found = {
            schema.since_version: schema.deprecated
            for schema in onnx.defs.get_all_schemas_with_history()
            if schema.name == op_type and schema.domain == domain
        }
        return found | dict.fromkeys(self._contributed.get((op_type, domain), {}), False)

    def _names(self, domain: str) -> list[str]:
        names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain}
        return sorted(names | {op_type for op_type, found in self._contributed if found == domain})

    def _domains(self) -> set[str]:
        return set(onnx_domains()) | set(WELL_KNOWN) | {domain for _, domain in self._contributed}


def _describe_versions(op_type: str, title: str, opset: int, versions: dict[int, bool]) -> str:
    first = min(versions)
    if opset < first:
        return f"{op_type} exists from opset {first} of {title} on, but the model imports opset {opset}"
    gone = min((since for since, deprecated in versions.items() if deprecated and since <= opset), default=None)
    if gone is not None:
        return f"{op_type} exists until opset {gone - 1} of {title}, later it is deprecated; the model imports {opset}"
    return f"{op_type} has no version for opset {opset} of {title}"
