"""Describes a region to XNNPACK, node by node, for inputs of given shapes.

A value of the model may exist in several *orders* of its axes at the same time: XNNPACK computes convolutions and
pooling with the channels last, other nodes take the order that is there, and what needs ONNX's own order gets a
transpose, once. So transposes stand at the border of a region and around the few nodes that need them. Sizes are
computed here, from those of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ort_py.contracts import RegionWeight, ValueSpec, check_time
from ort_py.dtypes import DataType
from ort_py.errors import EPFail
from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.constants import ADD, INFINITY, Flag, Reduction, Unary
from ort_py_xnnpack.binding.memory import Array, padded
from ort_py_xnnpack.binding.packing import PackedWeights
from ort_py_xnnpack.binding.subgraph import Subgraph
from ort_py_xnnpack.execution.plan import Plan
from ort_py_xnnpack.graph.grids import BYTES, Grid
from ort_py_xnnpack.graph.widening import is_half
from ort_py_xnnpack.operators import lower_integers, operator_of
from ort_py_xnnpack.operators.bounds import UNBOUNDED, bound_of, is_counted
from ort_py_xnnpack.operators.integers import Weights

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
        plan: The region.
        subgraph: Its description.
        weights: The packed weights.
        sources: The region's constants by name.
        inputs: Each external input and its shape, in order.
        outputs: The outputs, whose external numbers follow.
        watches: Whether runs are declined that might lose NaN.

    Attributes:
        shapes: Sizes of each value, in ONNX's order.
        kept: Constants that are read in each run, and have to stay where they are.
        follows: Whether the description fits inputs of other sizes too, of which only the last one is the same.
    """

    def __init__(
        self,
        plan: Plan,
        subgraph: Subgraph,
        weights: PackedWeights,
        sources: Mapping[str, RegionWeight],
        inputs: Sequence[tuple[ValueSpec, Shape]],
        outputs: Sequence[ValueSpec],
        *,
        watches: bool = True,
    ) -> None:
        self._watches = watches
        self.follows = True
        self._plan = plan
        self.graph = plan.graph
        self.subgraph = subgraph
        self._weights = weights
        self._sources = sources
        self._constants: dict[str, Array] = {}
        self.kept: list[Array] = []
        self._forms: dict[str, dict[Order, int]] = {}
        self.shapes: dict[str, Shape] = {}
        self._external = {value.name: len(inputs) + number for number, value in enumerate(outputs)}
        self._outputs = {value.name: value for value in outputs}
        self._flags: list[int] = []
        self._watched: set[int] = set()
        self._rounded: dict[int, int] = {}
        self._flag_number = len(inputs) + len(outputs)
        self._sizes: dict[int, Shape] = {}
        self._grids: dict[int, Grid] = {}
        self._halves: set[int] = set()
        self._is_half = False
        self._given: dict[str, Grid] = {}
        self._integers: dict[str, ValueSpec] = {}
        self._bounds: dict[str, float] = {}
        self._is_bounded = False
        for number, (value, shape) in enumerate(inputs):
            self.shapes[value.name] = shape
            self._forms[value.name] = {plain(len(shape)): self._input(number, value, shape)}

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
        known = [forms for value in values if value is not None and (forms := self._known_forms(value.name))]
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
                forms[wanted] = self.number(self.constant(value).transpose(wanted), self.grid_of(value))
            elif not forms and name in self._integers:
                self._widen(name, wanted)
        if wanted not in forms:
            forms[wanted] = self._reordered(name, wanted)
        return forms[wanted]

    def number(self, array: Array, grid: Grid | None = None) -> int:
        """A constant that is read in each run: numbers of float16 or float32, or integers of a grid."""
        half = array.dtype == np.float16
        copy = padded(np.asarray(array, array.dtype if half else np.float32) if grid is None else _signed(array))
        self.kept.append(copy)
        return self._noted(self.subgraph.constant(copy, _pair(grid)), array.shape, grid, half=half)

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

    def channels(self, held: Weights, form: str, make: Callable[[Array], Array], axis: int) -> tuple[int, int]:
        """Integer weights with a scale for each output, and what is added to their products.

        Args:
            held: The weights.
            form: Name of their layout.
            make: Brings them into it.
            axis: The axis of the layout along which the outputs lie.
        """
        numbers, bias = padded(make(held.numbers)), padded(held.bias)
        name = f"{held.form} {form} {numbers.shape}"
        self._name((held.value,), numbers, name)
        self._name((held.value, held.added), bias, f"bias of {name}")
        return self.subgraph.channels(numbers, held.scales, axis), self.subgraph.channels(bias, held.bias_scales)

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
        found = self._target(name, chosen, stored, self.grid_of(value), half=is_half(value))
        self._forms.setdefault(name, {})[chosen] = found
        return found

    def wrote(self, value: ValueSpec | None, shape: Shape, number: int) -> None:
        """Note that a value of the model is one that was made between, in ONNX's order."""
        assert value is not None
        self.shapes[value.name] = shape
        self._forms.setdefault(value.name, {})[plain(len(shape))] = number

    def between(self, shape: Shape, grid: Grid | None = None, *, half: bool | None = None) -> int:
        """A value that no node of the model writes.

        Args:
            shape: Its sizes.
            grid: That of integers; floating-point numbers without.
            half: Whether these are of float16; those of the node that is described without.
        """
        narrow = grid is None and (self._is_half if half is None else half)
        return self._noted(self.subgraph.value(shape, grid=_pair(grid), half=narrow), shape, grid, half=narrow)

    def grid(self, number: int) -> Grid | None:
        """The grid of a value of XNNPACK's; None for float32."""
        return self._grids.get(number)

    def grid_of(self, value: ValueSpec | None) -> Grid | None:
        """The grid of a value of the model; None for float32."""
        assert value is not None
        found = self._given.get(value.name)
        return self._plan.grids.of(value) if found is None else found

    def gives(self, value: ValueSpec, grid: Grid) -> None:
        """Say which grid a value has that is not in the model."""
        self._given[value.name] = grid

    def stands_for(self, value: ValueSpec | None, integers: ValueSpec | None) -> None:
        """Let a value be the numbers that integers stand for, which are found where they are read."""
        assert value is not None
        assert integers is not None
        self.shapes[value.name] = self.shapes[integers.name]
        self._integers[value.name] = integers

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
        if not self._watches or self._is_bounded or number in self._watched or number in self._grids:
            return
        self._watched.add(number)
        rank = len(self._sizes[number])
        narrow = number in self._halves
        every, total = self.between((1,) * rank, half=narrow), self.between((1,), half=False)
        axes = list(range(rank))
        # A sum of numbers of float16 might be too large for the type, their mean is not.
        kind = Reduction.MEAN if narrow else Reduction.SUM
        self.define("static_reduce_v2", kind, rank, axes, number, every, int(Flag.KEEP_AXES))
        if narrow:
            wide = self.between((1,) * rank, half=False)
            self.unary(Unary.CONVERT, every, wide)
            every = wide
        self.subgraph.define("static_reshape", 1, [1], every, total, 0)
        self._flags.append(total)

    # A region

    def describe(self) -> bool:
        """Describe all nodes, and write what is still to be written.

        Returns:
            Whether the flag is written, behind the outputs.
        """
        self._add_nodes()
        for name, external in list(self._external.items()):
            value = self._outputs[name]
            # What is read in ONNX's order may be the external value itself.
            number = self.read(value)
            if name not in self._external:
                continue
            shape, grid = self.shape(value), self.grid_of(value)
            if value.data_type is DataType.UINT8 and grid is not None:
                target = self._noted(self.subgraph.output(external, shape, _unsigned(grid), unsigned=True), shape)
                self.unary(Unary.CONVERT, number, target)
            else:
                half = is_half(value)
                made = self.subgraph.output(external, shape, _pair(grid), half=half)
                target = self._noted(made, shape, grid, half=half)
                self.define("copy", number, target, 0)
            self.shapes.setdefault(name, shape)
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

    def _add_nodes(self) -> None:
        """Describe the nodes, those that compute with integers alone by what they stand for."""
        for place, node in enumerate(self.graph.nodes):
            check_time()
            if place in self._plan.gone:
                continue
            found = self._plan.integers.get(place)
            if found is not None:
                lower_integers(self, found)
                continue
            operator = operator_of(node.domain, node.op_type)
            assert operator is not None
            counted = [value for value in node.inputs if value is not None and is_counted(value)]
            self._is_bounded = all(self._bound(value) < UNBOUNDED for value in counted)
            bound = bound_of(node, self._bound) if self._is_bounded else UNBOUNDED
            self._is_half = any(map(is_half, node.outputs))
            operator.lower(self, node)
            self._is_half = False
            for value in node.outputs:
                if value is not None:
                    self._bounds[value.name] = bound
        self._is_bounded = False

    def _bound(self, value: ValueSpec) -> float:
        """A number that no magnitude of a value exceeds; infinity where there is none."""
        found = self._bounds.get(value.name)
        if found is None and value.data_type in BYTES:
            found = 256.0
        if found is None and value.data_type is DataType.FLOAT and self.is_constant(value):
            found = self._bounds[value.name] = float(np.abs(self.constant(value)).max(initial=0))
        return UNBOUNDED if found is None or not found < UNBOUNDED else found

    def _input(self, number: int, value: ValueSpec, shape: Shape) -> int:
        grid = self.grid_of(value)
        if value.data_type is not DataType.UINT8 or grid is None:
            half = is_half(value)
            return self._noted(self.subgraph.input(number, shape, _pair(grid), half=half), shape, grid, half=half)
        given = self._noted(self.subgraph.input(number, shape, _unsigned(grid), unsigned=True), shape)
        signed = self.between(shape, grid)
        self.unary(Unary.CONVERT, given, signed)
        return signed

    def _target(self, name: str, order: Order, stored: Shape, grid: Grid | None, *, half: bool = False) -> int:
        """A value to write: the external one of a name, if that can be written directly."""
        value = self._outputs.get(name)
        direct = value is not None and value.data_type is not DataType.UINT8 and order == plain(len(stored))
        if not direct or name not in self._external:
            return self.between(stored, grid, half=half)
        made = self.subgraph.output(self._external.pop(name), stored, _pair(grid), half=half)
        return self._noted(made, stored, grid, half=half)

    def _known_forms(self, name: str) -> dict[Order, int]:
        """The forms of a value, or of the integers that stand for it."""
        found = self._forms.get(name)
        source = None if found else self._integers.get(name)
        return (found or {}) if source is None else self._forms.get(source.name, {})

    def _widen(self, name: str, order: Order) -> None:
        """Find the numbers that integers stand for, in an order if it is there."""
        known = self._forms[self._integers[name].name]
        there = order if order in known else next(iter(known))
        stored = self._sizes[known[there]]
        target = self._target(name, there, stored, None)
        self.unary(Unary.CONVERT, known[there], target)
        self._forms.setdefault(name, {})[there] = target

    def _name(self, values: Sequence[ValueSpec | None], array: Array, form: str) -> None:
        keys = [self._key(value) for value in values if value is not None]
        if all(keys):
            self._weights.name(array, f"{' '.join(keys)} {form}")

    def _key(self, value: ValueSpec) -> str:
        """A name that all sessions have for a constant; empty where there is none."""
        source = self._sources.get(value.name)
        if source is not None:
            return source.key
        factors = self.graph.scales.get(value.name)
        if factors is not None:
            keys = [self._key(one) for one in factors]
            return " times ".join(keys) if all(keys) else ""
        narrow = self.graph.widened.get(value.name)
        if narrow is not None:
            key = self._key(narrow)
            return f"float32 of {key}" if key else ""
        node = self.graph.dequantiser(value.name)
        if node is None:
            return ""
        keys = [self._key(one) for one in node.inputs if one is not None]
        return f"dequantised {sorted(node.attributes.items())} {' '.join(keys)}" if all(keys) else ""

    def _noted(self, number: int, shape: Sequence[int], grid: Grid | None = None, *, half: bool = False) -> int:
        self._sizes[number] = tuple(shape)
        if half:
            self._halves.add(number)
        if grid is not None:
            self._grids[number] = grid
        return number

    def _reordered(self, name: str, order: Order) -> int:
        shape = self.shapes[name]
        forms = self._forms[name]
        source = next(iter(forms.values()))
        stored = tuple(shape[axis] for axis in order)
        target = self._target(name, order, stored, self._grids.get(source), half=source in self._halves)
        self._transposed(forms, order, shape, target)
        return target

    def _transposed(self, forms: Mapping[Order, int], order: Order, shape: Shape, target: int) -> None:
        there, source = next(iter(forms.items()))
        if [axis for axis in there if shape[axis] != 1] == [axis for axis in order if shape[axis] != 1]:
            self.reshape(source, target, tuple(shape[axis] for axis in order))
        else:
            self.transpose(source, target, tuple(there.index(axis) for axis in order))


def _pair(grid: Grid | None) -> tuple[float, int] | None:
    return None if grid is None else (grid.scale, grid.zero)


def _unsigned(grid: Grid) -> tuple[float, int]:
    return grid.scale, grid.zero + 128


def _signed(array: Array) -> Array:
    """Bytes with a sign."""
    return (array ^ np.uint8(128)).view(np.int8) if array.dtype == np.uint8 else array
