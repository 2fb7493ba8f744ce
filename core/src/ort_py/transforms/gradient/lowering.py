"""Find Gradient nodes and replace each by the nodes that compute it.

Comes right after types are inferred, before any transform; types are inferred once more afterwards. A Gradient that
differentiates the result of another one waits for it. Operators without a rule are replaced by their function where
ONNX defines one; an operator with neither is an error that says where and how to go on.
"""

from __future__ import annotations

from dataclasses import replace

from ort_py import errors
from ort_py.contracts import NodeTemplate
from ort_py.errors import InvalidGraph, operator_title
from ort_py.graph.checking.domains import newest_opset
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import check_types
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.ir import Model, Node, Value, walk
from ort_py.graph.reading.schema_functions import expand_schema_function
from ort_py.graph.typing.shapes import infer_types
from ort_py.graph.typing.type_merge import merge_types
from ort_py.limits import Limits
from ort_py.transforms.gradient.allowance import Allowance
from ort_py.transforms.gradient.backward import backward
from ort_py.transforms.gradient.builder import GradientBuilder
from ort_py.transforms.gradient.feeding import feed
from ort_py.transforms.gradient.registry import find_rule
from ort_py.transforms.gradient.request import GradientRequest, check_request_types, forget_wrong_shapes, read_request
from ort_py.transforms.gradient.subgraph import between, dependent

DOMAIN = "ai.onnx.preview.training"

FIRST_OPSET = 11
"""Oldest opset of ``ai.onnx`` whose operators rules are written with; Gradient itself came with opset 12."""


def lower_gradients(model: Model, schemas: SchemaRegistry, limits: Limits) -> int:
    """Replace every Gradient node of a typed model, nested graphs included; types are known afterwards.

    Args:
        model: Loaded, valid and typed; not yet changed by any transform.
        limits: Bounds for what may be added.

    Returns:
        Number of nodes replaced.

    Raises:
        InvalidGraph: A Gradient contradicts its specification.
        NotImplemented: An operator on the path has no derivative rule.
        LimitError: The gradients would have too many nodes.
    """
    found = [node for graph in walk(model.graph) for node in graph.nodes if is_gradient(node)]
    if found:
        lowering = _Lowering(model, schemas, limits)
        for node in found:
            lowering.lower(node)
        infer_types(model, schemas)
        check_types(model, schemas)
    return len(found)


def is_gradient(node: Node) -> bool:
    """Return whether a node must be replaced."""
    return node.op_type == "Gradient" and node.domain == DOMAIN


