"""LSTM, GRU and RNN: one primitive a layer, in its plain layouts; other orders of dimensions are views of these."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ort_py_onednn.binding.constants import Argument, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Primitive, Unimplemented
from ort_py_onednn.binding.recurrent import Cell, Direction, RecurrentArgument, recurrent
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["recurrent_layer"]

_DIRECTIONS = {"forward": Direction.FORWARD, "reverse": Direction.REVERSE, "bidirectional": Direction.BOTH}
_FUNCTIONS = {
    "Relu": Eltwise.RELU,
    "LeakyRelu": Eltwise.RELU,
    "Sigmoid": Eltwise.LOGISTIC,
    "Tanh": Eltwise.TANH,
}
_OWN_BLOCKS = (3, 3)
"""Version from which primitives for AVX2 choose the blocks of their weights by the batch. They accept other blocks when
they are made, and fail when they run."""


def recurrent_layer(planner: Planner, operation: Operation) -> None:
    """ONNX LSTM, GRU and RNN of whole sequences; see `graph.recurrent` for the inputs."""
    source, weights, states, bias = (planner.value(name) for name in operation.inputs[:4])
    batch_first = bool(operation.attributes.get("layout", 0))
    source = _in_rows(planner, _permuted(planner, source, (1, 0, 2)) if batch_first else source)
    steps, batch, _ = source.dims
    directions, _, hidden, _ = states.shape
    values = {Argument.SRC: source, Argument.BIAS: _ranked(planner, bias)}
    weights, states = _by_gates(weights), _by_gates(states)
    state = Desc.plain((1, directions, batch, hidden))
    for code, name in zip(
        (RecurrentArgument.SRC_STATE, RecurrentArgument.SRC_CELL), operation.inputs[4:6], strict=True
    ):
        if name:
            values[code] = _state(planner, planner.value(name), batch_first)
        elif operation.kind == "LSTM" and any(operation.inputs[4:6]):
            values[code] = planner.fixed(np.zeros(state.dims, np.float32))  # oneDNN takes both states or none
    if operation.inputs[6]:
        values[RecurrentArgument.WEIGHTS_PEEPHOLE] = _ranked(planner, planner.value(operation.inputs[6]))
    results = {Argument.DST: planner.new(Desc.plain((steps, batch, directions * hidden)))}
    names = (*operation.outputs, "", "")[:3]
    if names[1] or names[2]:
        results[RecurrentArgument.DST_STATE] = planner.new(state)
        if operation.kind == "LSTM":
            results[RecurrentArgument.DST_CELL] = planner.new(state)
    descs = {code: value.desc for code, value in (values | results).items()}
    primitive = _made(planner, operation, descs, weights, states, batch)
    count = planner.count
    for code, value in ((Argument.WEIGHTS, weights), (RecurrentArgument.WEIGHTS_STATE, states)):
        values[code] = planner.in_layout(value, primitive.arguments[code])
    planner.count = count
    planner.emit(primitive, values | results)
    if names[0]:
        planner.bind(names[0], _sequence(planner, results[Argument.DST], directions, batch_first))
    for name, code in zip(names[1:], (RecurrentArgument.DST_STATE, RecurrentArgument.DST_CELL), strict=True):
        if name:
            found = results[code]
            last = planner.reshaped(found, found.dims[1:])
            planner.bind(name, _permuted(planner, last, (1, 0, 2)) if batch_first else last)


def _made(
    planner: Planner, operation: Operation, descs: dict[int, Desc], weights: Value, states: Value, rows: int
) -> Primitive:
    """The primitive; its weights as they are packed already, where that is as good."""
    direction = _DIRECTIONS[operation.attributes.get("direction", "forward")]
    pairs: list[tuple[Desc, Desc]] = [(Desc.any(weights.dims), Desc.any(states.dims))]
    packed = [value.weight.first_layout(value.dims) for value in (weights, states) if value.weight is not None]
    if planner.library.version >= _OWN_BLOCKS:
        packed = []
    if len(packed) == 2 and packed[0] is not None and packed[1] is not None:
        pairs.insert(0, (packed[0], packed[1]))
    for first, second in pairs:
        given = {**descs, Argument.WEIGHTS: first, RecurrentArgument.WEIGHTS_STATE: second}
        work = float(rows) * math.prod(states.dims)  # of one step, at whose end threads wait for each other
        try:
            return planner.make_heavy(lambda: recurrent(_cell(operation), direction, [*given.items()]), work)  # noqa: B023 - at once
        except Unimplemented:
            continue
    raise Unimplemented(f"{operation.kind} of {rows} rows with weights of {weights.dims} and {states.dims}")


def _cell(operation: Operation) -> Cell:
    attributes = operation.attributes
    if operation.kind == "LSTM":
        return Cell("lstm")
    if operation.kind == "GRU":
        return Cell("lbr_gru" if attributes.get("linear_before_reset", 0) else "gru")
    name = (attributes.get("activations") or ("Tanh",))[0]
    alphas: Sequence[float] = attributes.get("activation_alpha") or (0.01,)
    return Cell("vanilla_rnn", _FUNCTIONS[name], alphas[0] if name == "LeakyRelu" else 0.0)


def _by_gates(value: Value) -> Value:
    """Weights (directions, gates, hidden, inputs) seen as (1, directions, inputs, gates, hidden)."""
    directions, gates, hidden, inputs = value.shape
    whole = gates * hidden * inputs
    desc = Desc.strided((1, directions, inputs, gates, hidden), (directions * whole, whole, 1, hidden * inputs, inputs))
    return Value(desc, None, desc.dims, value.weight)


def _ranked(planner: Planner, value: Value) -> Value:
    """With a leading 1, for the one layer."""
    return planner.reshaped(value, (1, *value.dims))


def _permuted(planner: Planner, value: Value, order: Sequence[int]) -> Value:
    desc = value.desc.permuted(order)
    if desc is None:
        value = planner.plain(value)
        desc = value.desc.permuted(order)
        assert desc is not None, "strides can always be exchanged"
    return planner.view(value, desc, tuple(value.shape[place] for place in order))


def _in_rows(planner: Planner, value: Value) -> Value:
    """A C-contiguous value with the strides of such an array, those of dimensions of 1 included.

    oneDNN's recurrent primitives take the length of a row from the stride of the batch, which may be anything where the
    batch is 1. Where it is shorter than a row, they have no kernel and end in a segmentation fault.
    """
    plain = planner.plain(value)
    return planner.view(plain, Desc.plain(plain.dims, plain.dtype), plain.shape)


def _state(planner: Planner, value: Value, batch_first: bool) -> Value:
    if batch_first:
        value = _permuted(planner, value, (1, 0, 2))
    return _ranked(planner, _in_rows(planner, value))


def _sequence(planner: Planner, found: Value, directions: int, batch_first: bool) -> Value:
    """(time, batch, directions · hidden) as ONNX has it: directions before the batch, or all behind it."""
    steps, batch, channels = found.dims
    value = planner.reshaped(found, (steps, batch, directions, channels // directions))
    return _permuted(planner, value, (1, 0, 2, 3) if batch_first else (0, 2, 1, 3))
