"""SkipLayerNormalization and its simplified form: the sum in front of a normalisation goes into it.

Comes after `layer_normalization`. The sum itself stays an output where others read it, as the next block of a
transformer does. Only where both summands have one shape: the operators broadcast nothing but a batch.
"""

from __future__ import annotations

from ort_py.contracts import Const, Match, Maybe, NodeSpec, NodeTemplate, Op, TransformContext, ValueSpec, Var
from ort_py.dtypes import DataType
from ort_py.transforms.fusion import CONTRIB, Fusion, dtype_refusal, trailing_vector

__all__ = ["FuseSkipNormalization"]

_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
_EPSILON = 1e-5


def _only_result(node: NodeSpec) -> bool | str:
    if any(output is not None for output in node.outputs[1:]):
        return "its statistics are read"
    return True


def _patterns() -> tuple[Op, ...]:
    biased = Maybe(Op("Add", Var("x"), Const("bias"), name="biased"))
    summed = Op("Add", biased, Var("skip"), name="sum", exposed=True)
    scale = Var("scale")
    return (
        Op("LayerNormalization", summed, scale, Var("shift", optional=True), where=_only_result),
        Op(("SimplifiedLayerNormalization", "RMSNormalization"), summed, scale, where=_only_result),
    )


def _awaits_bias(match: Match) -> bool:
    """Return whether the one reader of a normalisation without a bias adds one that another rule is about to take
    in.
    """
    result = match.anchor.outputs[0]
    if result is None or match.get("shift") is not None or match.anchor.op_type != "LayerNormalization":
        return False
    readers = match.graph.readers(result)
    if len(readers) != 1 or readers[0].op_type != "Add" or readers[0].domain or match.graph.is_output(result):
        return False
    return any(value is not None and value.shape == match["scale"].shape for value in readers[0].inputs)


class FuseSkipNormalization(Fusion):
    """``normalisation(x + skip)``, and ``normalisation(x + bias + skip)`` with a constant of one entry per column."""

    name = "SkipLayerNormFusion"
    patterns = _patterns()

    def check(self, match: Match) -> str:
        x, skip = match["x"], match["skip"]
        if x.shape is None or len(x.shape) not in (2, 3):
            return f"the rank of '{x.name}' is {'unknown' if x.shape is None else len(x.shape)}, not 2 or 3"
        if None in x.shape or x.shape != skip.shape:
            return f"'{x.name}' and '{skip.name}' are not known to have one shape"
        axis = match.anchor.attributes.get("axis", -1)
        if axis not in (-1, len(x.shape) - 1):
            return f"it normalises the axes from {axis} on, not the last one only"
        vectors = [match.get(name) for name in ("scale", "shift", "bias")]
        if not all(vector is None or trailing_vector(vector, x) for vector in vectors):
            return "scale, shift or bias does not have one entry for each column"
        if match["scale"].data_type is not x.data_type:
            return "the scale's type is not the input's"
        if _awaits_bias(match):
            return "what is added behind it is its bias"
        return dtype_refusal(x, _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        node, total = match.anchor, _total(match)
        simplified = node.op_type != "LayerNormalization"
        inputs = [match.name("x"), match.name("skip"), match.name("scale")]
        if not simplified:
            inputs.append(match.name("shift"))
        wanted = match.graph.is_output(total) or match.graph.uses(total) > 1
        return NodeTemplate(
            "SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization",
            (*inputs, match.name("bias")),
            (match.result, "", "", total.name) if wanted else (match.result,),
            {"epsilon": node.attributes.get("epsilon", _EPSILON)},
            CONTRIB,
        )


def _total(match: Match) -> ValueSpec:
    node = match.node("sum")
    assert node is not None
    output = node.outputs[0]
    assert output is not None
    return output
