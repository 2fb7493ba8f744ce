"""RNN, GRU and LSTM against onnxruntime."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import BF16, run, sample
from .runtime_oracle import agree_with_runtime

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 2


def _inputs(kind: str, directions: int, *absent: int, seed: int = 0) -> list[Any]:
    """X, W, R, B, sequence_lens, initial_h and, for LSTM, initial_c and P."""
    gates = GATES[kind]
    shapes: list[tuple[int, ...]] = [
        (STEPS, BATCH, INPUT),
        (directions, gates * HIDDEN, INPUT),
        (directions, gates * HIDDEN, HIDDEN),
        (directions, 2 * gates * HIDDEN),
        (),
        (directions, BATCH, HIDDEN),
        (directions, BATCH, HIDDEN),
        (directions, 3 * HIDDEN),
    ]
    values: list[Any] = [sample(shape, np.float32, seed + i, -1, 1) for i, shape in enumerate(shapes)]
    values[4] = np.array([5, 2, 3], np.int32)
    values = values[: 8 if kind == "LSTM" else 6]
    for index in absent:
        if index < len(values):
            values[index] = None
    while values[-1] is None:
        values.pop()
    return values


@pytest.mark.parametrize("absent", [(), (3,), (4,), (5, 6), (7,), (3, 4, 5, 6, 7)], ids=str)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_directions_and_optional_inputs(kind: str, direction: str, absent: tuple[int, ...]) -> None:
    """Every direction, with and without bias, lengths, initial states and peepholes."""
    inputs = _inputs(kind, 2 if direction == "bidirectional" else 1, *absent)
    outputs = 3 if kind == "LSTM" else 2
    agree_with_runtime(kind, inputs, opset=14, outputs=outputs, hidden_size=HIDDEN, direction=direction)


@pytest.mark.parametrize("opset", [7, 14])
@pytest.mark.parametrize("linear_before_reset", [0, 1])
def test_gru_resets_before_or_after_the_product(linear_before_reset: int, opset: int) -> None:
    attributes: dict[str, Any] = {"hidden_size": HIDDEN, "linear_before_reset": linear_before_reset}
    agree_with_runtime("GRU", _inputs("GRU", 1), opset=opset, outputs=2, **attributes)


def test_lstm_couples_input_and_forget_gates() -> None:
    """The forget gate is 1 - i."""
    agree_with_runtime("LSTM", _inputs("LSTM", 1, 7), opset=14, outputs=3, hidden_size=HIDDEN, input_forget=1)


@pytest.mark.parametrize("kind", GATES)
def test_clip_bounds_what_goes_into_activations(kind: str) -> None:
    """A small bound changes the result, as in onnxruntime."""
    outputs = 3 if kind == "LSTM" else 2
    agree_with_runtime(kind, _inputs(kind, 1), opset=14, outputs=outputs, hidden_size=HIDDEN, clip=0.2)


@pytest.mark.parametrize("name", ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "Softsign", "Softplus", "HardSigmoid"])
@pytest.mark.parametrize("kind", GATES)
def test_activations_by_name(kind: str, name: str) -> None:
    """Those whose defaults all runtimes share."""
    count = {"RNN": 1, "GRU": 2, "LSTM": 3}[kind]
    outputs = 3 if kind == "LSTM" else 2
    agree_with_runtime(
        kind, _inputs(kind, 1), opset=14, outputs=outputs, hidden_size=HIDDEN, activations=[name] * count
    )


@pytest.mark.parametrize("name", ["Affine", "ScaledTanh", "HardSigmoid"])
def test_activations_with_parameters(name: str) -> None:
    """alpha and beta are handed out in order, one an activation that has them."""
    attributes: dict[str, Any] = {"activations": [name, "Tanh"], "activation_alpha": [0.4], "activation_beta": [0.3]}
    agree_with_runtime("GRU", _inputs("GRU", 1), opset=14, outputs=2, hidden_size=HIDDEN, **attributes)


@pytest.mark.parametrize(("name", "alpha"), [("ThresholdedRelu", 0.1), ("Elu", 0.5), ("LeakyRelu", 0.2)])
def test_activations_with_one_parameter(name: str, alpha: float) -> None:
    attributes: dict[str, Any] = {"activations": [name], "activation_alpha": [alpha]}
    agree_with_runtime("RNN", _inputs("RNN", 1), opset=14, outputs=2, hidden_size=HIDDEN, **attributes)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_batch_first_is_the_same_transposed(kind: str, direction: str) -> None:
    """``layout`` 1; onnxruntime has only layout 0."""
    inputs = _inputs(kind, 2 if direction == "bidirectional" else 1)
    arguments: dict[str, Any] = {"opset": 14, "outputs": len(inputs) // 3 + 1, "hidden_size": HIDDEN}
    arguments["direction"] = direction
    y, *states = run(kind, inputs, **arguments)
    swapped = [np.swapaxes(v, 0, 1).copy() if i in (0, 5, 6) else v for i, v in enumerate(inputs)]
    transposed, *swapped_states = run(kind, swapped, layout=1, **arguments)
    np.testing.assert_allclose(transposed, y.transpose(2, 0, 1, 3), rtol=1e-6)
    for left, right in zip(swapped_states, states, strict=True):
        np.testing.assert_allclose(left, right.swapaxes(0, 1), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, BF16], ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_narrow_floats_are_rounded_once(kind: str, dtype: Any) -> None:
    """The float32 result of the same inputs, rounded."""
    inputs = [v if v.dtype == np.int32 else v.astype(dtype) for v in _inputs(kind, 1)]
    wide = [v if v.dtype == np.int32 else v.astype(np.float32) for v in inputs]
    outputs = 3 if kind == "LSTM" else 2
    actual = run(kind, inputs, opset=22, outputs=outputs, hidden_size=HIDDEN)
    for left, right in zip(actual, run(kind, wide, opset=22, outputs=outputs, hidden_size=HIDDEN), strict=True):
        np.testing.assert_array_equal(left, right.astype(dtype))


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_inputs_are_only_read(kind: str) -> None:
    """Steps that work in place do so in arrays of their own; constant weights included."""
    inputs = _inputs(kind, 2, 4, 7)
    before = [None if value is None else value.copy() for value in inputs]
    arguments: dict[str, Any] = {"opset": 14, "outputs": 3 if kind == "LSTM" else 2, "direction": "bidirectional"}
    first = run(kind, inputs, hidden_size=HIDDEN, **arguments)
    for left, right in zip(run(kind, inputs, hidden_size=HIDDEN, constants=(1, 2, 3), **arguments), first, strict=True):
        np.testing.assert_array_equal(left, right)
    for value, kept in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(value, kept)


@pytest.mark.parametrize("constants", [(), (1, 2, 3)], ids=["fed", "constant"])
@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (4, 1), (4, 3)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["GRU", "GRU, linear before reset", "LSTM"])
def test_standard_layers(kind: str, direction: str, steps: int, batch: int, constants: tuple[int, ...]) -> None:
    """Default activations, without lengths and peepholes: one state or many, with and without bias and states."""
    operator, _, linear = kind.partition(", ")
    attributes: dict[str, Any] = {"hidden_size": HIDDEN, "direction": direction}
    if linear:
        attributes["linear_before_reset"] = 1
    for absent in ((4, 7), (3, 4, 5, 6, 7)):
        inputs = _inputs(operator, 2 if direction == "bidirectional" else 1, *absent)
        inputs[0] = sample((steps, batch, INPUT), np.float32, 7, -1, 1)
        for state in (5, 6):
            if state < len(inputs):
                inputs[state] = np.ascontiguousarray(inputs[state][:, :batch])
        known = [index for index in constants if index < len(inputs) and inputs[index] is not None]
        outputs = 3 if operator == "LSTM" else 2
        agree_with_runtime(operator, inputs, opset=14, outputs=outputs, constants=known, **attributes)


@pytest.mark.parametrize("absent", [(4, 7), (7,)], ids=["standard", "lengths"])
@pytest.mark.parametrize(("steps", "batch"), [(0, 3), (4, 0)])
@pytest.mark.parametrize("kind", GATES)
def test_nothing_to_do(kind: str, steps: int, batch: int, absent: tuple[int, ...]) -> None:
    """Without steps the last states are the initial ones; without sequences everything is empty."""
    inputs = _inputs(kind, 2, *absent)
    inputs[0] = np.zeros((steps, batch, INPUT), np.float32)
    if len(inputs) > 4 and inputs[4] is not None:
        inputs[4] = np.zeros(batch, np.int32)
    for state in (5, 6):
        if state < len(inputs):
            inputs[state] = np.ascontiguousarray(inputs[state][:, :batch])
    arguments: dict[str, Any] = {"opset": 14, "hidden_size": HIDDEN, "direction": "bidirectional"}
    y, *states = run(kind, inputs, outputs=3 if kind == "LSTM" else 2, **arguments)
    assert y.shape == (steps, 2, batch, HIDDEN)
    for state, initial in zip(states, inputs[5:7], strict=True):
        np.testing.assert_array_equal(state, initial)


def test_constant_weights_that_do_not_fit_are_refused() -> None:
    """When the node is bound, which is before there is an input."""
    inputs = _inputs("LSTM", 1, 4, 7)
    inputs[1] = np.zeros((1, 7, INPUT), np.float32)
    with pytest.raises(InvalidArgument, match="W has 1 directions and 7 gate rows instead of 1 and 4 · 2"):
        run("LSTM", inputs, opset=14, outputs=3, constants=(1, 2, 3), hidden_size=HIDDEN)


@pytest.mark.parametrize("seed", range(12))
def test_random_layers(seed: int) -> None:
    """Kinds, directions and optional inputs drawn at random."""
    draw = random.Random(seed)
    kind, direction = draw.choice(list(GATES)), draw.choice(["forward", "reverse", "bidirectional"])
    absent = draw.sample(range(3, 8), draw.randint(0, 5))
    inputs = _inputs(kind, 2 if direction == "bidirectional" else 1, *absent, seed=seed)
    outputs = 3 if kind == "LSTM" else 2
    agree_with_runtime(kind, inputs, opset=14, outputs=outputs, hidden_size=HIDDEN, direction=direction)


@pytest.mark.parametrize(
    ("index", "shape", "text"),
    [
        (0, (STEPS, BATCH, 9), "X has 9 features, W is made for 4"),
        (0, (STEPS, BATCH), "X has shape [5, 3]; it needs rank 3"),
        (1, (2, 8, INPUT), "W has 2 directions and 8 gate rows instead of 1 and 4 · 2"),
        (2, (1, 8, 3), "R is made for 1 directions, hidden size 3"),
        (3, (1, 8), "B has shape [1, 8] instead of [1, 16]"),
        (4, (2,), "sequence_lens has shape [2] instead of [3]"),
        (5, (1, 2, HIDDEN), "initial_h has shape [1, 2, 2]"),
        (6, (1, BATCH, 7), "initial_c has shape [1, 3, 7]"),
        (7, (1, 5), "P has shape [1, 5]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(index: int, shape: tuple[int, ...], text: str) -> None:
    inputs = _inputs("LSTM", 1)
    inputs[index] = np.zeros(shape, inputs[index].dtype)
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("LSTM", inputs, opset=14, outputs=3, hidden_size=HIDDEN)


@pytest.mark.parametrize("length", [STEPS + 1, -1])
def test_lengths_outside_the_sequence_are_refused(length: int) -> None:
    """With the number and what is allowed; nothing and the whole sequence are."""
    inputs = _inputs("LSTM", 1)
    inputs[4] = np.array([0, STEPS, length], np.int32)
    with pytest.raises(InvalidArgument, match=rf"length {length}, but the input has 5 steps(.|\n)*in \[0, 5\]"):
        run("LSTM", inputs, opset=14, outputs=3, hidden_size=HIDDEN)


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"direction": "backward"}, "direction is 'backward'"),
        ({"activations": ["Tanh"]}, "LSTM with direction 'forward' needs 3"),
        ({"activations": ["Tanh", "Tanh", "Gelu"]}, "'Gelu' is not an activation function"),
    ],
)
def test_unknown_attributes_are_refused(attributes: dict[str, Any], text: str) -> None:
    """When the node is bound, with what is allowed."""
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("LSTM", _inputs("LSTM", 1), opset=14, outputs=3, hidden_size=HIDDEN, **attributes)
