"""Schemas of the onnxruntime contrib operators (domain ``com.microsoft``) that `contrib` has kernels for.

ONNX does not define this domain, so a provider that runs its operators contributes their schemas too. Source:
onnxruntime's page ``docs/ContribOperators.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import FormalParameter, NodeSpec, OperatorSchema
from ort_py.dtypes import DataType, Dim, TensorType, ValueType

__all__ = ["SCHEMAS"]

_FLOAT = frozenset({"tensor(float)"})
_INDEX = frozenset({"tensor(int32)"})
_QUANTIZED = frozenset({"tensor(int8)", "tensor(uint8)"})


def _lstm_types(node: NodeSpec) -> Sequence[ValueType | None]:
    """Y is (seq, directions, batch, hidden); Y_h and Y_c are (directions, batch, hidden)."""
    data = node.inputs[0].shape if node.inputs[0] is not None else None
    sequence, batch = (data[0], data[1]) if data is not None and len(data) == 3 else (None, None)
    directions = 2 if node.attributes.get("direction", "forward") == "bidirectional" else 1
    hidden: Dim = node.attributes.get("hidden_size")
    state = (directions, batch, hidden)
    shapes = ((sequence, *state), state, state)
    return [
        TensorType(DataType.FLOAT, shape) if output is not None else None
        for output, shape in zip(node.outputs, shapes, strict=False)
    ]


SCHEMAS: list[OperatorSchema] = [
    OperatorSchema(
        op_type="DynamicQuantizeLSTM",
        domain="com.microsoft",
        since_version=1,
        inputs=(
            FormalParameter("X", "T"),
            FormalParameter("W", "T2"),
            FormalParameter("R", "T2"),
            FormalParameter("B", "T", optional=True),
            FormalParameter("sequence_lens", "T1", optional=True),
            FormalParameter("initial_h", "T", optional=True),
            FormalParameter("initial_c", "T", optional=True),
            FormalParameter("P", "T", optional=True),
            FormalParameter("W_scale", "T"),
            FormalParameter("W_zero_point", "T2"),
            FormalParameter("R_scale", "T"),
            FormalParameter("R_zero_point", "T2"),
        ),
        outputs=(
            FormalParameter("Y", "T", optional=True),
            FormalParameter("Y_h", "T", optional=True),
            FormalParameter("Y_c", "T", optional=True),
        ),
        attributes={
            "activation_alpha": (),
            "activation_beta": (),
            "activations": ("Sigmoid", "Tanh", "Tanh"),
            "clip": 0.0,
            "direction": "forward",
            "hidden_size": int,
            "input_forget": 0,
        },
        types={"T": _FLOAT, "T1": _INDEX, "T2": _QUANTIZED},
        infer=_lstm_types,
    ),
]
