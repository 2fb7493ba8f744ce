"""Describes a region to XNNPACK, node by node, for inputs of given shapes.

A value of the model may exist in several *orders* of its axes at the same time: XNNPACK computes convolutions and
pooling with the channels last, other nodes take the order that is there, and what needs ONNX's own order gets a
transpose, once. So transposes stand at the border of a region and around the few nodes that need them. Sizes are
computed here, from those of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ort_py.contracts import NodeSpec, RegionWeight, ValueSpec
from ort_py.errors import EPFail
from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.constants import ADD, INFINITY, Flag, Reduction, Unary
from ort_py_xnnpack.binding.memory import Array, padded
from ort_py_xnnpack.binding.packing import PackedWeights
from ort_py_xnnpack.binding.subgraph import Subgraph
from ort_py_xnnpack.execution.kept_graph import KeptGraph
from ort_py_xnnpack.operators import operator_of

__all__ = ["Builder", "Order", "Refused", "Shape", "last"]

Order = tuple[int, ...]
"""A permutation of axes: the axis of the model that each axis of the memory is."""
Shape = tuple[int, ...]

_FOLLOWING = frozenset(
    ["batch_matrix_multiply", "binary", "copy", "fully_connected", "softmax", "split_dim", "static_reduce_v2", "unary"]
)
"""Functions that say nothing of sizes but for those of weights and of the last axis."""


class Refused(EPFail):
    """XNNPACK has nothing for some sizes; with others the region may run."""


def last(rank: int) -> Order:
    """The order with the channels behind the other axes."""
    return (0, *range(2, rank), 1)


def plain(rank: int) -> Order:
    """ONNX's own order."""
    return tuple(range(rank))


