"""The flow between the nodes of a placement: values with their bytes, graphs with their owners, as plain numbers.

Read from the graph once, because a report outlives the graph. Nodes are numbered as the placement lists them. It does
not depend on providers; `islands` and `merging` compute on it, `page` draws it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ort_py.dtypes import DataType, TensorType, ValueType, nbytes_of
from ort_py.graph.ir import Graph, Node, Value
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import human_bytes
from ort_py.partition.assignment import Assignment

NOBODY = -1
"""Stands for the caller: where the inputs of a model come from, and the owner of its main graph."""


@dataclass(frozen=True, slots=True)
class FlowValue:
    """A value that is computed or fed; constants do not flow.

    Attributes:
        type: Element type and shape in words, ``""`` if nothing is known.
        nbytes: Bytes of it, None where its shape has symbols or is unknown, or its elements have no fixed size.
        unit_bytes: Bytes without the symbolic dimensions: of one element of each; 0 where the rank is unknown.
        symbols: Symbolic dimensions, ``?`` for those without a name.
        producer: Node that computes it, `NOBODY` for inputs of the model.
        readers: Nodes that read it, in order, each once; those of nested graphs too.
    """

    name: str
    type: str
    nbytes: int | None
    unit_bytes: int
    symbols: tuple[str, ...]
    producer: int
    readers: tuple[int, ...]
    returned: bool

    @property
    def size(self) -> str:
        """Its size for people: ``1.5 KiB``, ``512 bytes × batch``, ``unknown size``."""
        if self.nbytes is not None:
            return human_bytes(self.nbytes)
        if not self.unit_bytes:
            return "unknown size"
        return " × ".join([human_bytes(self.unit_bytes), *self.symbols])


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """The main graph or a nested one.

    Attributes:
        owner: The node that holds it, `NOBODY` for the main graph.
        nodes: Its nodes, in the order of the graph.
    """

    name: str
    owner: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """Values and graphs of a placement.

    Attributes:
        graphs: The main graph first, then nested ones.
        values: All values, in the order in which the graphs compute them.
    """

    graphs: tuple[FlowGraph, ...] = ()
    graph_of: tuple[int, ...] = ()
    values: tuple[FlowValue, ...] = ()

    def edges(self) -> Iterator[tuple[int, int]]:
        """(producer, reader) of each value within one graph; a reader in a nested graph stands for the node of the
        producer's graph that holds it. Pairs may repeat."""
        for value in self.values:
            if value.producer != NOBODY:
                home = self.graph_of[value.producer]
                for reader in value.readers:
                    lifted = self.lifted(reader, home)
                    if lifted not in (NOBODY, value.producer):
                        yield value.producer, lifted

    def lifted(self, node: int, graph: int) -> int:
        """The node of `graph` that is `node` or holds it, or `NOBODY`."""
        while node != NOBODY and self.graph_of[node] != graph:
            node = self.graphs[self.graph_of[node]].owner
        return node


def flow_of(assignment: Assignment) -> Flow:
    """The flow between the assigned nodes. The inside of a node that a provider runs whole belongs to the node."""
    index = {node: number for number, node in enumerate(assignment.nodes)}
    graphs: dict[Graph, int] = {}
    for node in index:
        if node.graph not in graphs:
            graphs[node.graph] = len(graphs)
    ordered = sorted(graphs, key=lambda graph: len(graph.owner.path) + 1 if graph.owner is not None else 0)
    graphs = {graph: number for number, graph in enumerate(ordered)}
    described = tuple(
        FlowGraph(
            graph.name,
            NOBODY if graph.owner is None else index.get(graph.owner, NOBODY),
            tuple([index[node] for node in graph.nodes if node in index]),
        )
        for graph in ordered
    )
    values: list[FlowValue] = []
    for graph in ordered:
        if graph.owner is None:
            fed = [*graph.inputs, *(value for value in graph.initializers.values() if value.overridable)]
            values.extend(_flow_value(value, NOBODY, index) for value in fed)
        for node in graph.nodes:
            number = index.get(node)
            if number is not None:
                values.extend(_flow_value(value, number, index) for value in node.outputs if value is not None)
    return Flow(described, tuple([graphs[node.graph] for node in index]), tuple(values))


def _flow_value(value: Value, producer: int, index: dict[Node, int]) -> FlowValue:
    readers: set[int] = set()  # uses are in the order of edits, which a restored graph does not have
    for reader, _ in value.uses:
        number = index.get(reader)
        if number is None:
            number = _holder(reader, index)
        if number is not None:
            readers.add(number)
    nbytes, unit, symbols = _size(value.type)
    text = "" if value.type is None else str(value.type)
    returned = value.is_graph_output and value.graph.owner is None
    return FlowValue(value.name, text, nbytes, unit, symbols, producer, tuple(sorted(readers)), returned)


def _holder(node: Node, index: dict[Node, int]) -> int | None:
    """The nearest assigned node around one that is not assigned itself."""
    owner = node.graph.owner
    while owner is not None and owner not in index:
        owner = owner.graph.owner
    return None if owner is None else index[owner]


def _size(kind: ValueType | None) -> tuple[int | None, int, tuple[str, ...]]:
    """Bytes, bytes without symbolic dimensions, and those."""
    if not isinstance(kind, TensorType) or kind.shape is None or kind.data_type is DataType.STRING:
        return None, 0, ()
    known = tuple(dim for dim in kind.shape if isinstance(dim, int))
    symbols = tuple("?" if dim is None else str(dim) for dim in kind.shape if not isinstance(dim, int))
    unit = nbytes_of(kind.data_type, known)
    return (None if symbols else unit), unit, symbols