class _Lowering:
    def __init__(self, model: Model, schemas: SchemaRegistry, limits: Limits) -> None:
        self._model = model
        self._schemas = schemas
        self._limits = limits
        self._allowance = Allowance(limits, sum(len(graph.nodes) for graph in walk(model.graph)))
        self._done: set[Node] = set()
        self._state = self._new_state()
        self._stale = False  # whether there may be values that could be typed and are not

    def _new_state(self) -> EditState:
        state = EditState(self._model, self._schemas)
        state.origin = "Gradient"
        return state

    def _editor(self, node: Node) -> Editor:
        return self._state.editors.get(node.graph) or Editor(node.graph, self._state)

    # Order ------------------------------------------------------------------------------------------------------------

    def lower(self, node: Node) -> None:
        """Replace a node, after those whose results it differentiates."""
        waiting = [node]
        while waiting:
            current = waiting[-1]
            if current in self._done:
                waiting.pop()
                continue
            request = read_request(current, self._editor(current).find)
            nodes = between([request.y], set(request.leaves))
            first = [one for one in nodes if is_gradient(one)]
            if not first:
                self._replace(request)
                self._done.add(waiting.pop())
                continue
            for one in first:
                if one in waiting:
                    names = " -> ".join(entry.name for entry in [*waiting[waiting.index(one) :], one])
                    raise InvalidGraph(
                        f"Gradient '{one.name}' differentiates its own result.",
                        where=one.location,
                        why=f"what it differentiates leads back to it: {names}",
                        fix="Name the tensors between in xs or zs, or another y.",
                    )
            waiting.extend(first)

    # Replacing --------------------------------------------------------------------------------------------------------

    def _replace(self, request: GradientRequest) -> None:
        node = request.node
        opset = self._model.opset_imports.get("") or newest_opset("") or FIRST_OPSET
        if opset < FIRST_OPSET:
            raise errors.NotImplemented(
                f"Gradient needs opset {FIRST_OPSET} of ai.onnx.",
                where=node.location,
                why=f"the model imports opset {opset}, whose operators do not suffice to write derivatives with",
                fix=f"Convert the model to opset {FIRST_OPSET} or later (onnx.version_converter).",
            )
        nodes = self._typed(between([request.y], set(request.leaves)))
        check_request_types(request)
        request, nodes = self._fed(request, nodes)
        nodes = self._with_rules(request, nodes)
        active_nodes, active = dependent(nodes, request.asked, floats=True)
        builder = GradientBuilder(self._editor(node), node.name, opset, node.location, self._allowance)
        grads = backward(builder, active_nodes, active, request.y, request.asked)
        outputs = [value.name for value in request.outputs if value is not None]
        forget_wrong_shapes(request)
        self._write(node, builder, dict(zip(outputs, grads, strict=True)))

    def _typed(self, nodes: list[Node]) -> list[Node]:
        """The nodes, with types for what has been replaced in the meantime."""
        if self._stale and any(map(_rank_unknown, (value for node in nodes for value in node.outputs))):
            infer_types(self._model, self._schemas)
            self._stale = False
        return nodes

    def _with_rules(self, request: GradientRequest, nodes: list[Node]) -> list[Node]:
        """The nodes, with those that matter and have no rule replaced by their functions."""
        expanded = True
        while expanded:
            expanded = False
            for node in dependent(nodes, request.asked, floats=True)[0]:
                if find_rule(node.op_type, node.domain, node.since_version) is not None and not node.subgraphs:
                    continue
                self._expand(node, request)
                expanded = True
            if expanded:
                # Expanding goes past the editors, which remember positions and values.
                self._state, self._stale = self._new_state(), True
                nodes = self._typed(between([request.y], set(request.leaves)))
        return nodes

    def _expand(self, node: Node, request: GradientRequest) -> None:
        if node.subgraphs:
            raise errors.NotImplemented(
                f"Gradient '{request.node.name}' cannot differentiate through {node.op_type}.",
                where=node.location,
                why="there are no derivatives of control flow",
                fix="Unroll it, or keep it out of the path from xs to y (Gradient may start at a tensor behind it).",
            )
        made = expand_schema_function(node, self._schemas, names=self._state.names, limits=self._limits)
        if made is None:
            title = operator_title(node.op_type, node.domain)
            raise errors.NotImplemented(
                f"Gradient '{request.node.name}' needs the derivative of {title}({node.since_version}), for which "
                "there is no rule.",
                where=node.location,
                why=f"it is on the path from xs to '{request.y.name}', and ONNX defines it by no function",
                fix="Add a rule, a function with @rule in ort_py/transforms/gradient/rules: see docs/user/gradient.md. "
                "Or write this part of the model with other operators.",
            )
        self._allowance.spend(len(made), node.location)
        for new in made:
            new.since_version = self._schemas.resolve(new).since_version

    def _fed(self, request: GradientRequest, nodes: list[Node]) -> tuple[GradientRequest, list[Node]]:
        """The request at the values that are fed: a copy of the nodes where these are not the tensors named."""
        pairs = zip(request.leaves, request.fed, strict=True)
        given = {leaf: value for leaf, value in pairs if leaf is not value}
        if not given:
            return request, nodes
        copies = feed(request.node, nodes, given, self._editor(request.node), self._allowance)
        request = replace(
            request,
            xs=tuple([copies.get(value, value) for value in request.xs]),
            zs=tuple([copies.get(value, value) for value in request.zs]),
            y=copies.get(request.y, request.y),
        )
        return request, between([request.y], set(request.leaves))

    def _write(self, node: Node, builder: GradientBuilder, results: dict[str, str]) -> None:
        """Replace the Gradient node by those of the builder's nodes that are needed."""
        editor = self._editor(node)
        needed = set(results.values())
        kept: list[NodeTemplate] = []
        for template in reversed(builder.templates):
            if not needed.isdisjoint(template.outputs):
                needed.update(template.inputs)
                kept.append(template)
        kept.reverse()
        names = {name: editor.add_constant(name, array) for name, array in builder.constants.items() if name in needed}
        written = {name for template in kept for name in template.outputs}
        copies: list[NodeTemplate] = []
        for output, result in results.items():
            if result in written and result not in names:
                names[result] = output
            else:
                copies.append(NodeTemplate("Identity", (names.get(result, result),), (output,)))
        renamed = [_renamed(template, names) for template in kept]
        self._stale = True
        editor.replace_nodes([node.name], [*renamed, *copies])
        for name in written:
            value, known = editor.find(names.get(name, name)), builder.types.get(name)
            if value is not None and known is not None:
                value.type = merge_types(value.type, known, sizes=True)


def _rank_unknown(value: Value | None) -> bool:
    return value is not None and getattr(value.type, "shape", None) is None


def _renamed(template: NodeTemplate, names: dict[str, str]) -> NodeTemplate:
    return replace(
        template,
        inputs=tuple([names.get(name, name) for name in template.inputs]),
        outputs=tuple([names.get(name, name) for name in template.outputs]),
    )