class Builder:
    """A region while it is described.

    Args:
        view: The region.
        subgraph: Its description.
        weights: The packed weights.
        sources: The region's constants by name.
        inputs: Name and shape of each external input, in order.
        outputs: Names of the outputs, whose external numbers follow.
        watches: Whether runs are declined that might lose NaN.

    Attributes:
        shapes: Sizes of each value, in ONNX's order.
        kept: Constants that are read in each run, and have to stay where they are.
        follows: Whether the description fits inputs of other sizes too, of which only the last one is the same.
    """

    def __init__(
        self,
        view: KeptGraph,
        subgraph: Subgraph,
        weights: PackedWeights,
        sources: Mapping[str, RegionWeight],
        inputs: Sequence[tuple[str, Shape]],
        outputs: Sequence[str],
        *,
        watches: bool = True,
    ) -> None:
        self._watches = watches
        self.follows = True
        self.graph = view
        self.subgraph = subgraph
        self._weights = weights
        self._sources = sources
        self._constants: dict[str, Array] = {}
        self.kept: list[Array] = []
        self._forms: dict[str, dict[Order, int]] = {}
        self.shapes: dict[str, Shape] = {}
        self._external = {name: len(inputs) + number for number, name in enumerate(outputs)}
        self._flags: list[int] = []
        self._watched: set[int] = set()
        self._rounded: dict[int, int] = {}
        self._flag_number = len(inputs) + len(outputs)
        self._sizes: dict[int, Shape] = {}
        for number, (name, shape) in enumerate(inputs):
            self.shapes[name] = shape
            self._forms[name] = {plain(len(shape)): self._noted(subgraph.input(number, shape), shape)}

    # What operators ask

    def shape(self, value: ValueSpec | None) -> Shape:
        """Sizes of an operand."""
        assert value is not None
        found = self.shapes.get(value.name)
        return self.constant(value).shape if found is None else found

    def is_constant(self, value: ValueSpec | None) -> bool:
        """Return whether an operand is known."""
        return value is not None and value.name not in self.shapes

    def constant(self, value: ValueSpec | None) -> Array:
        """A known operand."""
        assert value is not None
        found = self._constants.get(value.name)
        if found is None:
            source = self._sources.get(value.name)
            found = source.array() if source is not None else self.graph.constant(value.name)
            assert found is not None, f"'{value.name}' is no constant"
            found = self._constants[value.name] = np.asarray(found)
        return found

    def order(self, *values: ValueSpec | None) -> Order:
        """The order in which operands of one rank are best read: one that exists for all, or else for the first."""
        known = [self._forms[value.name] for value in values if value is not None and self._forms.get(value.name)]
        if not known:
            return plain(len(self.shape(values[0])))
        for order in known[0]:
            if all(order in forms for forms in known):
                return order
        return next(iter(known[0]))

    def read(self, value: ValueSpec | None, order: Order | None = None) -> int:
        """An operand in an order, ONNX's where none is said."""
        assert value is not None
        name = value.name
        wanted = plain(len(self.shape(value))) if order is None else order
        forms = self._forms.setdefault(name, {})
        if wanted not in forms:
            if self.is_constant(value):
                forms[wanted] = self.number(self.constant(value).transpose(wanted))
            else:
                forms[wanted] = self._reordered(name, wanted)
        return forms[wanted]

    def number(self, array: Array) -> int:
        """A constant that is read in each run."""
        copy = padded(np.asarray(array, np.float32))
        self.kept.append(copy)
        return self._noted(self.subgraph.constant(copy), array.shape)

    def weight(
        self,
        value: ValueSpec | None,
        form: str,
        make: Callable[[Array], Array],
        also: Sequence[ValueSpec | None] = (),
    ) -> int:
        """A constant that is packed.

        Args:
            value: A known operand.
            form: Name of what is made of it.
            make: Makes it.
            also: Other known operands that it is made of.
        """
        array = padded(make(self.constant(value)))
        self._name((value, *also), array, f"{form} {array.shape}")
        return self.subgraph.constant(array)

    def blocks(
        self,
        values: Sequence[ValueSpec | None],
        form: str,
        numbers: Array,
        scales: Array,
        shape: tuple[int, int],
        size: int,
    ) -> int:
        """Weights of 4 bits that are packed; see `Subgraph.blocks`.

        Args:
            values: The known operands that they are made of.
            form: Name of what is made of them.
            numbers, scales, shape, size: Their form.
        """
        array = padded(numbers)
        self._name(values, array, f"{form}, blocks of {size}")
        return self.subgraph.blocks(array, padded(scales), shape, size, 8)

    def in_8_bits(self, number: int) -> int:
        """A value with its rows rounded to integers of 8 bits."""
        if number not in self._rounded:
            target = self._rounded[number] = self.subgraph.rows(self._sizes[number])
            self.unary(Unary.CONVERT, number, target)
        return self._rounded[number]

    def write(self, value: ValueSpec | None, shape: Shape, order: Order | None = None) -> int:
        """The value that a node writes.

        Args:
            value: The node's output.
            shape: Its sizes, in ONNX's order.
            order: The order in which it is written, ONNX's where none is said.
        """
        assert value is not None
        name = value.name
        chosen = plain(len(shape)) if order is None else order
        self.shapes[name] = shape
        stored = tuple(shape[axis] for axis in chosen)
        if name in self._external and chosen == plain(len(shape)):
            found = self._noted(self.subgraph.output(self._external.pop(name), stored), stored)
        else:
            found = self.between(stored)
        self._forms.setdefault(name, {})[chosen] = found
        return found

    def wrote(self, value: ValueSpec | None, shape: Shape, number: int) -> None:
        """Note that a value of the model is one that was made between, in ONNX's order."""
        assert value is not None
        self.shapes[value.name] = shape
        self._forms.setdefault(value.name, {})[plain(len(shape))] = number

    def between(self, shape: Shape) -> int:
        """A value that no node of the model writes."""
        return self._noted(self.subgraph.value(shape), shape)

    def alias(
        self, value: ValueSpec | None, source: ValueSpec | None, moved: Callable[[Order], Order] | None = None
    ) -> None:
        """Let a value be another one, with other names of its axes where `moved` says so."""
        assert value is not None
        assert source is not None
        shape = self.shape(source)
        if not self._forms.get(source.name):
            self.read(source)
        forms = {
            (order if moved is None else moved(order)): number for order, number in self._forms[source.name].items()
        }
        order, number = next(iter(forms.items()))
        stored = self._sizes[number]
        self.shapes[value.name] = tuple(stored[order.index(axis)] for axis in range(len(shape)))
        self._forms[value.name] = forms

    def define(self, function: str, *arguments: object) -> None:
        """Add a node; the last argument of each is its flags."""
        self.follows &= function in _FOLLOWING
        self.subgraph.define(function, *arguments)

    def unary(self, kind: Unary, source: int, target: int, first: float = 0.0, second: float = 0.0) -> None:
        """Add a function of one operand."""
        self.define("unary", int(kind), ffi.new("unary_parameters_t *", (first, second)), source, target, 0)

    def binary(self, kind: int, first: int, second: int, target: int) -> None:
        """Add a function of two operands."""
        limits = ffi.new("binary_parameters_t *", (-INFINITY, INFINITY))
        self.define("binary", kind, limits, first, second, target, 0)

    def reshape(self, source: int, target: int, shape: Shape) -> None:
        """Add a change of sizes that moves nothing."""
        self.define("static_reshape", len(shape), list(shape), source, target, 0)

    def transpose(self, source: int, target: int, axes: Order) -> None:
        """Add a transpose of what is stored."""
        self.define("static_transpose", len(axes), list(axes), source, target, 0)

    def watch(self, number: int) -> None:
        """Let a run be declined if a value contains NaN or infinity, which its reader would lose."""
        if not self._watches or number in self._watched:
            return
        self._watched.add(number)
        rank = len(self._sizes[number])
        every, total = self.between((1,) * rank), self.between((1,))
        axes = list(range(rank))
        self.define("static_reduce_v2", Reduction.SUM, rank, axes, number, every, int(Flag.KEEP_AXES))
        self.subgraph.define("static_reshape", 1, [1], every, total, 0)
        self._flags.append(total)

    # A region

    def describe(self) -> bool:
        """Describe all nodes, and write what is still to be written.

        Returns:
            Whether the flag is written, behind the outputs.
        """
        self.add(self.graph)
        for name, external in list(self._external.items()):
            shape = self.shapes[name]
            target = self._noted(self.subgraph.output(external, shape), shape)
            forms = self._forms[name]
            order = plain(len(shape))
            if order in forms:
                self.define("copy", forms[order], target, 0)
            else:
                self._transposed(forms, order, shape, target)
        if not self._flags:
            return False
        flag = self.subgraph.output(self._flag_number, (1,))
        total, *others = self._flags
        for number in others[:-1]:
            sum_of_both = self.between((1,))
            self.binary(ADD, total, number, sum_of_both)
            total = sum_of_both
        if others:
            self.binary(ADD, total, others[-1], flag)
        else:
            self.define("copy", total, flag, 0)
        return True

    def add(self, graph: KeptGraph) -> None:
        """Describe the nodes of a graph, fused ones by their parts."""
        outer, self.graph = self.graph, graph
        for node in graph.nodes:
            inner = graph.function(node)
            if inner is not None:
                self._add_function(node, inner)
                continue
            operator = operator_of(node.domain, node.op_type)
            assert operator is not None
            operator.lower(self, node)
        self.graph = outer

    def _add_function(self, node: NodeSpec, inner: KeptGraph) -> None:
        # The values of a body have names of their own, which may be those of the region.
        body = node.body
        assert body is not None
        outer = self.shapes, self._forms, self._constants, self._external, self._sources
        given = [
            (own, value.name) for own, value in zip(body.inputs, node.inputs, strict=False) if own and value is not None
        ]
        made = [
            (own, value.name)
            for own, value in zip(body.outputs, node.outputs, strict=False)
            if own and value is not None
        ]
        self.shapes = {own: outer[0][name] for own, name in given if name in outer[0]}
        self._forms = {own: outer[1].setdefault(name, {}) for own, name in given}
        self._constants = {}
        self._external = {own: outer[3][name] for own, name in made if name in outer[3]}
        self._sources = {own: outer[4][name] for own, name in given if name in outer[4]}
        self.add(inner)
        for own, name in made:
            outer[0][name], outer[1][name] = self.shapes[own], self._forms[own]
            if own not in self._external:
                outer[3].pop(name, None)
        self.shapes, self._forms, self._constants, self._external, self._sources = outer

    def _name(self, values: Sequence[ValueSpec | None], array: Array, form: str) -> None:
        sources = [self._sources.get(value.name) for value in values if value is not None]
        keys = [source.key for source in sources if source is not None]
        if len(keys) == len(sources):
            self._weights.name(array, f"{' '.join(keys)} {form}")

    def _noted(self, number: int, shape: Sequence[int]) -> int:
        self._sizes[number] = tuple(shape)
        return number

    def _reordered(self, name: str, order: Order) -> int:
        shape = self.shapes[name]
        if order == plain(len(shape)) and name in self._external:
            target = self._noted(self.subgraph.output(self._external.pop(name), shape), shape)
        else:
            target = self.between(tuple(shape[axis] for axis in order))
        self._transposed(self._forms[name], order, shape, target)
        return target

    def _transposed(self, forms: Mapping[Order, int], order: Order, shape: Shape, target: int) -> None:
        there, source = next(iter(forms.items()))
        if [axis for axis in there if shape[axis] != 1] == [axis for axis in order if shape[axis] != 1]:
            self.reshape(source, target, tuple(shape[axis] for axis in order))
        else:
            self.transpose(source, target, tuple(there.index(axis) for axis in order))
