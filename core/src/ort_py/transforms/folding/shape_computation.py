"""Numbers that shapes are computed from become constants if they are known, even if other sizes are not.

Follows the numbers through a graph as type inference does (`ort_py.graph.typing.shape_data`), with the records of an
editor, and every unknown size called by the value and the axis it belongs to. Numbers that are known completely become
constants, and those that an earlier node computed too are taken from it. Partly known arguments of a Reshape, Expand or
Slice are replaced by ones that need no computation, such as "as in the input". The chains that computed them are then
unused, and so are values of which only the shape was read. Does not depend on the operators in between.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import (
    GraphEditor,
    GraphTransform,
    NodeSpec,
    NodeTemplate,
    TransformContext,
    TransformResult,
    ValueSpec,
)
from ort_py.dtypes import Dim, Shape, TensorType, numpy_dtype
from ort_py.graph.typing.number_rules import RULES
from ort_py.graph.typing.shape_data import ShapeData, followed, target_shape

_END = np.iinfo(np.int64).max
"""End of a Slice that reaches to the end of the axis."""

_SOURCES = frozenset({"Shape", "Size"})

_FOLLOWED = RULES.keys() | {"Reshape", "Expand", "Slice"}


class ShapeComputationFolding(GraphTransform):
    """Chains of Shape, Gather, Concat and arithmetic that end in a constant, or in sizes that an input has anyway."""

    name = "ShapeComputationFolding"

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        changes = 0
        notes: list[str] = []
        pending: list[tuple[GraphEditor, _Records, _Origins]] = [(graph, _Records(graph, {}), _Origins(graph, {}))]
        while pending:
            editor, data, origins = pending.pop()
            walk = _Walk(editor, data, origins)
            changes += walk.run()
            notes += walk.notes
            pending.extend(
                (nested, _Records(nested, data.known()), _Origins(nested, origins.known()))
                for nested in editor.subgraphs()
            )
        return TransformResult(changes, tuple(notes))


class _Records(ShapeData):
    """Contents followed over an editor's records; values are known by name, which is unique here and further out."""

    def __init__(self, graph: GraphEditor, outer: dict[Hashable, Any]) -> None:
        super().__init__()
        self._graph = graph
        self._known.update(outer)

    def known(self) -> dict[Hashable, Any]:
        """Facts that nested graphs may use."""
        return self._known

    def key(self, value: ValueSpec) -> Hashable:
        return value.name

    def array(self, value: ValueSpec) -> Any | None:
        return self._graph.constant(value) if value.constant and followed(value.data_type, value.shape) else None

    def shape(self, value: ValueSpec | None) -> Shape | None:
        """The shape, with a name for each size that has none: it is the same wherever this value's size is asked."""
        known = super().shape(value)
        if value is None or known is None or None not in known:
            return known
        return tuple([f"{value.name}[{axis}]" if size is None else size for axis, size in enumerate(known)])

    def is_open(self, size: Dim) -> bool:
        return super().is_open(size) or (isinstance(size, str) and size.endswith("]"))


class _Origins(_Records):
    """The same with sizes called by where they come from, and never by the names that the model gives to them.

    A run may be fed inputs of which two sizes of one name differ: models of pictures of any height and width often call
    both by one name. Sizes that are the same here are the same in every run.
    """

    def __init__(self, graph: GraphEditor, outer: dict[Hashable, Any]) -> None:
        super().__init__(graph, outer)
        self._shapes: dict[str, Shape] = {}

    def follow(self, node: Any) -> None:
        """Note the content of a node's output, and the sizes that a Reshape was given."""
        super().follow(node)
        if node.op_type == "Reshape" and not node.domain:
            told = self.of(node.inputs[1])
            shape = None if told is None or -1 in told.entries else target_shape(node, self)
            if shape is not None:
                self._shapes[node.outputs[0].name] = self._kept(node, shape)

    def _kept(self, node: Any, told: Shape) -> Shape:
        """The sizes that a Reshape asks for, without those that types leave open although they know its source: such a
        size may be 0, which keeps another one.
        """
        source, made = super().shape(node.inputs[0]), super().shape(node.outputs[0])
        if source is None or made is None or len(made) != len(told) or any(self.is_open(size) for size in source):
            return told
        return tuple([None if self.is_open(size) else one for one, size in zip(told, made, strict=True)])

    def shape(self, value: ValueSpec | None) -> Shape | None:
        known = super().shape(value)
        if value is None or known is None:
            return known
        told = self._shapes.get(value.name, known)
        sizes = told if len(told) == len(known) and told is not known else (None,) * len(known)
        return tuple(
            size if isinstance(size, int) else f"{value.name}[{axis}]" if origin is None else origin
            for axis, (size, origin) in enumerate(zip(known, sizes, strict=True))
        )


