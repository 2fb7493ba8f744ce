"""Conv with the sum and the activation behind it as one FusedConv.

The sum is with a tensor of the result's own shape, as in a residual block: FusedConv broadcasts nothing. Comes after
the folding of constants into filters and bias; knows no kernel.
"""

from __future__ import annotations

from ort_py.contracts import Const, Match, NodeSpec, NodeTemplate, Op, TransformContext, Var
from ort_py.dtypes import DataType
from ort_py.transforms.functions.activation_parameters import ACTIVATIONS, activation_parameters
from ort_py.transforms.fusion import CONTRIB, Fusion, dtype_refusal

__all__ = ["FuseConvActivation", "FuseConvAdd"]

_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE)


def _open(node: NodeSpec) -> bool | str:
    return "it has an activation already" if node.attributes.get("activation") else True


def _convolution(domain: str) -> Op:
    inputs = [Var("x"), Var("w"), Var("b", optional=True)]
    if domain:
        inputs.append(Var("z", optional=True))
    return Op("FusedConv" if domain else "Conv", *inputs, name="conv", domain=domain, where=_open)


class FuseConvAdd(Fusion):
    """``conv(x) + z`` with a `z` of the result's shape."""

    name = "ConvAddActivationFusion"
    patterns = (Op("Add", _convolution(""), Var("z")),)

    def check(self, match: Match) -> str:
        z, result = match["z"], match.anchor.outputs[0]
        if z.shape is None or None in z.shape or result is None or z.shape != _output_shape(match):
            return f"'{z.name}' is not known to have the shape of the convolution"
        return dtype_refusal(match["x"], _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        conv = match.node("conv")
        assert conv is not None
        inputs = tuple(match.name(name) for name in ("x", "w", "b", "z"))
        return NodeTemplate("FusedConv", inputs, (match.result,), conv.attributes, CONTRIB)


def _output_shape(match: Match) -> object:
    conv = match.node("conv")
    output = conv.outputs[0] if conv is not None else None
    return None if output is None else output.shape


class FuseConvActivation(Fusion):
    """An activation behind a Conv, or behind one that has a sum."""

    name = "ConvActivationFusion"
    patterns = tuple(
        Op(op_type, _convolution(domain), *([Const("low", optional=True), Const("high", optional=True)] * clips))
        for domain in ("", CONTRIB)
        for op_type, clips in ((name, name == "Clip") for name in sorted(ACTIVATIONS))
    )

    def check(self, match: Match) -> str:
        parameters = activation_parameters(match)
        return parameters if isinstance(parameters, str) else dtype_refusal(match["x"], _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        conv, parameters = match.node("conv"), activation_parameters(match)
        assert conv is not None
        assert not isinstance(parameters, str)
        added = {"activation": match.anchor.op_type}
        return NodeTemplate(
            "FusedConv",
            tuple(match.name(name) for name in ("x", "w", "b", "z")),
            (match.result,),
            {**conv.attributes, **added, **({"activation_params": parameters} if parameters else {})},
            CONTRIB,
        )
