"""Products quantised at run time, as onnxruntime's `quantize_dynamic` writes them, become one operator.

DynamicQuantizeLinear, MatMulInteger, Cast, Mul by the product of both scales, and perhaps Add of a bias: together
DynamicQuantizeMatMul, or MatMulIntegerToFloat where other products read the quantised input too. The integer product
stays exact; only the order of the two factors may change.
"""

from __future__ import annotations

from ort_py.contracts import Match, NodeTemplate, Op, TransformContext, ValueSpec, Var
from ort_py.dtypes import DataType
from ort_py.transforms.fusion import CONTRIB, Fusion


def _scaled(product: Op, scale: Op) -> Op:
    cast = Op("Cast", product, attributes={"to": int(DataType.FLOAT)})
    return Op("Mul", cast, scale)


def _quantized(output: int) -> Op:
    """An output of the node that quantises the first factor."""
    return Op("DynamicQuantizeLinear", "x", name="quantize", output=output)


def _columns(value: ValueSpec | None, b: ValueSpec) -> bool:
    """Return whether a parameter has one entry, or one per column of `b`."""
    if value is None or value.shape in ((), (1,)):
        return True
    return (
        value.shape is not None and b.shape is not None and value.shape == b.shape[-1:] and value.shape[0] is not None
    )


def _refusal(match: Match) -> str:
    b = match["b"]
    if b.data_type not in (DataType.INT8, DataType.UINT8) or b.shape is None or len(b.shape) < 2:
        return f"'{b.name}' is not a matrix of 8 bits whose columns are known"
    if not _columns(match.get("b_scale"), b) or not _columns(match.get("b_zero"), b):
        return "scale or zero point of the second factor is neither one number nor one per column"
    return ""


class FuseDynamicQuantizeMatMul(Fusion):
    """The input is quantised for this product only."""

    name = "DynamicQuantizeMatMulFusion"

    patterns = (
        _scaled(
            Op("MatMulInteger", _quantized(0), "b", _quantized(2), Var("b_zero", optional=True)),
            Op("Mul", _quantized(1), "b_scale"),
        ),
    )

    def check(self, match: Match) -> str:
        return _refusal(match)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        inputs = [match.name(name) for name in ("x", "b", "b_scale", "b_zero")]
        while not inputs[-1]:
            inputs.pop()
        return NodeTemplate("DynamicQuantizeMatMul", tuple(inputs), (match.result,), {}, CONTRIB)


class FuseMatMulIntegerToFloat(Fusion):
    """The quantised input is read by other products too, or was quantised elsewhere."""

    name = "MatMulIntegerToFloatFusion"

    patterns = (
        _scaled(
            Op("MatMulInteger", "a", "b", Var("a_zero", optional=True), Var("b_zero", optional=True)),
            Op("Mul", "a_scale", "b_scale"),
        ),
    )

    def check(self, match: Match) -> str:
        quantised = match.graph.producer(match["a"])
        if quantised is not None and quantised.op_type == "DynamicQuantizeLinear":
            scale = quantised.outputs[1]
            if scale is None or scale.name != match["a_scale"].name:
                return f"'{match['a_scale'].name}' is not the scale of '{match['a'].name}'"
        if match["a_scale"].shape not in ((), (1,)) or match["a_scale"].data_type is not DataType.FLOAT:
            return f"the scale of '{match['a'].name}' is not one float"
        zero = match.get("a_zero")
        if zero is not None and zero.shape not in ((), (1,)):
            return f"the zero point of '{match['a'].name}' is not one number"
        return _refusal(match)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        inputs = [match.name(name) for name in ("a", "b", "a_scale", "b_scale", "a_zero", "b_zero")]
        while not inputs[-1]:
            inputs.pop()
        return NodeTemplate("MatMulIntegerToFloat", tuple(inputs), (match.result,), {}, CONTRIB)


_BIAS = {"DynamicQuantizeMatMul": 4, "MatMulIntegerToFloat": 6}
"""Position of the bias among the operators' inputs."""


class FuseProductBias(Fusion):
    """A bias of the columns is added by the product."""

    name = "QuantizedMatMulBiasFusion"

    patterns = (Op("Add", Op(tuple(_BIAS), domain=CONTRIB, name="product", rest=True), "bias"),)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate | str:
        product, bias = match.node("product"), match["bias"]
        assert product is not None
        place, b = _BIAS[product.op_type], product.inputs[1]
        if len(product.inputs) > place:
            return f"{product.op_type} '{product.name}' has a bias already"
        if b is None or bias.shape is None or b.shape is None or bias.shape != b.shape[-1:] or bias.shape[0] is None:
            return f"'{bias.name}' is not a bias of the columns of '{b.name if b is not None else ''}'"
        inputs = [one.name if one is not None else "" for one in product.inputs]
        inputs += [""] * (place - len(inputs))
        template = (*inputs, bias.name)
        return NodeTemplate(product.op_type, template, (match.result,), dict(product.attributes), CONTRIB)
