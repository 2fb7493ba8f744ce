"""The only graph surgery: nodes replaced, reads moved, constants added, what nobody needs removed.

Comes after `shapes`; transforms use it through the contract `GraphEditor`. After each call names, uses, order and types
are consistent, and a graph output has the name and meaning it had. Whoever raises here leaves the model half changed:
it must not be run. Knows nothing of what a transform is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array, AttributeValue
from ort_py.contracts.transform import GraphEditor, NodeTemplate
from ort_py.dtypes import TensorType, ValueType
from ort_py.errors import InvalidArgument, InvalidGraph, Location
from ort_py.graph.edit_state import EditState, copy_graph
from ort_py.graph.editor_view import EditorView
from ort_py.graph.inline import move_nodes_out
from ort_py.graph.ir import Graph, Node, Value, connect, disconnect, walk
from ort_py.graph.positions import Positions, owner_in, producers_of, sort_nodes
from ort_py.graph.shapes import infer_node
from ort_py.graph.type_merge import element_conflict, merge_types
from ort_py.graph.view import NodesView

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
        self._positions = Positions(graph)
        self._view: EditorView | None = None
        self._values: dict[str, Value] | None = None
        self._node_names: set[str] | None = None
        self._holders: list[Node] | None = None

    @property
    def view(self) -> EditorView:
        if self._view is None:
            self._view = EditorView(self.graph, self.state.cache, self._positions, self.find, self._returned)
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

    def add_constant(self, name: str, array: Array) -> str:
        weight = self.state.store.add(np.asarray(array))
        value = Value(self.state.take_name(name), self.graph, TensorType(weight.data_type, weight.shape), weight=weight)
        self._changed()
        self.graph.initializers[value.name] = value
        self.values[value.name] = value
        return value.name

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
        self._learn_type(after, before.type, sizes=True)
        if before.is_graph_output:
            after = self._keep_output(before, after)
        self._move_reads(before, after)
        self.state.cache.forget_value(after)

    def replace_nodes(self, nodes: Sequence[int], templates: Sequence[NodeTemplate]) -> None:
        removed = self._at(nodes)
        gone = set(removed)
        taken = self._taken_over(templates)
        self._check_unneeded(gone, taken)
        place = self._remove_from_list(removed)
        self._changed()
        local: dict[str, Value] = {}
        made = [self._make(template, gone, local) for template in templates]
        for node in removed:
            self._release(node)
        for node in made:
            self._resolve(node)
        self._insert(made, place, first_removed=bool(removed))
        if any(node.subgraphs for node in (*removed, *made)):
            self._nesting_changed()

    def remove_unused(self) -> int:
        removed = 0
        # Inner graphs and late nodes first: then each thing is looked at after everything that could need it.
        for graph in reversed(list(walk(self.graph))):
            removed += self._editor(graph)._remove_unused_here()  # noqa: SLF001 - an editor of the same model
        return removed

    def inline_subgraph(self, index: int, attribute: str) -> None:
        """Put the nodes of a nested graph without inputs in place of the node that holds it.

        Args:
            index: Position of the node in the current view.
            attribute: Name of the attribute that holds the graph; its outputs are those of the node.

        Raises:
            InvalidGraph: The graph has inputs, or other outputs than the node.
        """
        (node,) = self._at([index])
        inner = node.attributes[attribute]
        assert isinstance(inner, Graph)
        if inner.inputs or len(inner.outputs) < len(node.outputs):
            raise InvalidGraph(
                f"The graph in attribute '{attribute}' cannot stand for its node.",
                where=node.location,
                why=f"it has {len(inner.inputs)} inputs, and {len(inner.outputs)} outputs for {len(node.outputs)}",
            )
        results = list(inner.outputs)
        self._changed()
        moved = move_nodes_out(inner, self.graph, self.node_names)
        self._insert(moved, index, first_removed=False, at_least=index)
        self._values = None
        self._nesting_changed()
        for output, result in zip(list(node.outputs), results, strict=False):
            if output is not None:
                self.replace_uses(output.name, result.name)
        self.replace_nodes([self._positions.of(node)], ())

    @property
    def node_names(self) -> set[str]:
        """Names of nodes this graph has had; for the engine."""
        if self._node_names is None:
            self._node_names = {node.name for node in self.graph.nodes}
        return self._node_names

    # ------------------------------------------------------------------------------------------------ replace_uses

    def _keep_output(self, before: Value, after: Value) -> Value:
        """Let the graph go on returning something called as `before`; gives the value that others shall read."""
        producer = before.producer
        if producer is not None and producer.op_type == "Identity" and not producer.domain:
            if producer.inputs == [after]:
                return after  # it already is the copy that keeps the name
        name = before.name
        self._rename(before, self.state.take_name(name))
        before.is_graph_output = False
        if after.graph is self.graph and after.producer is not None and not after.is_graph_output:
            result = after
        else:
            # An input, a constant, another output: returning it under a second name takes a copy.
            copy = Node("Identity", [after], self.graph, name=self._node_name(name), origin=self.state.origin)
            result = Value(name, self.graph, before.type or after.type, producer=copy)
            copy.outputs = [result]
            self._resolve(copy)
            self._insert([copy], len(self.graph.nodes), first_removed=False)
        self.graph.outputs = [result if value is before else value for value in self.graph.outputs]
        result.is_graph_output = True
        self._rename(result, name)
        return after

    def _move_reads(self, before: Value, after: Value) -> None:
        late = self._positions.of(after.producer) if after.producer is not None and after.graph is self.graph else -1
        unsorted = False
        for reader, position in list(before.uses):
            if before.is_graph_output and reader.outputs == [before]:
                continue
            inputs = list(reader.inputs)
            inputs[position] = after
            self.state.cache.forget_node(reader)
            del before.uses[reader, position]
            reader.inputs = inputs
            after.uses[reader, position] = None
            holder = owner_in(self.graph, reader)
            unsorted = unsorted or (late >= 0 and holder is not None and self._positions.of(holder) <= late)
        for graph, position in self.state.returns.get(before, ()):
            graph.outputs[position] = after
            if graph.owner is not None:
                self.state.cache.forget_node(graph.owner)
            unsorted = True
            self.state.nesting_changed()
        if unsorted:
            self._sort()

    # ----------------------------------------------------------------------------------------------- replace_nodes

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

    def _taken_over(self, templates: Sequence[NodeTemplate]) -> dict[str, Value]:
        """Existing values that templates write from now on."""
        taken: dict[str, Value] = {}
        names = [name for template in templates for name in template.outputs if name]
        for name in names:
            if names.count(name) > 1:
                raise InvalidGraph(f"Two of the new nodes write '{name}'.", where=Location(value=name))
            value = self.values.get(name)
            if value is not None and value.producer is None:
                raise InvalidGraph(
                    f"A new node would write '{name}', which is an input or a constant of the graph.",
                    where=Location(value=name),
                    fix="Give the output another name and use `replace_uses`.",
                )
            if value is not None:
                taken[name] = value
        return taken

    def _check_unneeded(self, gone: set[Node], taken: Mapping[str, Value]) -> None:
        returned = self._returned()
        for node in gone:
            for value in node.outputs:
                if value is None or value.name in taken:
                    continue
                readers = [owner_in(self.graph, reader) for reader, _ in value.uses] + list(returned.get(value, ()))
                reader = next((reader for reader in readers if reader is not None and reader not in gone), None)
                if reader is None and not value.is_graph_output:
                    continue
                needed_by = f"node '{reader.name}' reads it" if reader is not None else "the graph returns it"
                raise InvalidGraph(
                    f"Value '{value.name}' would have no producer.",
                    where=node.location,
                    why=needed_by,
                    fix="Let a new node write it, or use `replace_uses` before.",
                )

    def _remove_from_list(self, removed: Sequence[Node]) -> int:
        """Take nodes out of the list; gives where the last of them stood."""
        positions = [self._positions.of(node) for node in removed]
        for position in reversed(positions):
            del self.graph.nodes[position]
        self._positions.moved(len(positions))
        return positions[-1] - len(positions) + 1 if positions else 0

    def _make(self, template: NodeTemplate, gone: set[Node], local: dict[str, Value]) -> Node:
        first = next((name for name in template.outputs if name), template.op_type)
        node = Node(
            template.op_type,
            (),
            self.graph,
            name=self._node_name(template.name or f"{self.state.origin or template.op_type}/{first}"),
            domain=template.domain,
            origin=self.state.origin,
        )
        inputs = [self._input_of(name, node, gone, local) if name else None for name in template.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        connect(node, inputs)
        for name, value in (template.attributes or {}).items():
            node.attributes[name] = self._attribute(value, node, gone)
        node.outputs = [self._output_of(name, node, local) if name else None for name in template.outputs]
        return node

    def _input_of(self, name: str, node: Node, gone: set[Node], local: Mapping[str, Value]) -> Value:
        value = local.get(name) or self.find(name)
        if value is None or (value.producer in gone and value.graph is self.graph):
            raise InvalidGraph(
                f"A new node reads '{name}', which does not exist.",
                where=node.location,
                why="" if value is None else "the node that writes it is removed by the same call",
                fix="Read existing values, or outputs of templates further in front.",
            )
        return value

    def _output_of(self, name: str, node: Node, local: dict[str, Value]) -> Value:
        value = self.values.get(name)
        if value is None:
            value = Value(self.state.take_name(name), self.graph, producer=node)
            self.values[value.name] = value
        else:
            writer = value.producer
            assert writer is not None  # `_taken_over` has refused the others
            spare = None
            if writer in self.state.live_producers(self.graph, writer):
                spare = Value(self.state.take_name(name), self.graph, value.type, producer=writer)
                self.values[spare.name] = spare
            writer.outputs = [spare if other is value else other for other in writer.outputs]
            self.state.cache.forget_value(value)
            value.producer = node
        local[name] = value
        return value

    def _attribute(self, value: AttributeValue, node: Node, gone: set[Node]) -> Any:
        """An attribute as the graph keeps it: views become graphs, NumPy scalars and lists become plain."""
        if isinstance(value, NodesView):
            return self._adopt(value.graph, node, gone)
        if isinstance(value, tuple | list):
            return tuple([self._attribute(item, node, gone) for item in value])
        if isinstance(value, np.generic):
            return value.item()
        return int(value) if isinstance(value, bool) else value

    def _adopt(self, graph: Graph, node: Node, gone: set[Node]) -> Graph:
        if graph.owner not in gone:
            return copy_graph(graph, node, self.state)
        # The old node goes, so the graph itself can move; `_release` must not find it there.
        old = graph.owner
        assert old is not None
        old.attributes = {name: held for name, held in old.attributes.items() if held is not graph}
        graph.owner = node
        return graph

    def _release(self, node: Node) -> None:
        """Forget a node that was taken out of the list, and all that is in it."""
        for value in node.inputs:
            if value is not None:
                self.state.cache.forget_value(value)
        disconnect(node)
        for nested in node.subgraphs:
            for graph in walk(nested):
                for inner in graph.nodes:
                    disconnect(inner)
                self.state.editors.pop(graph, None)
        for value in node.outputs:
            if value is not None and value.producer is node:
                self.values.pop(value.name, None)
        self.state.cache.forget_node(node)

    def _resolve(self, node: Node) -> None:
        """Look up the operator of a new node and type its outputs."""
        schema = self.state.schemas.resolve(node)
        node.since_version = schema.since_version
        for value, found in zip(node.outputs, infer_node(node, self.state.schemas), strict=False):
            if value is not None:
                self._learn_type(value, found, sizes=False)
        node.type_bindings = schema.bind_types(node)

    def _learn_type(self, value: Value, found: ValueType | None, *, sizes: bool) -> None:
        if found is None:
            return
        known = value.type
        if known is not None and element_conflict(known, found):
            raise InvalidGraph(
                f"Value '{value.name}' is {known} and would become {found}.",
                where=Location(value=value.name),
                fix="A transform must keep element types; put a Cast behind the new node.",
            )
        merged = merge_types(found, known, sizes=True) if not sizes else merge_types(known, found, sizes=True)
        if merged != known and value.weight is None:
            value.type = merged
            self.state.cache.forget_value(value)

    def _insert(self, made: Sequence[Node], place: int, *, first_removed: bool, at_least: int = 0) -> None:
        """Put nodes into the list: at `place` if order allows, as near as it does if not."""
        if not made:
            return
        members = set(made)
        sources = [source for node in made for source in producers_of(node) if source not in members]
        earliest = max([at_least, *(self._positions.of(source) + 1 for source in sources)])
        readers = {owner_in(self.graph, reader) for node in made for value in node.outputs if value for reader, _ in value.uses}
        readers |= {holder for node in made for value in node.outputs if value for holder in self._returned().get(value, ())}
        behind = [self._positions.of(reader) for reader in readers if reader is not None and reader not in members]
        latest = min([len(self.graph.nodes), *behind])
        if not first_removed and not at_least:
            place = max(place, earliest)
        place = max(earliest, min(place, latest))
        self.graph.nodes[place:place] = made
        self._positions.moved(len(made), {node: place + offset for offset, node in enumerate(made)})
        if earliest > latest or any(self._out_of_order(node, members) for node in made):
            self._sort()

    def _out_of_order(self, node: Node, members: set[Node]) -> bool:
        """Whether a new node reads what a later one of the new nodes writes."""
        here = self._positions.of(node)
        return any(source in members and self._positions.of(source) >= here for source in producers_of(node))

    # ----------------------------------------------------------------------------------------------- remove_unused

    def _remove_unused_here(self) -> int:
        returned = self._returned()
        kept: list[Node] = []
        dead: list[Node] = []
        for node in reversed(self.graph.nodes):
            if any(value is not None and (value.uses or value.is_graph_output or value in returned) for value in node.outputs):
                kept.append(node)
            else:
                dead.append(node)
                self._drop_reads(node)
        unused = [
            name
            for name, value in self.graph.initializers.items()
            if not (value.uses or value.overridable or value.is_graph_output or value in returned)
        ]
        if not dead and not unused:
            return 0
        self._changed()
        if dead:
            self.graph.nodes[:] = reversed(kept)
            self._positions.moved(len(dead))
            for node in dead:
                self._release(node)
            if any(node.subgraphs for node in dead):
                self._nesting_changed()
        for name in unused:
            del self.graph.initializers[name]
            self.values.pop(name, None)
        return len(dead) + len(unused)

    def _drop_reads(self, node: Node) -> None:
        """A dead node reads nothing any more, and neither do the graphs in it."""
        for nested in node.subgraphs:
            for graph in walk(nested):
                for inner in graph.nodes:
                    disconnect(inner)
        disconnect(node)

    # ------------------------------------------------------------------------------------------------------ shared

    def _changed(self) -> None:
        self.state.changes += 1
        if self._view is not None:
            self._view.expire()
            self._view = None

    def _nesting_changed(self) -> None:
        self._holders = None
        self.state.nesting_changed()

    def _editor(self, graph: Graph) -> Editor:
        if graph is self.graph:
            return self
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

    def _node_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.node_names:
            name, number = f"{wanted}_{number}", number + 1
        self.node_names.add(name)
        return name

    def _returned(self) -> dict[Value, dict[Node, None]]:
        """Values of this graph that nested graphs return, with the nodes of this graph that hold those."""
        found: dict[Value, dict[Node, None]] = {}
        for value, places in self.state.returns.items():
            for graph, _ in places:
                holder = owner_in(self.graph, graph.owner) if graph.owner is not None else None
                if holder is not None:
                    found.setdefault(value, {})[holder] = None
        return found

    def _sort(self) -> None:
        sort_nodes(self.graph)
        self._positions.moved(len(self.graph.nodes))
