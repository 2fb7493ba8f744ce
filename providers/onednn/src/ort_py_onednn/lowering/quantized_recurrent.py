"""com.microsoft.DynamicQuantizeLSTM: the sequence in two products, then the steps in time as one.

A step finds the scale and zero point of the state, makes integers of it, multiplies them, and turns the sums into gates
and states. Where a step has one row, own code does all steps in one call (`binding.quantized_steps`). Elsewhere they
are ten primitives for both directions together, some of which own code takes the place of where there is AVX2, and the
second direction walks a copy of the sequence that is reversed.
With q integers of zero point z and w weights of columns whose negative sums are s, ``sum((q - z) · w)`` is
``sum(q · w) + z · s``: one primitive applies that, scales, the sequence's part and the functions of all gates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Algorithm, Argument, Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.dynamic_quantization import has_dynamic_quantization
from ort_py_onednn.binding.primitive import Function, Operand, PostOp, Primitive, Scaling
from ort_py_onednn.binding.quantized_step_code import TINY
from ort_py_onednn.binding.quantized_steps import QuantizedSteps, has_quantized_steps
from ort_py_onednn.binding.row_cells import RowCell, has_row_cell
from ort_py_onednn.execution.plan import Buffer
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.graph.quantized_recurrent import GATES
from ort_py_onednn.lowering.dynamic import quantized_rows
from ort_py_onednn.lowering.parts import copy_into, spread
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["quantized_lstm"]

_MOST = 255
_FEW = 2
"""Rows of a step up to which VNNI takes less time than AMX."""

_BYTES = 8
"""How many multiply-adds of bytes take as long as one of float32, as far as the threads of a step are concerned: they
wait for each other at its end."""


def quantized_lstm(planner: Planner, operation: Operation) -> None:
    """com.microsoft DynamicQuantizeLSTM; see `graph.quantized_recurrent` for the inputs."""
    source = planner.value(operation.inputs[0])
    (held,) = operation.attributes["sums of the state"]
    directions, columns = planner.value(held).dims
    steps, batch, _ = source.dims
    hidden = columns // GATES
    layer = _Layer(planner, operation, directions, batch, hidden)
    outputs = (*operation.outputs, "", "")[:3]
    weights = layer.weights_of_one_row()
    if weights is None:
        projected = layer.projected(source)
        state, cell = (layer.state(name) for name in operation.inputs[3:5])
        every = planner.new(Desc.plain((steps, directions, batch, hidden))) if outputs[0] else None
        layer.steps(steps, projected, state, cell, every)
    else:
        every, state, cell = layer.in_one_call(source, weights, operation.inputs[3:5])
    shape = (directions, batch, hidden)
    for name, value in zip(outputs, (every, state, cell), strict=True):
        if name and value is not None:
            dims = (steps, *shape) if value is every else shape
            planner.bind(name, planner.view(value, Desc.plain(dims), dims))


class _Layer:
    """One layer while it is lowered.

    Args:
        planner: The planner.
        operation: The layer.
        directions: One or two.
        batch: Rows of a step.
        hidden: Size of a state.
    """

    def __init__(self, planner: Planner, operation: Operation, directions: int, batch: int, hidden: int) -> None:
        self._planner = planner
        self._attributes = operation.attributes
        self._numbers = operation.inputs[1:3]
        self._directions, self._batch, self._hidden = directions, batch, hidden
        self._rows = directions * batch
        self._columns = GATES * hidden

    # All steps at once ------------------------------------------------------------------------------------------------

    def weights_of_one_row(self) -> Desc | None:
        """The layout of the weights of the state, where there is code for all steps that reads them as they lie."""
        (_, *others) = self._attributes["weights of the state"]
        if self._batch > 1 or others or any(self._attributes["zeros of the state"]):
            return None
        rows = self._directions, 1
        source, target = Desc.plain((*rows, self._hidden), Element.U8), Desc.plain((*rows, self._columns))
        weights = self._made_state_product(source, target, 0).arguments[Argument.WEIGHTS]
        return weights if has_quantized_steps(self._planner.library, weights) else None

    def in_one_call(self, source: Value, weights: Desc, states: Sequence[str | None]) -> tuple[Value, Value, Value]:
        """All states, the last one, and the last cell."""
        planner, steps = self._planner, source.dims[0]
        size = self._directions, self._hidden
        given = {Argument.MULTIPLE_SRC + place: self._product(place, source) for place in range(self._directions)}
        for code, state in zip((Argument.SRC_1, Argument.SRC_2), states, strict=True):
            before = planner.plain(planner.value(state)) if state else planner.fixed(np.zeros(size, np.float32))
            given[code] = planner.reshaped(before, size)
        for code, part in (
            (Argument.WEIGHTS_1, "weights of the state"),
            (Argument.scales(Argument.WEIGHTS_1), "scales of the state"),
            (Argument.BIAS, "sums of the state"),
        ):
            (name,) = self._attributes[part]
            given[code] = planner.value(name)
        given[Argument.WEIGHTS_1] = planner.in_layout(given[Argument.WEIGHTS_1], weights)
        own = QuantizedSteps(planner.library, weights, self._attributes["reverse"], steps)
        every, *last = (planner.new(own.arguments[code]) for code in (Argument.DST, Argument.DST_1, Argument.DST_2))
        planner.count = planner.threads if self._directions > 1 else 1
        planner.emit(own, given | {Argument.DST: every, Argument.DST_1: last[0], Argument.DST_2: last[1]})
        return every, last[0], last[1]

    # The sequence -----------------------------------------------------------------------------------------------------

    def projected(self, source: Value) -> Value:
        """The sequence times its weights, and the bias: (steps, directions, batch, 4 · hidden), steps as they come."""
        planner, (steps, _, _) = self._planner, source.dims
        made = [
            self._product(place, self._reversed(source) if reverse else source)
            for place, reverse in enumerate(self._attributes["reverse"])
        ]
        if len(made) == 1:
            return made[0]
        width = self._batch * self._columns
        found = planner.new(Desc.plain((steps, len(made), width)))
        with planner.repeating(steps) as moves:
            for place, one in enumerate(made):
                row = self._moving(moves, one, 0, width, width)
                planner.copy(row, self._moving(moves, found, place * width, width, len(made) * width))
        return found

    def _reversed(self, source: Value) -> Value:
        """The integers of a sequence from its end on."""
        planner, (steps, *row) = self._planner, source.dims
        size = math.prod(row)
        found = planner.new(source.desc)
        with planner.repeating(steps) as moves:
            last = self._moving(moves, source, (steps - 1) * size, size, -size)
            planner.copy(last, self._moving(moves, found, 0, size, size))
        return found

    def _moving(self, moves: dict[Buffer, int], value: Value, start: int, size: int, stride: int) -> Value:
        """Elements of a value that begin ``stride`` elements further on each time."""
        return self._planner.moving(moves, value, start, Desc.plain((size,), value.dtype), stride)

    def _product(self, place: int, source: Value) -> Value:
        planner, (steps, batch, depth) = self._planner, source.dims
        weights, scales, bias = (planner.value(self._attributes[part][place]) for part in ("weights", "scales", "bias"))
        zero = self._attributes["zeros"][place]
        scaling = Scaling(
            {Argument.SRC: (0, 1), Argument.WEIGHTS: (2, self._columns)},
            {Argument.SRC: (0, 1)} | ({Argument.WEIGHTS: (0, 1)} if zero else {}),
        )
        rows = steps * batch
        seen, target = Desc.plain((rows, depth), source.dtype), Desc.plain((rows, self._columns))
        held = Desc.any((depth, self._columns), Element.S8)
        posts = (Operand(Binary.ADD, Desc.plain((1, self._columns))),)
        work = float(rows * depth * self._columns)
        made = planner.make_heavy(lambda: primitives.matmul(seen, held, None, target, posts, scaling), work)
        count = planner.count
        weights = planner.reshaped(weights, (depth, self._columns))
        scale, point = (planner.value(name) for name in self._numbers)
        given = {
            Argument.SRC: planner.reshaped(source, seen.dims),
            Argument.WEIGHTS: planner.in_layout(weights, made.arguments[Argument.WEIGHTS]),
            Argument.DST: planner.new(target),
            Argument.scales(Argument.SRC): planner.view(scale, Desc.plain((1,))),
            Argument.scales(Argument.WEIGHTS): planner.reshaped(scales, (self._columns,)),
            Argument.zero_points(Argument.SRC): planner.in_layout(
                planner.reshaped(point, (1,)), Desc.plain((1,), Element.S32)
            ),
            Argument.post_op(0): bias,
        }
        if zero:
            given[Argument.zero_points(Argument.WEIGHTS)] = planner.fixed(np.array([zero], np.int32))
        planner.count = count
        planner.emit(made, given)
        return given[Argument.DST]

    # The steps --------------------------------------------------------------------------------------------------------

    def state(self, name: str | None) -> Value:
        """Buffer of a state, with its initial content: (directions, batch, hidden)."""
        planner = self._planner
        found = planner.carried(Desc.plain((self._directions, self._batch, self._hidden)))
        if name:
            copy_into(planner, planner.plain(planner.value(name)), found)
        else:
            planner.zero(found)
        return found

    def steps(self, count: int, projected: Value, state: Value, cell: Value, every: Value | None) -> None:
        """All steps: states go from one to the next, and into `every` where that is wanted."""
        planner = self._planner
        full = Desc.plain((1, self._directions, self._batch * self._columns))
        sums, scales = (self._spread(part) for part in ("sums of the state", "scales of the state"))
        # tanh of halves to the logistic function; the candidate's stays as it is.
        halves = np.repeat(np.array([0.5, 0.5, 0.5, 1.0], np.float32), self._hidden)
        factors, shifts = (
            planner.fixed(np.tile(one, self._rows).reshape(full.dims)) for one in (halves, np.float32(1) - halves)
        )
        with planner.repeating(count) as moves:
            scale, zero, integers = self._quantized(state)
            products = self._state_product(integers)
            width = math.prod(full.dims)
            row = planner.view(self._moving(moves, projected, 0, width, width), full)
            gates = self._combined(
                (sums, zero),
                [
                    (Binary.ADD, products),
                    (Binary.MUL, scale),
                    (Binary.MUL, scales),
                    (Binary.ADD, row),
                    Function(Eltwise.TANH),
                    (Binary.MUL, factors),
                    (Binary.ADD, shifts),
                ],
                planner.new(full),
            )
            self._cell(gates, state, cell)
            if every is not None:
                self._noted(count, state, every, moves)

    def _spread(self, part: str) -> Value:
        """A constant of columns for all rows: (1, directions, batch · 4 · hidden)."""
        planner = self._planner
        (name,) = self._attributes[part]
        value = planner.value(name)
        if self._batch > 1:
            value = planner.reshaped(value, (self._directions, 1, self._columns))
            value = spread(planner, value, (self._directions, self._batch, self._columns))
        return planner.reshaped(value, (1, self._directions, self._batch * self._columns))

    def _quantized(self, state: Value) -> tuple[Value, Value, Value]:
        """Scale, zero point and integers of a state, for each direction its own: (1, directions, 1 or batch · hidden).

        The range always holds 0.
        """
        planner = self._planner
        size = self._batch * self._hidden
        seen, one = Desc.plain((self._directions, size)), Desc.plain((self._directions, 1))
        rows, few = Desc.plain((1, self._directions, size)), Desc.plain((1, self._directions, 1))
        if has_dynamic_quantization(planner.library, size):
            found, numbers = quantized_rows(planner, planner.view(state, seen), TINY)
            scale, zero = (planner.piece(numbers, place * self._directions, few) for place in range(2))
            return scale, zero, planner.view(found, rows)
        highest, scale, zero = (planner.new(one) for _ in range(3))
        least = Function(Eltwise.CLIP_V2, -math.inf, 0.0)
        width = planner.fixed(np.full((1, 1), -_MOST, np.float32))
        lowered: Sequence[tuple[int, Value, Sequence[PostOp], Sequence[Value]]] = (
            (Algorithm.REDUCTION_MAX, highest, (Function(Eltwise.CLIP_V2, 0.0, math.inf),), ()),
            (
                Algorithm.REDUCTION_MIN,
                scale,
                (
                    least,
                    Operand(Binary.SUB, one),
                    Operand(Binary.DIV, width.desc),
                    Function(Eltwise.CLIP_V2, TINY, math.inf),
                ),
                (highest, width),
            ),
            (
                Algorithm.REDUCTION_MIN,
                zero,
                (least, Operand(Binary.DIV, one), linear(-1.0), Function(Eltwise.ROUND)),
                (scale,),
            ),
        )
        for algorithm, target, posts, operands in lowered:
            made = planner.make(lambda: primitives.reduction(algorithm, seen, one, posts), seen)  # noqa: B023 - at once
            places = [place for place, post in enumerate(posts) if isinstance(post, Operand)]
            given = {Argument.post_op(place): value for place, value in zip(places, operands, strict=True)}
            planner.emit(made, {Argument.SRC: planner.view(state, seen), Argument.DST: target, **given})
        found = planner.new(Desc.plain(rows.dims, Element.U8))
        scale, zero = planner.view(scale, few), planner.view(zero, few)
        self._combined(
            (planner.view(state, rows), scale), [Function(Eltwise.ROUND), (Binary.ADD, zero)], found, Binary.DIV
        )
        return scale, zero, found

    def _state_product(self, integers: Value) -> Value:
        """Sums of products with the weights of the state: (1, directions, batch · 4 · hidden)."""
        planner, batch = self._planner, self._batch
        found = planner.new(Desc.plain((1, self._directions, batch * self._columns)))
        names = self._attributes["weights of the state"]
        count = self._directions // len(names)
        source = Desc.plain((count, batch, self._hidden), Element.U8)
        target = Desc.plain((count, batch, self._columns))
        for place, name in enumerate(names):
            zero = self._attributes["zeros of the state"][place]
            weights = planner.value(name)
            made = self._made_state_product(source, target, zero)
            threads = planner.count
            given = {Argument.WEIGHTS: planner.in_layout(weights, made.arguments[Argument.WEIGHTS])}
            if zero:
                given[Argument.zero_points(Argument.WEIGHTS)] = planner.fixed(np.array([zero], np.int32))
            for code, value, desc in ((Argument.SRC, integers, source), (Argument.DST, found, target)):
                given[code] = planner.view(value, desc)
                if len(names) > 1:
                    given[code] = planner.piece(value, place * math.prod(desc.dims), desc)
            planner.count = threads
            planner.emit(made, given)
        return found

    def _made_state_product(self, source: Desc, target: Desc, zero: int) -> Primitive:
        planner, few = self._planner, self._batch <= _FEW
        held = Desc.any((source.dims[0], self._hidden, self._columns), Element.S8)
        scaling = Scaling({}, {Argument.WEIGHTS: (0, 1)} if zero else {})
        work = float(math.prod(target.dims) * self._hidden / _BYTES)
        return planner.make_heavy(
            lambda: primitives.matmul(source, held, None, target, (), scaling, few_rows=few), work
        )

    def _cell(self, gates: Value, state: Value, cell: Value) -> None:
        """The states from the gates (rows, 4 · hidden)."""
        planner, rows, hidden = self._planner, self._rows, self._hidden
        if has_row_cell(planner.library):
            shape = Desc.plain((rows, hidden))
            own = planner.make(lambda: RowCell(planner.library, rows, hidden), shape)
            cells, states = planner.view(cell, shape), planner.view(state, shape)
            read = {Argument.SRC: planner.view(gates, Desc.plain((rows, self._columns))), Argument.SRC_1: cells}
            planner.emit(own, {**read, Argument.DST: cells, Argument.DST_1: states})
            return
        flat = Desc.plain((1, rows * hidden))
        if rows > 1:  # gates one behind the other, each of all rows
            turned = planner.new(Desc.plain((GATES, rows, hidden)))
            seen = Desc.plain((rows, GATES, hidden))
            target = Desc.strided(seen.dims, (hidden, rows * hidden, 1))
            copy_into(planner, planner.view(gates, seen), Value(target, turned.buffer, seen.dims))
            gates = turned
        entry, out, kept, candidate = (planner.piece(gates, gate * rows * hidden, flat) for gate in range(GATES))
        state, cell = planner.view(state, flat), planner.view(cell, flat)
        new = self._combined((entry, candidate), [], planner.new(flat))
        self._combined((cell, kept), [(Binary.ADD, new), Function(Eltwise.TANH), (Binary.MUL, out)], state)
        self._combined((cell, kept), [(Binary.ADD, new)], cell)

    def _noted(self, count: int, state: Value, every: Value, moves: dict[Buffer, int]) -> None:
        """The state of each direction to its place among all."""
        planner = self._planner
        size = self._batch * self._hidden
        for place, reverse in enumerate(self._attributes["reverse"]):
            first = (count - 1 if reverse else 0) * self._directions + place
            stride = self._directions * size
            target = self._moving(moves, every, first * size, size, -stride if reverse else stride)
            planner.copy(planner.piece(state, place * size, Desc.plain((size,))), target)

    def _combined(
        self,
        operands: tuple[Value, Value],
        steps: Sequence[Function | tuple[int, Value]],
        target: Value,
        algorithm: int = Binary.MUL,
    ) -> Value:
        """A function of two values and what follows, written to a value: that may be the first of them."""
        planner = self._planner
        first, second = operands
        posts = tuple(step if isinstance(step, Function) else Operand(step[0], step[1].desc) for step in steps)
        made = planner.make(
            lambda: primitives.binary(algorithm, first.desc, second.desc, target.desc, posts), target.desc
        )
        given = {Argument.SRC: first, Argument.SRC_1: second, Argument.DST: target}
        given |= {
            Argument.post_op(place): step[1] for place, step in enumerate(steps) if not isinstance(step, Function)
        }
        planner.emit(made, given)
        return target
