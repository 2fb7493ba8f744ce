"""The only module that modifies graphs: it replaces and fuses nodes, moves reads, adds constants and removes unused
nodes.

Comes after `shapes`; transforms use it through the contract `GraphEditor`. After each call names, uses, order and types
are consistent, and a graph output has the name and meaning it had. After an exception here the model is half changed
and must not be run. Does not depend on the purpose of a transform.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ort_py.contracts.function_body import FunctionBody, NodeTemplate
from ort_py.contracts.graph_view import Array, NodeSpec, ValueSpec
from ort_py.dtypes import TensorType, ValueType
from ort_py.errors import InvalidGraph, Location
from ort_py.graph.checking.domains import newest_opset
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.editing.fusing import body_of, templates_of, types_of
from ort_py.graph.editing.moving import constants_read, move_nodes_out, outermost, unfit_branch
from ort_py.graph.editing.new_nodes import NodeMaker, sources_of, unique_name
from ort_py.graph.editing.positions import owner_in
from ort_py.graph.editing.reading_editor import ReadingEditor
from ort_py.graph.ir import Graph, Node, Value, disconnect, walk
from ort_py.graph.typing.node_types import infer_node
from ort_py.graph.typing.type_merge import element_conflict, merge_types, shape_conflict, with_sizes

_Typed: TypeAlias = tuple[Node, list[Value | None], ValueType]
"""A node whose two operands decide the type of its result, with these and with the type."""


def _typed(nodes: Sequence[Node]) -> list[_Typed]:
    made = [(one, one.outputs[0]) for one in nodes if one.op_type in ("Conv", "MatMul") and not one.domain]
    return [
        (one, one.inputs[:2], value.type)
        for one, value in made
        if value is not None and value.type is not None and value not in one.graph.model.trusted
    ]


def _is_alike(node: Node, other: Node, operands: list[Value | None]) -> bool:
    """Return whether the results of two nodes have one type: most rules change constants, but not their shapes."""
    here, there = ((one.op_type, one.domain, one.opset_version, one.attributes) for one in (node, other))
    return here == there and all(map(_same_type, node.inputs[:2], operands))


def _same_type(one: Value | None, other: Value | None) -> bool:
    """Return whether two values have one type, in which no size is unknown unless the values are the same."""
    if one is other or one is None or other is None:
        return one is other
    return one.type == other.type and isinstance(one.type, TensorType) and None not in (one.type.shape or (None,))


class Editor(ReadingEditor):
    """Edits one graph; editors of nested graphs share its state."""

    def __init__(self, graph: Graph, state: EditState | None = None) -> None:
        super().__init__(graph, state)
        self.state.editors[graph] = self

    def subgraphs(self) -> Sequence[Editor]:
        if self._holders is None:
            self._holders = [node for node in self.graph.nodes if node.attributes and node.subgraphs]
        return [self._editor(graph) for node in self._holders for graph in node.subgraphs]

    def free_name(self, wanted: str) -> str:
        return self.state.names.free(wanted)

    def add_constant(self, name: str, array: Array, *, made_of: str = "") -> str:
        weight = self.state.store.add(np.asarray(array), own=bool(made_of), made_of=made_of)
        value = Value(self.state.take_name(name), self.graph, TensorType(weight.data_type, weight.shape), weight=weight)
        self._changed()
        self.values[value.name] = self.graph.initializers[value.name] = value
        return value.name

    # replace_uses -----------------------------------------------------------------------------------------------------

    def replace_uses(self, old: ValueSpec | str, new: ValueSpec | str, *, returned: bool = True) -> None:
        before, after = self._known(old), self._known(new)
        if before is after:
            return
        if before.graph is not self.graph:
            raise InvalidGraph(
                f"Value '{before.name}' belongs to a graph around '{self.graph.name}'.",
                where=Location(value=before.name),
                fix="Replace it with the editor of the graph that defines it.",
            )
        self._changed()
        self.graph.model.budget.tick()
        self._learn_type(after, before.type)
        if before.is_graph_output and returned:
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
            node_name = unique_name(f"{self.state.origin or 'Identity'}/{name}", self.named)
            copy = Node("Identity", [after], self.graph, name=node_name, origin=self.state.origin)
            copy.sources = sources_of([] if producer is None else [producer])
            result = self.values[name] = Value(name, self.graph, before.type or after.type, producer=copy)
            copy.outputs = [result]
            self._resolve(copy)
            self.list.append(copy)
            self._came(copy)
        result.is_graph_output = True
        self.graph.outputs = [result if value is before else value for value in self.graph.outputs]

    def _move_reads(self, before: Value, after: Value) -> None:
        writer = after.producer if after.graph is self.graph else None
        if after.type != before.type:
            self.state.better[after] = None
        holders: dict[Node, None] = {}
        for reader, position in list(before.uses):
            del before.uses[reader, position]
            reader.inputs[position] = after
            after.uses[reader, position] = None
            self.state.cache.forget_node(reader)
            self.state.journal.moved[reader] = None
            holder = owner_in(self.graph, reader)
            if holder is not None:
                holders[holder] = None
        for graph, position in list(self.state.returns.get(before, ())):
            self.state.return_gone(before, graph, position)
            graph.outputs[position] = after
            if after.graph is graph:
                after.is_graph_output = True
            else:
                self.state.returns.setdefault(after, {})[graph, position] = None
            holder = owner_in(self.graph, graph.owner)
            if holder is not None:
                holders[holder] = None
            if graph.owner is not None:
                self.state.cache.forget_node(graph.owner)
        self.state.journal.values[after] = None
        if writer is not None:
            for holder in holders:
                self.list.order(writer, holder)

    # replace_nodes ----------------------------------------------------------------------------------------------------

    def replace_nodes(self, nodes: Sequence[NodeSpec | str], templates: Sequence[NodeTemplate]) -> Sequence[NodeSpec]:
        return [self.record(node) for node in self._replace(self.existing(nodes), templates)]

    def contradiction(self, templates: Sequence[NodeTemplate], constants: Mapping[str, Array]) -> str:
        from ort_py.graph.editing.trial import contradiction  # few rules ask

        return contradiction(templates, constants, self.graph, self.state, self.find)

    def fuse(self, nodes: Sequence[NodeSpec | str], template: NodeTemplate) -> NodeSpec:
        removed = self.existing(nodes)
        body = body_of(removed, template, self.find, self.state.bodies)
        (made,) = self._replace(removed, [template], body=body)
        return self.record(made)

    def expand(self, node: Node) -> list[Node]:
        """Put a fused node's function in its place; for the engine.

        Returns:
            The new nodes; empty where the node carries no function.
        """
        if node.body is None:
            return []
        templates = templates_of(node, node.body, self.add_constant, self.free_name)
        return self._replace([node], templates, opsets=node.body.opset_imports)

    def _replace(
        self,
        removed: Sequence[Node],
        templates: Sequence[NodeTemplate],
        *,
        body: FunctionBody | None = None,
        opsets: Mapping[str, int] | None = None,
    ) -> list[Node]:
        gone = set(removed)
        typed = _typed(removed)
        maker = NodeMaker(self.graph, self.state, self.values, self.named, self.find, gone)
        self._check_unneeded(removed, gone, maker.check(templates))
        self._changed()
        free = self.list.remove(removed)
        sources = sources_of(removed)
        made = [maker.make(template) for template in templates]
        if any(node.subgraphs for node in (*removed, *made)):
            self._holders = None
        for node in removed:
            self._release(node)
        for node in made:
            node.sources = sources
            node.body = body or node.body
            version = (opsets or {}).get(node.domain, 0)
            if version and self.graph.model.opset_imports.setdefault(node.domain, version) != version:
                node.opset = version
            self._resolve(node, typed)
            self._came(node)
        self.list.insert(made, free)
        self._typed_already(made)
        return made

    def _typed_already(self, made: Sequence[Node]) -> None:
        """Skip notifications for values that only nodes made together with them read: those were typed later."""
        new = set(made)
        for value in [one for node in made for one in node.outputs if one is not None and one in self.state.better]:
            if all(reader in new for reader, _ in value.uses):
                del self.state.better[value]

    def _came(self, node: Node) -> None:
        self.named[node.name] = node
        self.state.journal.node_made(node)

    def _check_unneeded(self, removed: Sequence[Node], gone: set[Node], taken: set[str]) -> None:
        for node in removed:
            for value in node.outputs:
                if value is None or value.name in taken:
                    continue
                reader = next((reader for reader in self._readers_of(value) if reader not in gone), None)
                if reader is not None or value.is_graph_output:
                    raise InvalidGraph(
                        f"Value '{value.name}' would have no producer.",
                        where=node.location,
                        why=f"node '{reader.name}' reads it" if reader is not None else "the graph returns it",
                        fix="Let a new node write it, or use `replace_uses` before.",
                    )

    def _release(self, node: Node) -> None:
        """Forget a node that was taken out of the list, and all that is in it."""
        self.state.journal.node_removed(node)
        disconnect(node)
        for nested in node.subgraphs:
            for graph in list(walk(nested)):
                for inner in graph.nodes:
                    self.state.journal.node_removed(inner)
                    disconnect(inner)
                graph.nodes = []  # code that still holds one of them finds that it no longer exists
                self.state.graph_gone(graph)
        for value in node.outputs:
            if value is not None and self.values.get(value.name) is value:
                del self.values[value.name]
        self.named[node.name] = None
        self.state.cache.forget_node(node)

    def _resolve(self, node: Node, replaced: Sequence[_Typed] = ()) -> None:
        """Look up the operator of a new node and type its outputs, as those of a replaced node where that was alike."""
        schemas = self.state.schemas
        # A model of other domains only imports none of ONNX's own; an Identity needs one.
        opset = schemas.opset(node) or newest_opset(node.domain)
        if opset or node.body is not None:
            node.graph.model.opset_imports.setdefault(node.domain, opset or 1)
        schema = schemas.lookup(node)
        if schema is None and node.body is not None:
            # Providers that do not know it get its body, which shows the types of its outputs.
            node.since_version = node.opset_version
            if any(value is not None and value.type is None for value in node.outputs):
                for value, found in zip(node.outputs, types_of(node, node.body, self.state), strict=False):
                    if value is not None:
                        self._learn_type(value, found)
            return
        schema = schemas.resolve(node)
        node.since_version = schema.since_version
        types: list[ValueType | None] = [known for other, read, known in replaced if _is_alike(node, other, read)]
        types = types[:1] or infer_node(node, schemas)
        for value, found in zip(node.outputs, types, strict=False):
            if value is None or found is None:
                continue
            if shape_conflict(found, value.type):
                if value in node.graph.model.trusted:
                    value.type = None  # the model declares it wrongly, which a run passes over, too
                    self._learn_type(value, found)
                    continue
                raise InvalidGraph(
                    f"Value '{value.name}' has type {value.type!r} and would get {found!r}.",
                    where=node.location,
                    fix="A node that takes over a value must compute the same shape.",
                )
            self._learn_type(value, found)
        node.type_bindings = schema.bind_types(node)

    def infer(self, node: NodeSpec | str) -> NodeSpec:
        (known,) = self.existing([node])
        self.retype(known)
        return self.record(known)

    def retype(self, node: Node) -> None:
        """`infer` for a node of the graph; for the engine.

        Raises:
            InvalidGraph: The inputs contradict the operator.
        """
        carried = node.body if self.state.schemas.lookup(node) is None else None
        state = self.state
        types = infer_node(node, state.schemas) if carried is None else types_of(node, carried, state)
        for value, found in zip(node.outputs, types, strict=False):
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
                fix="A transform must keep element types; add a Cast after the new node.",
            )
        merged = with_sizes(merge_types(known, found, sizes=True), found)
        if merged != known and value.weight is None:
            value.type = merged
            self.state.cache.forget_value(value)
            if value.uses:
                self.state.better[value] = None

    # remove and inline ------------------------------------------------------------------------------------------------

    def remove_unused(self) -> int:
        # Inner graphs and late nodes first: then each thing is looked at after everything that could need it.
        return sum(self._editor(graph).remove_unused_here() for graph in reversed(list(walk(self.graph))))

    def remove_unused_here(self) -> int:
        """`remove_unused` without the nested graphs; for the engine."""
        returns = self.state.returns

        def needed(value: Value | None) -> bool:
            return value is not None and (bool(value.uses) or value.is_graph_output or value in returns)

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
        self._expire_view()
        if dead:
            self._changed()  # a constant without readers is nothing that another transform waits for
            kept.reverse()
            self.list.keep(kept, dead)
            if any(node.subgraphs for node in dead):
                self._holders = None
        for value in unused:
            del self.graph.initializers[value.name]
            self.values.pop(value.name, None)
        return len(dead) + len(unused)

    def inline_subgraph(self, node: NodeSpec | str, attribute: str) -> None:
        (holder,) = self.existing([node])
        inner: Graph = holder.attributes[attribute]
        if inner.inputs or len(inner.outputs) < len(holder.outputs):
            raise unfit_branch(holder, inner, attribute)
        self._changed()
        results = list(inner.outputs)
        self.state.graph_gone(inner)
        moved, constants = inner.nodes, list(inner.initializers.values())
        inner.nodes, inner.outputs, inner.initializers = [], [], {}
        self._take_in(moved, constants, holder)
        for output, result in zip(list(holder.outputs), results, strict=False):
            if output is not None:
                self.replace_uses(output.name, result.name)
        self._replace([holder], ())

    def move_out(self, nodes: Sequence[NodeSpec | str]) -> None:
        holder = self.graph.owner
        if holder is None:
            raise outermost(self.graph)
        moved = self.existing(nodes)
        constants = constants_read(moved, self.graph)
        outer = self._editor(holder.graph)
        self._changed()
        outer._changed()
        self.list.remove(moved)
        for value in (*constants, *[one for node in moved for one in node.outputs if one is not None]):
            self.values.pop(value.name, None)
            self.graph.initializers.pop(value.name, None)
            self.state.journal.values[value] = None
        for node in moved:
            self.named[node.name] = None
            self.state.journal.node_removed(node)
        self._holders = None
        outer._take_in(moved, constants, holder)
        self.state.graph_came(self.graph)  # those that it returns are outer values now

    def _take_in(self, moved: Sequence[Node], constants: Collection[Value], holder: Node) -> None:
        """Put nodes and constants that have left a nested graph in front of the node that holds it."""
        move_nodes_out(moved, constants, self.graph, self.values, self.named, self.state)
        self.list.insert_before(moved, holder)
        self._holders = None
        self.state.cache.forget_node(holder)
        for node in moved:
            self._came(node)

    # shared -----------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.state.changes += 1
        assert self.state.names is not None  # read them while they are all there
        assert self.state.returns is not None  # likewise
        self._expire_view()

    def _expire_view(self) -> None:
        if self._view is not None:
            self._view.expire()
            self._view = None

    def _editor(self, graph: Graph) -> Editor:
        return self.state.editors.get(graph) or Editor(graph, self.state)

    def _rename(self, value: Value, name: str) -> None:
        if self.values.get(value.name) is value:
            del self.values[value.name]
        value.name = name
        self.values[name] = value
        self.state.cache.forget_value(value)


def _copies(node: Node, value: Value) -> bool:
    return not node.domain and node.op_type == "Identity" and node.inputs == [value]
