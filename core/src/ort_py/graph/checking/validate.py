"""Every reason why a model is none, in one message.

`validate` runs right after loading, on names, counts and attributes, and notes the schema version of each node.
`check_types` runs after type inference and binds the schema's type variables. Nested graphs are walked, not recursed.

The equation of an Einsum is checked here and not only for the message: the shape inference of onnx (seen in 1.23.2)
never comes back from some equations that are none, such as ``ij$`` or ``....i``. Source: Einsum-12 of ai.onnx.
"""

from __future__ import annotations

from collections.abc import Iterator

from ort_py.errors import InconsistentGraph
from ort_py.graph.checking.nested_checks import nested_problems, nested_type_problems
from ort_py.graph.checking.problems import EXPORT_AGAIN, INVALID, Problem, raise_problems
from ort_py.graph.checking.resolved_schema import ResolvedSchema, attribute_kind_name, pairs, type_text
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Model, Node, walk

_MOST_SHOWN = 20
_STANDARD = ("", "ai.onnx.ml")
"""Domains whose unknown operators contradict the specification; those of others are merely not known here."""

_UNKNOWN_FIX = "Install the plug-in that defines the unknown operators, or export the model with standard ones."


def validate(model: Model, schemas: SchemaRegistry) -> None:
    """Check structure, operators, counts and attributes; set `Node.since_version`, import well-known domains in use.

    Args:
        schemas: Operators of ONNX and of the session's plug-ins.

    Raises:
        InvalidGraph: Something is wrong; `why` lists everything, the structure of the graph first.
    """
    problems = list(dict.fromkeys(model.problems))
    unknown = False
    for graph in walk(model.graph):
        for node in graph.nodes:
            schema = schemas.lookup(node)
            if schema is None or schema.deprecated:
                # Finding out what is meant takes milliseconds, so it is done only for what will be shown.
                why = schemas.explain_unknown(node) if len(problems) < _MOST_SHOWN else "unknown operator"
                text = f"{_title(node)}: {why}"
                problems.append(text if node.domain in _STANDARD else Problem(text, InconsistentGraph))
                unknown = True
                continue
            node.since_version = schema.since_version
            if not node.opset_version:
                # Written down, so that inference and a model written from this one agree with us.
                model.opset_imports[node.domain] = schemas.opset(node)
            problems.extend(f"{_title(node)}: {text}" for text in _node_problems(node, schema))
    raise_problems(problems, INVALID, model.source, _UNKNOWN_FIX if unknown else EXPORT_AGAIN)


def check_types(model: Model, schemas: SchemaRegistry) -> None:
    """Check types against the schemas; set `Node.type_bindings`.

    Args:
        model: A valid model after type inference; values of unknown type are passed over.

    Raises:
        InvalidGraph: A value has a type its operator forbids, or a type variable stands for two types at once.
    """
    problems: list[str] = []
    for graph in walk(model.graph):
        for node in graph.nodes:
            schema = schemas.resolve(node)
            node.since_version = schema.since_version
            bound: dict[str, tuple[str, str]] = {}
            for text in _type_problems(node, schema, bound):
                line = f"{_title(node)}: {text}"
                problems.append(Problem(line, text.kind) if isinstance(text, Problem) else line)
            problems.extend(
                Problem(f"{_title(node)}: {text}", InconsistentGraph) for text in nested_type_problems(node)
            )
            node.type_bindings = {variable: found for variable, (found, _) in bound.items()}
    raise_problems(problems, "The types in the model contradict the ONNX specification.", model.source, EXPORT_AGAIN)


def _title(node: Node) -> str:
    domain = f"{node.domain}." if node.domain else ""
    inside = f" inside '{node.path[-1]}'" if node.path else ""
    return f"node '{node.name}' ({domain}{node.op_type}){inside}"


def _node_problems(node: Node, schema: ResolvedSchema) -> Iterator[str]:
    yield from _count_problems(node, schema)
    yield from _attribute_problems(node, schema)
    yield from nested_problems(node)
    yield from equation_problems(node)


