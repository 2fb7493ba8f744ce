"""com.microsoft.DynamicQuantizeLSTM: its constants in the form in which its steps read them, made when a region is
compiled.

Logistic functions are ``(tanh(x / 2) + 1) / 2``, so that one tanh serves all gates: the halves are in the scales and
the bias, exactly. Weights become int8; what is left of their zero points is a number a direction. Comes before
`lowering.quantized_recurrent`, which finds in an operation: inputs (integers of the sequence, their scale and zero
point, states h and c, constants), None where absent; attributes ``reverse``, whether each direction runs backwards,
``zeros`` and ``zeros of the state``, the zero points of each piece of the weights, and by the names of `PARTS` the
names of the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_onednn.graph.integers import Array, Numbers, signed
from ort_py_onednn.graph.operation import Operation

__all__ = ["GATES", "PARTS", "layer_constants", "quantized_recurrent"]

GATES = 4
"""i, o, f and the candidate; the first three are logistic."""

PARTS = ("weights", "scales", "bias", "weights of the state", "scales of the state", "sums of the state")
"""Constants: int8 (directions, inputs, 4 · hidden), their scales and the bias float32 (directions, 4 · hidden); int8
(directions, hidden, 4 · hidden), their scales, and their columns' sums less zero points, negative. In one piece, or in
one a direction: what belongs to the product of the sequence, and weights of the state with different zero points."""

_INPUT, _STATE = (1, 8, 9), (2, 10, 11)
"""Places of weights, scales and zero points."""

_HALVES = np.array([[0.5], [0.5], [0.5], [1.0]], np.float32)

Constant = Callable[[str], Array | None]
Layer = tuple[Mapping[str, Array], tuple[tuple[int, ...], tuple[int, ...]]]


def layer_constants(names: list[str], constant: Constant) -> Layer | str:
    """The constants of a layer.

    Args:
        names: Of its inputs, ``""`` where one is absent.
        constant: The array of a name.

    Returns:
        Arrays by the names of `PARTS`, and the zero points of both kinds of weights, one a direction; the reason where
        they cannot be had.
    """
    parts: list[tuple[Array, Array, tuple[int, ...]]] = []
    for places in (_INPUT, _STATE):
        arrays = [constant(names[place]) if len(names) > place and names[place] else None for place in places]
        weights, scale, zero = arrays
        if weights is None or scale is None or scale.dtype != np.float32:
            return "weights or their scales are not constants"
        if weights.dtype not in {np.dtype(np.int8), np.dtype(np.uint8)} or weights.ndim != 3:
            return f"weights of {weights.dtype} with {weights.ndim} dimensions"
        if not weights.size:
            return "weights without elements"
        directions, _, columns = weights.shape
        if zero is None:
            zero = np.zeros(directions, weights.dtype)
        if {scale.size, zero.size} - {directions, directions * columns}:
            return "its scales or zero points do not fit its weights"
        found = _signed(weights, zero)
        if found is None:
            return "its weights minus the zero points of their columns need more than 8 bits"
        scales = np.broadcast_to(scale.reshape(directions, -1), (directions, columns))
        parts.append((found[0], _halved(scales), found[1]))
    (weights, scales, zeros), (states, state_scales, state_zeros) = parts
    bias = constant(names[3]) if names[3] else np.zeros((len(weights), 2 * weights.shape[2]), np.float32)
    if bias is None or weights.shape[2] != GATES * states.shape[1] or weights.shape[2] != states.shape[2]:
        return "weights and bias do not fit each other"
    if bias.size != 2 * len(weights) * weights.shape[2]:
        return "weights and bias do not fit each other"
    if states.shape[1] == 1:
        return "its state has a single number"
    both = bias.reshape(len(weights), 2, -1)
    sums = states.astype(np.float32).sum(axis=1)  # less what the zero point is worth: whole numbers, exact
    sums = np.asarray(state_zeros, np.float32)[:, None] * states.shape[1] - sums
    whole = (weights, scales, _halved(both[:, 0] + both[:, 1]), states, state_scales, sums)
    return dict(zip(PARTS, whole, strict=True)), (zeros, state_zeros)


def quantized_recurrent(node: NodeSpec, constant: Constant) -> tuple[list[Operation], Mapping[str, Array]]:
    """A node as operations, the first of which makes integers of the sequence, and the constants they read."""
    names = ["" if value is None else value.name for value in node.inputs]
    layer = layer_constants(names, constant)
    assert not isinstance(layer, str), "claimed with weights that fit"
    arrays, (zeros, state_zeros) = layer
    made = tuple(f"{node.name}:{part}" for part in ("integers", "scale", "zero"))
    # The products of both directions are one where one zero point serves both.
    together = len(set(state_zeros)) == 1
    whole = {*PARTS[4:], *PARTS[3:4][:together]}
    pieces = {part: [array] if part in whole else np.split(array, len(array)) for part, array in arrays.items()}
    held = {part: tuple(f"{node.name}:{part}:{place}" for place in range(len(cut))) for part, cut in pieces.items()}
    constants = {name: one for part, cut in pieces.items() for name, one in zip(held[part], cut, strict=True)}
    direction = node.attributes.get("direction", "forward")
    attributes = {
        "reverse": {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction],
        "zeros": zeros,
        "zeros of the state": state_zeros[:1] if together else state_zeros,
        **held,
    }
    states = [names[place] or None if place < len(names) else None for place in (5, 6)]
    outputs = tuple("" if value is None else value.name for value in node.outputs)
    layers = Operation("DynamicQuantizeLSTM", node.name, (*made, *states, *constants), outputs, attributes)
    return [Operation("DynamicQuantizeLinear", node.name, (names[0],), made), layers], constants


def _halved(vectors: Array) -> Array:
    """Vectors of columns (directions, 4 · hidden) for logistic functions as a tanh."""
    parts = vectors.reshape(len(vectors), GATES, -1) * _HALVES
    return np.asarray(parts, np.float32).reshape(vectors.shape)


def _signed(weights: Array, zero: Array) -> tuple[Array, tuple[int, ...]] | None:
    """Weights as int8 and a zero point for each direction."""
    ones = np.ones(1, np.float32)
    made = [
        signed(one, Numbers(ones, np.unique(point).astype(np.int64) if np.unique(point).size == 1 else point, 1))
        for one, point in zip(weights, zero.reshape(len(weights), -1).astype(np.int64), strict=True)
    ]
    kept = [one for one in made if one is not None]
    return None if len(kept) < len(made) else (np.stack([one for one, _ in kept]), tuple(zero for _, zero in kept))
