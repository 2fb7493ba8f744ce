"""Functions of one quantised number: DequantizeLinear, the function, QuantizeLinear become one look-up.

Only functions that the quantised operator of com.microsoft computes faster than the three nodes do on plain arrays:
with 256 possible inputs it is a table. Sums, products and convolutions stay in floating point, where they are as fast.
"""

from __future__ import annotations

from ort_py.contracts import Match, NodeTemplate, Op, TransformContext, Var
from ort_py.dtypes import DataType
from ort_py.transforms.fusion import CONTRIB, Fusion
from ort_py.transforms.quantization.quantized_movement import parameters_of

_FUSED = {"LeakyRelu": "QLinearLeakyRelu", "Sigmoid": "QLinearSigmoid"}


class FuseQuantizedActivation(Fusion):
    """DequantizeLinear, Sigmoid or LeakyRelu, QuantizeLinear: one operator of com.microsoft."""

    name = "QDQActivationFusion"

    patterns = (
        Op(
            "QuantizeLinear",
            Op(
                tuple(_FUSED),
                Op("DequantizeLinear", "x", "x_scale", Var("x_zero", optional=True), name="read"),
                name="function",
            ),
            "scale",
            Var("zero", optional=True),
        ),
    )

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate | str:
        read, function = match.node("read"), match.node("function")
        assert read is not None
        assert function is not None
        kinds = []
        for node in (read, match.anchor):
            found = parameters_of(match.graph, node)
            if isinstance(found, str):
                return found
            kinds.append(found[2])
        if kinds[0] != kinds[1] or kinds[0] not in (DataType.UINT8, DataType.INT8):
            return f"it goes from {kinds[0].name.lower()} to {kinds[1].name.lower()}: tables are for one type of 8 bits"
        inputs = [match.name(name) for name in ("x", "x_scale", "x_zero", "scale", "zero")]
        while not inputs[-1]:
            inputs.pop()
        return NodeTemplate(
            _FUSED[function.op_type], tuple(inputs), (match.result,), dict(function.attributes), CONTRIB
        )
