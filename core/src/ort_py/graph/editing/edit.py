"""The only graph surgery: nodes replaced, reads moved, constants added, what nobody needs removed.

Comes after `shapes`; transforms use it through the contract `GraphEditor`. After each call names, uses, order and types
are consistent, and a graph output has the name and meaning it had. Whoever raises here leaves the model half changed:
it must not be run. Knows nothing of what a transform is for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.transform import GraphEditor, NodeTemplate
from ort_py.dtypes import TensorType, ValueType
from ort_py.errors import InvalidArgument, InvalidGraph, Location
from ort_py.graph.checking.domains import newest_opset
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.editing.editor_view import EditorView
from ort_py.graph.editing.new_nodes import NodeMaker, move_nodes_out, unique_name
from ort_py.graph.editing.positions import NodeList, owner_in
from ort_py.graph.ir import Graph, Node, Value, disconnect, walk
from ort_py.graph.typing.shapes import infer_node
from ort_py.graph.typing.type_merge import element_conflict, merge_types, shape_conflict

__all__ = ["Editor"]


class Editor(GraphEditor):
    """Edits one graph; editors of nested graphs share its state.

    Args:
        graph: The graph.
        state: Shared by all editors of a model.
    """

    def __init__(self, graph: Graph, state: EditState | None = None) -> None:
        self.graph = graph
        self.state = state or EditState(graph.model)
        self.state.editors[graph] = self
        self._list = NodeList(graph)
        self._view: EditorView | None = None
        self._values: dict[str, Value] | None = None
        self._node_names: set[str] | None = None
        self._holders: list[Node] | None = None

    @property
    def view(self) -> EditorView:
        if self._view is None:
            returned = self.state.returned_in
            self._view = EditorView(self.graph, self.state.cache, self._list, self.find, lambda: returned(self.graph))
        return self._view

    def subgraphs(self) -> Sequence[Editor]:
        if self._holders is None:
            self._holders = [node for node in self.graph.nodes if node.attributes and node.subgraphs]
        return [self._editor(graph) for node in self._holders for graph in node.subgraphs]

    def find(self, name: str) -> Value | None:
        """The value called `name` here or in a graph around; for the engine."""
        graph: Graph | None = self.graph
        while graph is not None:
            found = self._editor(graph).values.get(name)
            if found is not None:
                return found
            graph = graph.owner.graph if graph.owner is not None else None
        return None

    @property
    def values(self) -> dict[str, Value]:
        """Values of this graph by name; for the engine."""
        if self._values is None:
            self._values = {value.name: value for value in self.graph.inputs}
            self._values.update(self.graph.initializers)
            for node in self.graph.nodes:
                self._values.update((value.name, value) for value in node.outputs if value is not None)
        return self._values

    @property
    def node_names(self) -> set[str]:
        """Names that nodes of this graph have or had; for the engine."""
        if self._node_names is None:
            self._node_names = {node.name for node in self.graph.nodes}
        return self._node_names

    def add_constant(self, name: str, array: Array) -> str:
        weight = self.state.store.add(np.asarray(array))
        value = Value(self.state.take_name(name), self.graph, TensorType(weight.data_type, weight.shape), weight=weight)
        self._changed()
        self.values[value.name] = self.graph.initializers[value.name] = value
        return value.name

    # replace_uses -----------------------------------------------------------------------------------------------------

    def replace_uses(self, old: str, new: str) -> None:
        before, after = self._known(old), self._known(new)
        if before is after:
            return
        if before.graph is not self.graph:
            raise InvalidGraph(
                f"Value '{old}' belongs to a graph around '{self.graph.name}'.",
                where=Location(value=old),
                fix="Replace it with the editor of the graph that defines it.",
            )
        self._changed()
        self._learn_type(after, before.type)
        if before.is_graph_output:
            self._keep_output(before, after)
        self._move_reads(before, after)

    def _keep_output(self, before: Value, after: Value) -> None:
        """Let the graph go on returning something called as `before`, with the content of `after`."""
        name = before.name
        renamed = after.graph is self.graph and after.producer is not None and not after.is_graph_output
        producer = before.producer
        if not renamed and producer is not None and _copies(producer, after):
            return  # it is the copy that keeps the name
        self._rename(before, self.state.take_name(name))
        before.is_graph_output = False
        if renamed:
            result = after
            self._rename(after, name)
        else:
            # An input, a constant, another output: returning it under a second name takes a copy.
            node_name = unique_name(f"{self.state.origin or 'Identity'}/{name}", self.node_names)
            copy = Node("Identity", [after], self.graph, name=node_name, origin=self.state.origin)
            result = self.values[name] = Value(name, self.graph, before.type or after.type, producer=copy)
            copy.outputs = [result]
            self._resolve(copy)
            self._list.insert_at([copy], len(self.graph.nodes))
        result.is_graph_output = True
        self.graph.outputs = [result if value is before else value for value in self.graph.outputs]

    def _move_reads(self, before: Value, after: Value) -> None:
        here = after.graph is self.graph and after.producer is not None
        writer = self._list.of(after.producer) if here and after.producer is not None else -1
        unsorted = False
        for reader, position in list(before.uses):
            del before.uses[reader, position]
            reader.inputs[position] = after
            after.uses[reader, position] = None
            self.state.cache.forget_node(reader)
            holder = owner_in(self.graph, reader)
            unsorted = unsorted or (holder is not None and self._list.of(holder) <= writer)
        returns = self.state.returns.get(before, ())
        for graph, position in returns:
            graph.outputs[position] = after
            if after.graph is graph:
                after.is_graph_output = True
            if graph.owner is not None:
                self.state.cache.forget_node(graph.owner)
        if returns:
            self.state.nesting_changed()
        if unsorted or (returns and here):
            self._list.sort()

    # replace_nodes ----------------------------------------------------------------------------------------------------

    def replace_nodes(self, nodes: Sequence[int], templates: Sequence[NodeTemplate]) -> None:
        removed = self._at(nodes)
        gone = set(removed)
        maker = NodeMaker(self.graph, self.state, self.values, self.node_names, self.find, gone)
        self._check_unneeded(removed, gone, maker.check(templates))
        self._changed()
        place = self._list.remove(removed)
        made = [maker.make(template) for template in templates]
        nested = any(node.subgraphs for node in (*removed, *made))
        for node in removed:
            self._release(node)
        if nested:
            self._nesting_changed()
        for node in made:
            self._resolve(node)
        self._list.insert(made, place, self.state.returned_in(self.graph))

    def _at(self, indices: Sequence[int]) -> list[Node]:
        count = len(self.graph.nodes)
        wrong = [index for index in indices if not 0 <= index < count]
        if wrong:
            raise InvalidArgument(
                f"Graph '{self.graph.name}' has no node {wrong[0]}.",
                why=f"its nodes are numbered 0 to {count - 1}",
                fix="Take indices from `graph.view` after the last change.",
            )
        return [self.graph.nodes[index] for index in sorted(set(indices))]

    def _check_unneeded(self, removed: Sequence[Node], gone: set[Node], taken: set[str]) -> None:
        returned = self.state.returned_in(self.graph)
        for node in removed:
            for value in node.outputs:
                if value is None or value.name in taken:
                    continue
                readers = [owner_in(self.graph, reader) for reader, _ in value.uses] + list(returned.get(value, ()))
                reader = next((reader for reader in readers if reader is not None and reader not in gone), None)
                if reader is not None or value.is_graph_output:
                    raise InvalidGraph(
                        f"Value '{value.name}' would have no producer.",
                        where=node.location,
                        why=f"node '{reader.name}' reads it" if reader is not None else "the graph returns it",
                        fix="Let a new node write it, or use `replace_uses` before.",
                    )

    def _release(self, node: Node) -> None:
        """Forget a node that was taken out of the list, and all that is in it."""
        disconnect(node)
        for nested in node.subgraphs:
            for graph in walk(nested):
                for inner in graph.nodes:
                    disconnect(inner)
                self.state.editors.pop(graph, None)
        for value in node.outputs:
            if value is not None and self.values.get(value.name) is value:
                del self.values[value.name]
        self.state.cache.forget_node(node)

    def _resolve(self, node: Node) -> None:
        """Look up the operator of a new node and type its outputs."""
        schemas = self.state.schemas
        # A model of other domains only imports none of ONNX's own; an Identity needs one.
        opset = schemas.opset(node) or newest_opset(node.domain)
        if opset:
            node.graph.model.opset_imports.setdefault(node.domain, opset)
        schema = schemas.resolve(node)
        node.since_version = schema.since_version
        for value, found in zip(node.outputs, infer_node(node, schemas), strict=False):
            if value is None or found is None:
                continue
            if shape_conflict(found, value.type):
                raise InvalidGraph(
                    f"Value '{value.name}' has type {value.type!r} and would get {found!r}.",
                    where=node.location,
                    fix="A node that takes over a value must compute the same shape.",
                )
            self._learn_type(value, found)
        node.type_bindings = schema.bind_types(node)

    def infer_again(self, index: int) -> None:
        """Type the outputs of a node anew, whose inputs are known better by now; for the engine.

        Raises:
            InvalidGraph: The inputs contradict the operator.
        """
        (node,) = self._at([index])
        for value, found in zip(node.outputs, infer_node(node, self.state.schemas), strict=False):
            if value is not None:
                self._learn_type(value, found)

    def _learn_type(self, value: Value, found: ValueType | None) -> None:
        if found is None:
            return
        known = value.type
        if known is not None and element_conflict(known, found):
            raise InvalidGraph(
                f"Value '{value.name}' is {known} and would become {found}.",
                where=Location(value=value.name),
                fix="A transform must keep element types; put a Cast behind the new node.",
            )
        merged = merge_types(known, found, sizes=True)
        if merged != known and value.weight is None:
            value.type = merged
            self.state.cache.forget_value(value)

    # remove and inline ------------------------------------------------------------------------------------------------

    def remove_unused(self) -> int:
        # Inner graphs and late nodes first: then each thing is looked at after everything that could need it.
        return sum(self._editor(graph).remove_unused_here() for graph in reversed(list(walk(self.graph))))

    def remove_unused_here(self) -> int:
        """`remove_unused` without the nested graphs; for the engine."""
        returned = self.state.returned_in(self.graph)

        def needed(value: Value | None) -> bool:
            return value is not None and (bool(value.uses) or value.is_graph_output or value in returned)

        kept: list[Node] = []
        dead: list[Node] = []
        for node in reversed(self.graph.nodes):
            if any(map(needed, node.outputs)):
                kept.append(node)
            else:
                dead.append(node)
                self._release(node)
        unused = [value for value in self.graph.initializers.values() if not (needed(value) or value.overridable)]
        if not dead and not unused:
            return 0
        self._changed()
        if dead:
            kept.reverse()
            self._list.keep(kept)
            if any(node.subgraphs for node in dead):
                self._nesting_changed()
        for value in unused:
            del self.graph.initializers[value.name]
            self.values.pop(value.name, None)
        return len(dead) + len(unused)

    def inline_subgraph(self, index: int, attribute: str) -> None:
        """Put the nodes of a nested graph without inputs in place of the node that holds it; for the engine.

        Args:
            index: Position of the node in the current view.
            attribute: Name of the attribute that holds the graph; its outputs are those of the node.

        Raises:
            InvalidGraph: The graph has inputs, or fewer outputs than the node.
        """
        (node,) = self._at([index])
        inner: Graph = node.attributes[attribute]
        if inner.inputs or len(inner.outputs) < len(node.outputs):
            raise InvalidGraph(
                f"The graph in attribute '{attribute}' cannot stand for its node.",
                where=node.location,
                why=f"it has {len(inner.inputs)} inputs, and {len(inner.outputs)} outputs for {len(node.outputs)}",
                fix="Only the branches of an If can be put in its place.",
            )
        self._changed()
        results = list(inner.outputs)
        self._list.insert_at(move_nodes_out(inner, self.graph, self.node_names, self.state), index)
        self.state.editors.pop(inner, None)
        self._values = None
        self._nesting_changed()
        for output, result in zip(list(node.outputs), results, strict=False):
            if output is not None:
                self.replace_uses(output.name, result.name)
        self.replace_nodes([self._list.of(node)], ())

    # shared -----------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.state.changes += 1
        assert self.state.names is not None  # read them while they are all there
        if self._view is not None:
            self._view.expire()
            self._view = None

    def _nesting_changed(self) -> None:
        self._holders = None
        self.state.nesting_changed()

    def _editor(self, graph: Graph) -> Editor:
        return self.state.editors.get(graph) or Editor(graph, self.state)

    def _known(self, name: str) -> Value:
        value = self.find(name)
        if value is None:
            raise InvalidGraph(
                f"Graph '{self.graph.name}' has no value '{name}'.",
                where=Location(value=name),
                fix="Use names from `graph.view` after the last change.",
            )
        return value

    def _rename(self, value: Value, name: str) -> None:
        if self.values.get(value.name) is value:
            del self.values[value.name]
        value.name = name
        self.values[name] = value
        self.state.cache.forget_value(value)


def _copies(node: Node, value: Value) -> bool:
    """Whether the node is an Identity of the value."""
    return not node.domain and node.op_type == "Identity" and node.inputs == [value]