class _Walk:
    """One graph, its nodes in order."""

    def __init__(self, graph: GraphEditor, data: _Records, origins: _Origins) -> None:
        self._graph = graph
        self._data = data
        self._origins = origins
        self._better: set[str] = set()
        self._computed: dict[Hashable, str] = {}
        self.notes: list[str] = []

    def run(self) -> int:
        changes = 0
        nodes = self._graph.nodes
        if not self._data.known() and not any(node.op_type in _SOURCES for node in nodes):
            return 0  # there are no numbers but constants
        for known in nodes:
            if known.op_type not in _FOLLOWED and not self._better:
                continue
            node = self._graph.node(known)
            if node is None or node.domain:
                continue
            node = self._typed(node)
            self._data.follow(node)
            self._origins.follow(node)
            changes += self._folded(node) or self._taken_from_earlier(node) or self._reads_constants(node)
        return changes

    def _typed(self, node: NodeSpec) -> NodeSpec:
        """The node, typed again where its inputs are known better than when it was typed."""
        if not self._better or not any(value is not None and value.name in self._better for value in node.inputs):
            return node
        before = node.outputs
        node = self._graph.infer(node)
        self._note_better(before, node.outputs)
        return node

    def _note_better(self, before: Sequence[ValueSpec | None], after: Sequence[ValueSpec | None]) -> None:
        for old, new in zip(before, after, strict=True):
            if old is not None and new is not None and old.type != new.type:
                self._better.add(new.name)

    def _folded(self, node: NodeSpec) -> bool:
        """Put a constant in the place of a node whose result is known in full."""
        result = node.outputs[0] if len(node.outputs) == 1 else None
        if result is None or not isinstance(result.type, TensorType):
            return False
        if all(value is None or value.constant for value in node.inputs) or self._graph.is_output(result):
            return False  # constant folding's, or only good for a copy
        numbers = self._data.of(result)
        array = None if numbers is None else numbers.array()
        if array is None:
            return False
        name = self._graph.add_constant(f"{result.name}/known", array.astype(numpy_dtype(result.type.data_type)))
        self._graph.replace_uses(result, name)
        self._graph.replace_nodes([node], ())
        return True

    def _taken_from_earlier(self, node: NodeSpec) -> bool:
        """Put an earlier value in the place of a result of the same numbers, known or not."""
        result = node.outputs[0] if len(node.outputs) == 1 else None
        if result is None or not isinstance(result.type, TensorType):
            return False
        numbers = self._origins.of(result)
        if numbers is None or not numbers.entries or None in numbers.entries:
            return False
        content = numbers.entries, numbers.scalar, result.type.data_type
        earlier = self._computed.setdefault(content, result.name)
        if earlier == result.name or self._graph.is_output(result):
            return False
        self._graph.replace_uses(result, earlier)
        self._graph.replace_nodes([node], ())
        return True

    def _reads_constants(self, node: NodeSpec) -> bool:
        """Let a node read constants where it reads computed sizes."""
        if node.op_type == "Slice":
            return self._slice(node)
        if node.op_type not in ("Reshape", "Expand") or len(node.inputs) < 2:
            return False
        source, target, result = node.inputs[0], node.inputs[1], node.outputs[0]
        if source is None or target is None or target.constant or result is None:
            return False
        numbers = self._data.of(target)
        shape = self._data.shape(source)
        if numbers is None or numbers.scalar or shape is None:
            return False
        if node.op_type == "Expand":
            wanted = _expansion(numbers.entries, shape)
        else:
            found = self._reshaping(node, numbers.entries, shape)
            if isinstance(found, str):
                self.notes.append(f"{node.name}: {found}")
                return False
            wanted = found
        if wanted is None:
            return False
        attributes = {name: value for name, value in node.attributes.items() if name != "allowzero"}
        made = self._graph.add_constant(f"{result.name}/shape", np.array(wanted, np.int64))
        self._replace(node, (source.name, made), attributes)
        return True

    def _reshaping(self, node: NodeSpec, entries: tuple[Dim, ...], source: Shape) -> list[int] | str | None:
        """Equivalent numbers for a Reshape, or a reason if some cannot be expressed."""
        zeros = bool(node.attributes.get("allowzero", 0))
        result = node.outputs[0]
        known = target_shape(node, self._data) or (None if result is None else result.shape)
        sizes = known if known is not None and len(known) == len(entries) else entries
        wanted: list[int] = []
        unknown = 0
        for place, (entry, size) in enumerate(zip(entries, sizes, strict=True)):
            if isinstance(size, int) and size > 0:
                wanted.append(size)
            elif place < len(source) and ((entry == 0 and not zeros) or (entry is not None and entry == source[place])):
                wanted.append(0)
            elif isinstance(entry, int) and entry != -1:
                return "a size of 0 is asked for"
            elif -1 in entries and entry != -1 and place < len(source) and not zeros:
                return "a size is not known, and where it is 0, one of the input is copied"
            else:
                unknown += 1
                wanted.append(-1)
        if unknown > 1:
            return f"{unknown} sizes of its result are not those of its input, or are computed"
        # With a size of nothing beside it, -1 has no answer.
        copied = [source[place] for place, number in enumerate(wanted) if number == 0]
        if unknown and -1 not in entries and not all(isinstance(size, int) and size > 0 for size in copied):
            return "a size is not known, and another one may be 0"
        return wanted

    def _slice(self, node: NodeSpec) -> bool:
        """Let a Slice whose ends are the sizes of its input, or constants, read constants."""
        if len(node.inputs) < 3:
            return False
        source, end, result = node.inputs[0], node.inputs[2], node.outputs[0]
        numbers = self._data.of(end)
        shape = self._data.shape(source)
        if source is None or end is None or end.constant or numbers is None or shape is None or result is None:
            return False
        axes = tuple(range(len(numbers.entries)))
        if len(node.inputs) > 3 and node.inputs[3] is not None:
            axes_data = self._data.of(node.inputs[3])
            if axes_data is None:
                return False
            axes = tuple([axis if isinstance(axis, int) else len(shape) for axis in axes_data.entries])
        steps = self._data.of(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else None
        if len(node.inputs) > 4 and node.inputs[4] is not None and steps is None:
            return False
        if steps is not None and not all(isinstance(step, int) and step > 0 for step in steps.entries):
            return False
        wanted: list[int] = []
        for entry, axis in zip(numbers.entries, axes, strict=False):
            if isinstance(entry, int):
                wanted.append(entry)
            elif entry is not None and -len(shape) <= axis < len(shape) and shape[axis] == entry:
                wanted.append(_END)
            else:
                return False
        if len(wanted) != len(numbers.entries):
            return False
        if not _fits(end, wanted):
            return False
        name = self._graph.add_constant(f"{result.name}/ends", np.array(wanted, np.int64).astype(_dtype(end)))
        rest = ["" if value is None else value.name for value in node.inputs]
        self._replace(node, (*rest[:2], name, *rest[3:]), node.attributes)
        return True

    def _replace(self, node: NodeSpec, inputs: tuple[str, ...], attributes: Any) -> None:
        outputs = tuple(["" if value is None else value.name for value in node.outputs])
        (made,) = self._graph.replace_nodes([node], [NodeTemplate(node.op_type, inputs, outputs, attributes)])
        self._note_better(node.outputs, made.outputs)


def _expansion(entries: tuple[Dim, ...], source: Shape) -> list[int] | None:
    """Equivalent numbers for an Expand: 1 if the input has the size. None if a number is unknown."""
    wanted: list[int] = []
    for place, entry in enumerate(entries, len(source) - len(entries)):
        size = source[place] if place >= 0 else 1
        if isinstance(entry, int):
            wanted.append(entry)
        elif entry is not None and entry == size:
            wanted.append(1)
        else:
            return None
    return wanted


def _dtype(value: ValueSpec) -> Any:
    assert isinstance(value.type, TensorType)  # its content is followed
    return numpy_dtype(value.type.data_type)


def _fits(value: ValueSpec, numbers: Sequence[int]) -> bool:
    largest = np.iinfo(_dtype(value)).max
    return all(number <= largest for number in numbers)
