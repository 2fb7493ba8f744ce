"""Construction of the graph from written records: names become values, calls of functions become their bodies.

Comes after `parse_graph`, before `order`, which sorts the nodes. All values of a graph are declared before its first
node is made, so nodes may stand in any order in the file. Calls are expanded in place with a stack of bodies, nested
graphs wait in a queue; nothing recurses, however deep a model nests or its functions call each other.

Problems are collected in `Model.problems`. A name without a writer gets a value without a producer, so that the graph
is complete until `validate` raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from ort_py.dtypes import TensorType, ValueType
from ort_py.errors import DanglingInputError, InconsistentGraph, InvalidGraph
from ort_py.graph.checking.problems import Problem
from ort_py.graph.ir import Graph, Model, Node, Value, Weight
from ort_py.graph.reading.attributes import constant_weight
from ort_py.graph.reading.names import Names
from ort_py.graph.reading.scopes import Body, Closure, Context, Scope, enclosed, with_model_names
from ort_py.graph.reading.written import FunctionKey, WrittenFunction, WrittenGraph, WrittenNode
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.limits import Budget

_LONGEST_PREFIX = 160
"""Calls in calls in calls would otherwise make names grow with the square of the depth."""

_UNWRITTEN = "is written by no node, and is neither an input nor an initializer."


class ModelBuilder:
    """Fills a model.

    Args:
        model: Gets the graphs and the problems; its opset imports are read.
        store: Keeps constants whose value a call decides.
    """

    def __init__(
        self,
        model: Model,
        functions: Mapping[FunctionKey, WrittenFunction],
        budget: Budget,
        store: WeightStore,
        names: Names | None = None,
    ) -> None:
        self._model = model
        self._functions = functions
        self._budget = budget
        self._store = store
        self._names = names or Names()
        self._prefixes, self._node_names = Names(), Names()
        self._waiting: deque[tuple[Graph, Closure, int]] = deque()

    def main(self, written: WrittenGraph) -> None:
        """Build the main graph and everything below it.

        Raises:
            LimitError: More nodes, depth or seconds than allowed.
        """
        self._model.graph = Graph(written.name, self._model)
        self._waiting.append((self._model.graph, Closure(written, Scope(), Context()), 0))
        self._drain()

    def expand(self, node: Node, function: WrittenFunction) -> None:
        """Append the body of a function to the graph of `node`, reading its inputs and writing its outputs.

        The node stays in the list of its graph with nothing to read or write; the caller takes it out.
        """
        graph = node.graph
        inputs, outputs = node.inputs, node.outputs
        node.inputs, node.outputs = [], []
        for position, value in enumerate(inputs):
            if value is not None:
                value.uses.pop((node, position), None)
        context = self._called(function, node.name, node.attributes, Context(), node.origin)
        self._append(graph, self._call(graph, function, inputs, outputs, context, node.name), 0)
        self._drain()

    def _drain(self) -> None:
        while self._waiting:
            graph, (written, outer, context), depth = self._waiting.popleft()
            self._fill(graph, written, Scope(outer), context, depth)

    # Graphs

    def _fill(self, graph: Graph, written: WrittenGraph, scope: Scope, context: Context, depth: int) -> None:
        self._declare_inputs(graph, written, scope, context)
        self._append(graph, self._body(graph, written.nodes, scope, context, written.types), depth)
        for name, value_type in written.outputs:
            value = self._output(graph, scope, name)
            if value.graph is graph:
                value.type = value.type or value_type
                value.is_graph_output = True
            graph.outputs.append(value)

    def _output(self, graph: Graph, scope: Scope, name: str) -> Value:
        try:
            value = scope.find(name)
        except KeyError:
            value = None
        if value is not None:
            return value
        self._problem(f"Output '{name}' of graph '{graph.name}' {_UNWRITTEN}", InconsistentGraph)
        return self._orphan(graph, name)

    def _declare_inputs(self, graph: Graph, written: WrittenGraph, scope: Scope, context: Context) -> None:
        weights: dict[str, Weight] = {}
        for name, weight in written.weights:
            if not name:
                self._problem(f"An initializer of graph '{graph.name}' has no name.")
            elif name in weights:
                self._problem(f"Initializer '{name}' of graph '{graph.name}' is defined twice.")
            else:
                weights[name] = weight
        declared: dict[str, ValueType | None] = {}
        for name, value_type in written.inputs:
            if not name:
                self._problem(f"An input of graph '{graph.name}' has no name.")
            elif name in declared:
                self._problem(f"Input '{name}' of graph '{graph.name}' is declared twice.", InconsistentGraph)
            declared[name] = value_type
            if name not in weights:
                value = self._declare(graph, scope, name, context)
                value.type = value_type
                graph.inputs.append(value)
        # Before IR version 4 every initializer had to be listed as an input; only since then it means "may be fed".
        listed_means_overridable = graph.owner is None and self._model.ir_version >= 4
        for name, weight in weights.items():
            value = self._declare(graph, scope, name, context)
            self._hold(value, weight)
            if name in declared:
                self._check_declared(name, weight, declared[name])
                value.overridable = listed_means_overridable
                if value.overridable:
                    value.type = declared[name] or value.type

    def _check_declared(self, name: str, weight: Weight, declared: ValueType | None) -> None:
        if declared is not None and not (isinstance(declared, TensorType) and declared.data_type == weight.data_type):
            self._problem(
                f"Initializer '{name}' is tensor({weight.data_type.onnx_name}), "
                f"but the input of that name is declared as {declared}."
            )

    def _declare(self, graph: Graph, scope: Scope, name: str, context: Context) -> Value:
        value = Value(self._names.take(context.named(name)), graph)
        scope.names[name] = value
        self._budget.tick()
        return value

    def _hold(self, value: Value, weight: Weight) -> None:
        value.weight = weight
        value.type = TensorType(weight.data_type, weight.shape)
        value.graph.initializers[value.name] = value

    # Bodies

    def _append(self, graph: Graph, first: Body, depth: int) -> None:
        """Make the nodes of a body, and of the functions it calls, at the end of a graph."""
        functions = self._functions
        stack = [first]
        while stack:
            rows, scope, context = stack[-1]
            for written, outputs in rows:
                self._budget.add_node()
                function = functions.get((written.domain, written.op_type, written.overload)) if functions else None
                if function is None:
                    self._node(graph, written, outputs, scope, context, depth)
                    continue
                inputs = self._inputs(graph, written, scope)
                attributes = self._attributes(written, scope, context)
                name = written.name or next((value.name for value in outputs if value), written.op_type)
                called = self._called(function, context.named(name) if written.name else name, attributes, context)
                stack.append(self._call(graph, function, inputs, outputs, called, name))
                break
            else:
                stack.pop()

    def _body(
        self,
        graph: Graph,
        nodes: list[WrittenNode],
        scope: Scope,
        context: Context,
        types: Mapping[str, ValueType | None],
        given: dict[str, Value] | None = None,
    ) -> Body:
        """Declare what the nodes write. `given` values are there already and get their producer here."""
        rows: list[tuple[WrittenNode, list[Value | None]]] = []
        known, take, prefix, owner = scope.names, self._names.take, context.prefix, graph.owner
        for node in nodes:
            outputs: list[Value | None] = []
            for name in node.outputs:
                if not name:
                    outputs.append(None)
                    continue
                value = given.pop(name, None) if given else None
                if value is None:
                    value = Value(take(f"{prefix}/{name}" if prefix else name), graph, types.get(name))
                if name in known:
                    one = f"one definition is an output of node '{node.name}' ({node.op_type})"
                    self._problem(f"Value '{name}' is defined more than once; {one}.", InconsistentGraph)
                elif owner is not None and scope.redefines(name, owner):
                    self._problem(
                        f"Value '{name}' is defined again inside '{owner.name}', by an output of node "
                        f"'{node.name}' ({node.op_type}); a name of the graphs around has one meaning."
                    )
                known[name] = value
                outputs.append(value)
            while outputs and outputs[-1] is None:
                outputs.pop()
            rows.append((node, outputs))
        return Body(iter(rows), scope, context)

    def _node(
        self,
        graph: Graph,
        written: WrittenNode,
        outputs: list[Value | None],
        scope: Scope,
        context: Context,
        depth: int,
    ) -> None:
        if written.op_type == "Constant" and not written.domain and self._constant(written, outputs, context):
            return
        attributes = (
            self._attributes(written, scope, context)
            if written.references or written.nested
            else dict(written.attributes)
        )
        if written.op_type == "Gradient" and written.domain == "ai.onnx.preview.training":
            attributes = with_model_names(attributes, scope)
        name = written.name  # tools may write one name for several nodes, but editors find nodes by it
        if not name:
            name = next((value.name for value in outputs if value), f"{written.op_type}_{len(graph.nodes)}")
        elif context.prefix:
            name = f"{context.prefix}/{name}"
        node = Node(
            written.op_type,
            self._inputs(graph, written, scope),
            graph,
            name=self._node_names.take(name),
            domain=written.domain,
            overload=written.overload,
            attributes=attributes,
            origin=context.origin,
        )
        if context.opsets:
            node.opset = context.opsets.get(written.domain, 0)
        node.outputs = outputs
        for value in outputs:
            if value is not None:
                value.producer = node
        graph.nodes.append(node)
        if written.nested or written.references:
            self._nest(node, scope, context, depth + 1)

    def _inputs(self, graph: Graph, written: WrittenNode, scope: Scope) -> list[Value | None]:
        known = scope.names
        inputs: list[Value | None] = []
        for name in written.inputs:
            if not name:
                inputs.append(None)
            elif name in known:
                inputs.append(known[name])
            else:
                inputs.append(self._outer(graph, written, scope, name))
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def _outer(self, graph: Graph, written: WrittenNode, scope: Scope, name: str) -> Value | None:
        try:
            return scope.find(name)
        except KeyError:
            shown = written.name or next(filter(None, written.outputs), "")
            self._problem(f"Input '{name}' of node '{shown}' ({written.op_type}) {_UNWRITTEN}", DanglingInputError)
            scope.names[name] = self._orphan(graph, name)  # named once is enough
            return scope.names[name]

    def _constant(self, written: WrittenNode, outputs: list[Value | None], context: Context) -> bool:
        """Make a ``Constant`` the weight of its output. False where it has no value; it is then an ordinary node."""
        weight = written.weight
        if weight is None:
            attributes = self._attributes(written, Scope(), context)
            weight = constant_weight(attributes, self._store)
        if weight is None:
            shown = written.name or next(filter(None, written.outputs), "")
            self._problem(f"Constant '{shown}' must have exactly one attribute, which holds its value.")
            return False
        for value in outputs:
            if value is not None:
                self._hold(value, weight)
        return True

    # Attributes

    def _attributes(self, written: WrittenNode, scope: Scope, context: Context) -> dict[str, Any]:
        """Attributes of a node with references resolved and graphs as closures."""
        attributes = {name: enclosed(value, scope, context) for name, value in written.attributes.items()}
        for name, wanted in written.references:
            if context.arguments is None:
                shown = written.name or next(filter(None, written.outputs), "")
                self._problem(
                    f"Attribute '{name}' of node '{shown}' ({written.op_type}) refers to the attribute '{wanted}' of "
                    "a function, but is not inside a function."
                )
            elif wanted in context.arguments:
                attributes[name] = context.arguments[wanted]
        return attributes

    def _nest(self, node: Node, scope: Scope, context: Context, depth: int) -> None:
        """Replace the closures among a node's attributes by graphs, to be filled later."""
        for name, value in node.attributes.items():
            if isinstance(value, Closure):
                node.attributes[name] = self._later(node, value, depth)
            elif isinstance(value, Graph):
                value.owner = node  # an operator's body takes over the graph of the node it replaces
            elif isinstance(value, tuple) and any(isinstance(item, Closure) for item in value):
                node.attributes[name] = tuple(
                    [self._later(node, item, depth) if isinstance(item, Closure) else item for item in value]
                )

    def _later(self, node: Node, closure: Closure, depth: int) -> Graph:
        self._budget.check_depth(depth, node.location)
        graph = Graph(closure.graph.name, self._model, node)
        self._waiting.append((graph, closure, depth))
        return graph

    # Functions

    def _called(
        self, function: WrittenFunction, name: str, attributes: Mapping[str, Any], caller: Context, origin: str = ""
    ) -> Context:
        if len(name) > _LONGEST_PREFIX:
            name = function.key[1]
        imports = self._model.opset_imports
        opsets = {domain: opset for domain, opset in function.opset_imports.items() if imports.get(domain) != opset}
        return Context(
            arguments={**function.defaults, **attributes},
            prefix=self._prefixes.take(name),
            origin=origin or function.title,
            opsets=opsets or None,
        )

    def _call(
        self,
        graph: Graph,
        function: WrittenFunction,
        inputs: list[Value | None],
        outputs: list[Value | None],
        context: Context,
        name: str,
    ) -> Body:
        """The body of a function with its formal parameters bound to the values of one call."""
        for kind, actual, formal in (("inputs", inputs, function.inputs), ("outputs", outputs, function.outputs)):
            if len(actual) > len(formal):
                self._problem(
                    f"Node '{name}' calls function '{function.title}' with {len(actual)} {kind}; it has {len(formal)}."
                )
        scope = Scope()
        for position, formal_name in enumerate(function.inputs):
            scope.names[formal_name] = inputs[position] if position < len(inputs) else None
        given: dict[str, Value] = {}
        passed_on: list[tuple[str, Value]] = []
        for formal_name, value in zip(function.outputs, outputs, strict=False):
            if value is None:
                continue
            if formal_name in given or formal_name in scope.names:
                passed_on.append((formal_name, value))
            else:
                given[formal_name] = value
        body = self._body(graph, function.nodes, scope, context, function.types, given)
        for formal_name in given:
            self._problem(f"Output '{formal_name}' of function '{function.title}' is written by no node of it.")
        if not passed_on:
            return body
        # An output that is an input, or is returned twice, has no producer that could write the caller's value.
        copies: list[tuple[WrittenNode, list[Value | None]]] = [
            (WrittenNode("Identity", "", "", "", [inner], [inner]), [value]) for inner, value in passed_on
        ]
        return Body(iter([*body.rows, *copies]), scope, context)

    # Problems

    def _orphan(self, graph: Graph, name: str) -> Value:
        return Value(self._names.take(name), graph)

    def _problem(self, text: str, kind: type[InvalidGraph] = InvalidGraph) -> None:
        self._model.problems.append(text if kind is InvalidGraph else Problem(text, kind))
