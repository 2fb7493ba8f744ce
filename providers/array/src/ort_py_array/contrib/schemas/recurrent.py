"""Schema of DynamicQuantizeLSTM."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Dim, Shape
from ort_py_array.contrib.schemas.notation import dims, operator

__all__ = ["SCHEMAS"]


def _lstm_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    """Y is (seq, directions, batch, hidden); Y_h and Y_c are (directions, batch, hidden)."""
    data = dims(node, 0)
    sequence, batch = (data[0], data[1]) if data is not None and len(data) == 3 else (None, None)
    directions = 2 if node.attributes.get("direction", "forward") == "bidirectional" else 1
    hidden: Dim = node.attributes.get("hidden_size")
    state = (directions, batch, hidden)
    return (sequence, *state), state, state


SCHEMAS = [
    operator(
        "DynamicQuantizeLSTM",
        "X: T, W: T2, R: T2, B: T?, sequence_lens: T1?, initial_h: T?, initial_c: T?, P: T?, "
        "W_scale: T, W_zero_point: T2, R_scale: T, R_zero_point: T2",
        "Y: T?, Y_h: T?, Y_c: T?",
        attributes={
            "activation_alpha": tuple | None,
            "activation_beta": tuple | None,
            "activations": tuple | None,
            "clip": float | None,
            "direction": "forward",
            "hidden_size": int | None,
            "input_forget": 0,
        },
        shapes=_lstm_shapes,
        T="float",
        T1="int32",
        T2="int8 uint8",
    ),
]
