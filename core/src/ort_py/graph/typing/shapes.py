"""Types and shapes of all values, nested graphs included.

Comes after `schema` has resolved the nodes; optimising, partitioning and planning read the result in `Value.type`.
ONNX's inference does the work for the operators it defines (`inference`), contributed schemas for theirs, and what the
model declares fills the gaps. It does not depend on weights' contents beyond small constants.

What is believed, in this order: inputs and constants; inference; names, ranks and element types that the model
declares. Sizes that the model declares count only where inference cannot know better: at the outputs of operators
without inference, at results that no node reads, and where they follow from inputs of fixed sizes, not from what is
fed. Exporters leave the sizes of one example input behind, and a transform that believed them would compute wrong
results for every other input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ort_py.contracts.schema import TypeFunction
from ort_py.dtypes import OptionalType, SequenceType, SparseTensorType, TensorType, ValueType
from ort_py.errors import InconsistentGraph, InvalidGraph, Location
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Graph, Model, Node, Value, graph_inputs, walk
from ort_py.graph.typing.demanded_ranks import demanded_types
from ort_py.graph.typing.inference_gaps import gap_types
from ort_py.graph.typing.inference_guard import can_infer
from ort_py.graph.typing.inferred import infer_graph
from ort_py.graph.typing.misread import is_misread
from ort_py.graph.typing.node_types import contributed_types, infer_node, type_function
from ort_py.graph.typing.shape_walk import MOST_NODES, follow_shapes
from ort_py.graph.typing.type_merge import (
    dim_names,
    element_conflict,
    made_up,
    merge_types,
    rename_dims,
    shape_conflict,
    substitute,
)
from ort_py.graph.typing.varying_sizes import varying_sizes
from ort_py.logs import lazy_logger

__all__ = ["infer_types", "substitute"]

_LOG = lazy_logger(__name__)

_ROUNDS = 4
"""Rounds of inference at most. One is enough without contributed operators and declarations that add something; each
further one carries their types through the nodes after them."""


def infer_types(model: Model, schemas: SchemaRegistry | None = None) -> None:
    """Set `Value.type` of every value as far as it can be known.

    Args:
        model: A valid model whose values have the types the file declares, None where it declares none.
        schemas: The registry that contributed operators are looked up in.

    Raises:
        InconsistentGraph: Shapes or element types contradict each other whatever the inputs are.
        PluginError: The `infer` of a contributed schema broke.
    """
    _Inference(model, schemas).run()


class _Inference:
    def __init__(self, model: Model, schemas: SchemaRegistry | None) -> None:
        self._model = model
        self._schemas = schemas
        self._declared: dict[Value, ValueType] = {}
        self._given: dict[Value, ValueType] = {}
        self._opaque: set[Value] = set()
        self._contributed: list[tuple[Node, TypeFunction]] = []
        self._gaps: list[Node] = []
        self._bodies: list[Graph] = []
        self._answers: dict[Value, ValueType] = {}
        self._refuted_before: set[Value] = set()
        self._varying: frozenset[Value] | None = None
        graphs = list(walk(model.graph))
        for graph in graphs:
            self._collect(graph, schemas)
        self._flat = len(graphs) == 1 and len(model.graph.nodes) <= MOST_NODES
        fixed = [value.type for value in graph_inputs(model.graph)]
        self._own_names = {name for known in self._declared.values() for name in dim_names(known)}
        self._sizes = all(
            isinstance(known, TensorType)
            and known.shape is not None
            and all(isinstance(dim, int) for dim in known.shape)
            for known in fixed
        )

    def _collect(self, graph: Graph, schemas: SchemaRegistry | None) -> None:
        """Read the model's declarations, and collect the values whose types inference needs."""
        for value in graph.initializers.values():
            if value.weight is not None:
                value.type = TensorType(value.weight.data_type, value.weight.shape)
            if value.type is not None:
                self._given[value] = value.type
        owner = graph.owner
        opaque = owner is None or not can_infer(owner.op_type, owner.domain, owner.opset_version)
        if owner is not None and opaque:
            self._bodies.append(graph)
        for value in graph.inputs:
            if value.type is not None:
                self._declared[value] = value.type
                self._given[value] = value.type if opaque else _without_shape(value.type)
        for node in graph.nodes:
            known = can_infer(node.op_type, node.domain, node.opset_version) and not is_misread(node)
            infer = None if known else type_function(node, schemas)
            if infer is not None:
                self._contributed.append((node, infer))
            elif not known:
                self._gaps.append(node)
            for output in node.outputs:
                if output is None:
                    continue
                if not known:
                    self._opaque.add(output)
                if output.type is None:
                    continue
                self._declared[output] = output.type
                if not known:
                    self._given[output] = output.type
                elif graph.owner is not None and output.is_graph_output:
                    # A Loop's body that reads its own results needs their types when it starts.
                    self._given[output] = _without_shape(output.type)

    def run(self) -> None:
        for _ in range(_ROUNDS):
            merged = self._settle()
            refuted = self._refuted()
            if not refuted:
                break
            self._refuted_before |= refuted
        self._warn(merged)
        forgotten = made_up(merged.values(), self._own_names, uses=1)
        for value, known in merged.items():
            value.type = rename_dims(known, forgotten) if forgotten else known

    def _settle(self) -> dict[Value, ValueType]:
        """Put inference, declarations, contributed schemas and our own rules together until nothing new follows."""
        given_types = dict(self._given)
        self._answers = {}
        found = self._infer(given_types, first=True)
        for _ in range(_ROUNDS):
            merged = self._merge(found)
            more = {value: known for value, known in merged.items() if found.get(value) != known and _is_read(value)}
            for value, known in (self._ask_contributed() | self._fill_gaps() | self._ask_readers()).items():
                merged[value] = more[value] = self._answers[value] = known
            given_types, before = given_types | more, given_types
            news = [value for value, known in more.items() if before.get(value) != known]
            if not news:
                break
            found = self._follow(found | more, news)[0] if self._flat else self._infer(given_types, first=False)
        return merged

    def _follow(
        self, types: dict[Value, ValueType], news: Sequence[Value] = ()
    ) -> tuple[dict[Value, ValueType], list[str]]:
        """Carry new types, and the numbers that the model computes, on from node to node; tells contradictions, too."""
        for graph in walk(self._model.graph):
            for node in graph.nodes:
                for value in node.outputs:
                    if value is not None:
                        value.type = types.get(value)
        better, contradictions = follow_shapes(self._model, self._schemas, improved=news)
        return types | better, contradictions

    def _refuted(self) -> set[Value]:
        """Values whose declaration was believed while their operator's inputs were unknown, and is wrong now that
        contributed schemas or our own rules have typed these.
        """
        refuted: set[Value] = set()
        for node in {node for value in self._answers for node, _ in value.uses}:
            believed = [value for value in node.outputs if value in self._declared and value not in self._opaque]
            if not believed:
                continue
            try:
                types = infer_node(node, self._schemas)
            except InvalidGraph:
                continue  # the graph cannot run here, whichever type is believed
            found = dict(zip(node.outputs, types, strict=False))
            refuted.update(value for value in believed if value and shape_conflict(found.get(value), value.type))
        return refuted - self._refuted_before

    def _infer(self, given_types: Mapping[Value, ValueType], *, first: bool) -> dict[Value, ValueType]:
        """Run ONNX's inference once, and follow the numbers that the model computes.

        The first run does not get declarations, so a contradiction there does not come from them.
        """
        found = infer_graph(self._model.graph, given_types, strict=first)
        types, errors = found.types, [*found.errors, *self._infer_bodies(given_types, found.types, first=first)]
        if not first:
            # Started from values in the middle, ONNX gives one made-up name to different sizes.
            invented = made_up(types.values(), self._own_names)
            types = {value: rename_dims(known, invented) for value, known in types.items()}
        types, contradictions = self._follow(types)
        if first and (errors or contradictions):
            raise InconsistentGraph(
                "Shapes in the model contradict each other.",
                where=Location(file=self._model.source),
                why=(*errors, *contradictions),
                fix="Check the nodes named above; the tool that wrote the model may have dropped a Reshape or Cast.",
            )
        return types

    def _infer_bodies(
        self, given_types: Mapping[Value, ValueType], types: dict[Value, ValueType], *, first: bool
    ) -> list[str]:
        """Add to `types` those of the graphs that ONNX does not look into, because it does not know what holds them.

        Returns:
            Contradictions met there.
        """
        errors: list[str] = []
        known = {**given_types, **types} if self._bodies else {}
        for body in self._bodies:
            # From the outside in, so that what a body captures is typed before.
            found = infer_graph(body, known, strict=first)
            # Each run makes names up again: one name in two bodies would tie sizes that have nothing in common.
            invented = made_up(found.types.values(), self._own_names)
            inside = {value: rename_dims(one, invented) for value, one in found.types.items()}
            types.update(inside)
            known.update(inside)
            errors.extend(found.errors)
        return errors

    def _merge(self, found: Mapping[Value, ValueType]) -> dict[Value, ValueType]:
        """Put inference and declarations together, in `Value.type` too, where contributed schemas look."""
        merged: dict[Value, ValueType] = {**self._given, **found}
        self._model.trusted.clear()
        for value, declared in self._declared.items():
            self._model.budget.tick()
            inferred = found.get(value)
            if inferred is not None and element_conflict(inferred, declared):
                raise InconsistentGraph(
                    f"The model declares {declared} but the operator gives {inferred}.",
                    where=_location(value),
                    fix="Correct the declared type, or insert a Cast before it.",
                )
            sizes = value in self._opaque or (
                inferred != declared and value.graph.owner is None and self._has_sizes(value)
            )
            believed = _without_shape(declared) if value in self._refuted_before else declared
            known = merge_types(inferred, believed, sizes=sizes)
            if known is not None:
                merged[value] = known
            unasked = value in self._opaque and value.producer is not None and not value.producer.domain
            if unasked or (known != inferred and getattr(inferred, "shape", None) is None):
                self._model.trusted.add(value)
        for value, known in merged.items():
            value.type = known
        return merged

    def _has_sizes(self, value: Value) -> bool:
        """Return whether sizes that are declared for a value of the main graph hold in every run, or have no reader."""
        if value.producer is None or (value.is_graph_output and not value.uses):
            return True
        if not (self._sizes or value.is_graph_output):
            return False
        if self._varying is None:
            self._varying = varying_sizes(self._model.graph)
        return value not in self._varying

    def _ask_contributed(self) -> dict[Value, ValueType]:
        answers: dict[Value, ValueType] = {}
        for node, infer in self._contributed:
            for value, known in zip(node.outputs, contributed_types(node, infer), strict=False):
                if value is not None and known is not None and known != value.type:
                    value.type = answers[value] = known
        return answers

    def _fill_gaps(self) -> dict[Value, ValueType]:
        answers: dict[Value, ValueType] = {}
        for graph in walk(self._model.graph):
            for node in graph.nodes:
                if all(value is None or value.type is not None for value in node.outputs):
                    continue
                for value, known in zip(node.outputs, gap_types(node), strict=True):
                    if value is not None and value.type is None and known is not None:
                        value.type = answers[value] = known
        for node in self._gaps:
            for value, known in zip(node.outputs, gap_types(node), strict=True):
                better = merge_types(known, value.type, sizes=True) if value is not None else None
                if value is not None and better is not None and better != value.type:
                    value.type = answers[value] = better
        return answers

    def _ask_readers(self) -> dict[Value, ValueType]:
        answers: dict[Value, ValueType] = {}
        for graph in walk(self._model.graph):
            answers |= demanded_types(graph)
        return answers

    def _warn(self, merged: Mapping[Value, ValueType]) -> None:
        for value, declared in self._declared.items():
            known = merged.get(value)
            if shape_conflict(known, declared):
                _LOG.warning(
                    "The model declares shape %s for value '%s', but it has shape %s; the declaration is ignored.",
                    getattr(declared, "shape", None),
                    value.name,
                    getattr(known, "shape", None),
                )


def _is_read(value: Value) -> bool:
    """Return whether another value's type may follow from this one's. Giving ONNX other types could only hide what it
    finds.
    """
    return bool(value.uses) or value.graph.owner is not None


def _without_shape(value_type: ValueType) -> ValueType:
    if isinstance(value_type, TensorType | SparseTensorType):
        return replace(value_type, shape=None)
    if isinstance(value_type, SequenceType | OptionalType):
        return replace(value_type, element=_without_shape(value_type.element))
    return value_type


def _location(value: Value) -> Location:
    if value.producer is None:
        return Location(value=value.name)
    node = value.producer
    return Location(node=node.name, op_type=node.op_type, domain=node.domain, value=value.name, path=node.path)