def _count_problems(node: Node, schema: ResolvedSchema) -> Iterator[str]:
    count = len(node.inputs)
    if schema.max_inputs is not None and count > schema.max_inputs:
        yield f"it has {count} inputs, {schema.op_type} takes at most {schema.max_inputs}"
    for position, formal in enumerate(schema.inputs):
        if formal.variadic:
            present = max(count - position, 0)
            if present < formal.min_count:
                yield f"'{formal.name}' needs at least {formal.min_count} inputs, it has {present}"
        elif not formal.optional and (position >= count or node.inputs[position] is None):
            yield f"its input '{formal.name}' (position {position}) is missing"
    if schema.max_outputs is not None and len(node.outputs) > schema.max_outputs:
        yield f"it has {len(node.outputs)} outputs, {schema.op_type} gives at most {schema.max_outputs}"
    required = next((formal for formal in schema.outputs if not formal.optional and not formal.variadic), None)
    if required is not None and all(value is None for value in node.outputs):
        yield f"its output '{required.name}' is missing, and it has no other"


def _attribute_problems(node: Node, schema: ResolvedSchema) -> Iterator[str]:
    for name, spec in schema.attributes.items():
        if spec.required and name not in node.attributes:
            yield f"its attribute '{name}' is missing"
    for name, value in node.attributes.items():
        spec_of = schema.attributes.get(name)
        if spec_of is None:
            known = ", ".join(sorted(schema.attributes)) or "none"
            yield f"{schema.op_type} (since version {schema.since_version}) has no attribute '{name}', only: {known}"
            continue
        kind = attribute_kind_name(value)
        if not spec_of.accepts(kind):
            yield f"its attribute '{name}' is {kind}, {schema.op_type} wants {spec_of.kind}"


def _type_problems(node: Node, schema: ResolvedSchema, bound: dict[str, tuple[str, str]]) -> Iterator[str]:
    """Texts for wrong types; fills `bound` with the type of each variable and the value it comes from."""
    for side, values, formals in (("input", node.inputs, schema.inputs), ("output", node.outputs, schema.outputs)):
        for formal, value in pairs(values, formals):
            if value.type is not None:
                found = type_text(value.type)
                allowed = schema.types.get(formal.type)
                if allowed is None:
                    if "(" in formal.type and found != formal.type:
                        yield f"{side} '{value.name}' is {found}, '{formal.name}' must be {formal.type}"
                    continue
                first = bound.setdefault(formal.type, (found, value.name))
                if found not in allowed:
                    yield _forbidden(schema, f"{side} '{value.name}' is {found}", formal.name, allowed)
                elif first[0] != found and (formal.homogeneous or not formal.variadic):
                    yield Problem(
                        f"type variable {formal.type} is {first[0]} by '{first[1]}' and {found} by {side} "
                        f"'{value.name}'; both must be the same",
                        InconsistentGraph,
                    )


def _forbidden(schema: ResolvedSchema, what: str, formal: str, allowed: frozenset[str]) -> str:
    listed = sorted(allowed)
    more = f" and {len(listed) - 12} more" if len(listed) > 12 else ""
    return (
        f"{what}, which {schema.op_type} (since version {schema.since_version}) forbids for '{formal}'; "
        f"allowed: {', '.join(listed[:12])}{more}"
    )


def equation_problems(node: Node) -> Iterator[str]:
    """Report a malformed equation of an Einsum; yields nothing for other nodes."""
    if node.op_type != "Einsum" or node.domain:
        return
    equation = node.attributes.get("equation")
    if isinstance(equation, bytes) or (isinstance(equation, str) and not _is_equation(equation)):
        yield (
            f"its equation {equation[:60]!r} is malformed: terms of letters and at most one '...' each, "
            "separated by ',', then perhaps '->' and one term"
        )


def _is_equation(text: str) -> bool:
    inputs, arrow, output = text.replace(" ", "").partition("->")
    return all(map(_is_term, inputs.split(","))) and (not arrow or _is_term(output))


def _is_term(text: str) -> bool:
    # Split by hand: a regular expression for letters around an optional ellipsis backtracks quadratically.
    before, _, after = text.partition("...")
    letters = before + after
    return not letters or (letters.isascii() and letters.isalpha())
