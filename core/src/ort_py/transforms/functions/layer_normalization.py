"""LayerNormalization and its simplified form (by the root mean square), out of the means and roots they are written as.

Exporters before opset 17 (and 23) spell both out; reductions have their axes as an attribute or, later, as an input.
Half-precision models compute the statistics in float32 behind a Cast, which is what ``stash_type`` says. The sum in
front of a normalisation goes into SkipLayerNormalization and its simplified form, where both summands have one shape:
the operators broadcast nothing but a batch. The sum stays an output where others read it, as the next block of a
transformer does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import (
    Const,
    Match,
    Maybe,
    NodeSpec,
    NodeTemplate,
    OneOf,
    Op,
    Pattern,
    TransformContext,
    ValueSpec,
    Var,
)
from ort_py.dtypes import DataType, float_attribute
from ort_py.transforms.fusion import CONTRIB, Fusion, adds_axes, dtype_refusal, scalar, trailing_vector

_FLOATS = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
_RMS = 23
"""Opset that brought RMSNormalization to ONNX."""

X = Var("x")


def _epsilon(array: Any) -> bool | str:
    value = scalar(array)
    if value is None:
        return "it is not a number"
    return True if 0 <= value < 1 else f"{value} is not an epsilon"


def _mean(what: Pattern, name: str) -> Op:
    """A mean that keeps its axes; `axes_of` says which."""
    return Op("ReduceMean", what, Const(f"{name}_axes", optional=True), name=name, where=_keeps_axes)


def _keeps_axes(node: NodeSpec) -> bool | str:
    return True if node.attributes.get("keepdims", 1) == 1 else "it does not keep its axes"


def _square(what: Pattern) -> Pattern:
    return OneOf(Op("Pow", what, 2.0), Op("Mul", what, what))


def _root(variance: Pattern) -> Op:
    return Op("Sqrt", Op("Add", variance, Const("epsilon", where=_epsilon)), name="root")


def _divided(what: Pattern, variance: Pattern) -> Pattern:
    root = _root(variance)
    inverse = OneOf(Op("Reciprocal", root), Op("Div", 1.0, root), Op("Pow", root.inputs[0], -0.5))
    return OneOf(Op("Div", what, root), Op("Mul", what, inverse))


def _layer() -> tuple[Op, ...]:
    cast = Maybe(Op("Cast", X, name="cast"))
    centred = Op("Sub", cast, _mean(cast, "mean"), name="centred")
    normal = Maybe(Op("Cast", _divided(centred, _mean(_square(centred), "variance")), name="narrowed"))
    return (Op("Mul", normal, Var("scale")),)


def _simplified() -> tuple[Op, ...]:
    cast = Maybe(Op("Cast", X, name="cast"))
    mean = _mean(_square(cast), "variance")
    normal = Maybe(Op("Cast", _divided(cast, mean), name="narrowed"))
    return (Op("Mul", normal, Var("scale")),)


class _Normalization(Fusion):
    """Common requirements of both forms: the same last axes everywhere, a scale of just these axes, and fitting
    types.
    """

    reductions: tuple[str, ...] = ()

    def check(self, match: Match) -> str:
        x = match["x"]
        if x.shape is None:
            return f"the rank of '{x.name}' is not known"
        rank = len(x.shape)
        first = _first_axis(match, self.reductions, rank)
        if isinstance(first, str):
            return first
        if match["scale"].shape != x.shape[first:] or None in x.shape[first:]:
            return f"'{match.name('scale')}' is not known to have the shape of the normalised axes"
        return adds_axes(match, x) or _type_refusal(match)

    def attributes(self, match: Match) -> dict[str, Any]:
        """Axis, epsilon and the type statistics are formed in."""
        shape = match["x"].shape
        assert shape is not None  # `check` has asked
        first = _first_axis(match, self.reductions, len(shape))
        assert isinstance(first, int)
        epsilon = scalar(match.array("epsilon"))
        # Negative: an exporter's "the last axis" stays that.
        return {"axis": first - len(shape), "epsilon": epsilon, "stash_type": int(_stash(match))}


def _first_axis(match: Match, reductions: tuple[str, ...], rank: int) -> int | str:
    """The axis from which on all reductions go; a reason where they do not agree, or are not over the last axes."""
    found: set[tuple[int, ...]] = set()
    for name in reductions:
        node = match.node(name)
        if node is None:
            continue
        given: Any = node.attributes.get("axes") if len(node.inputs) < 2 else match.graph.constant(node.inputs[1])
        if given is None:
            return f"'{node.name}' has no constant axes"
        found.add(tuple(sorted(int(axis) % rank for axis in np.asarray(given).reshape(-1))))
    axes = next(iter(found), ())
    if len(found) != 1 or not axes or axes != tuple(range(axes[0], rank)):
        return f"the means are over the axes {sorted(found)}, not over the last ones of {rank}"
    return axes[0]


def _type_refusal(match: Match) -> str:
    source = match["x"].data_type
    if source not in _FLOATS:
        return f"'{match.name('x')}' is not a floating-point tensor of known type"
    narrowed = match.node("narrowed")
    scale = match["scale"].data_type
    if narrowed is not None and narrowed.attributes.get("to") != scale:
        return "what is normalised and the scale differ in type"
    if match.node("cast") is not None and narrowed is None and scale is not source:
        return f"the scale is {scale.name.lower() if scale else 'of unknown type'}, which the result then has too"
    return ""


def _stash(match: Match) -> DataType:
    """The type the statistics are formed in: at least float32, so that narrow ones gain digits."""
    cast = match.node("cast")
    source = match["x"].data_type if cast is None else DataType(int(cast.attributes.get("to", 1)))
    return DataType.DOUBLE if source is DataType.DOUBLE else DataType.FLOAT


def _only_result(node: NodeSpec) -> bool | str:
    return True if all(output is None for output in node.outputs[1:]) else "its statistics are read"


class FuseLayerNormalization(_Normalization):
    """Fuse ``(x - mean) / sqrt(variance + epsilon) · scale`` over the last axes. The next rule takes in the bias."""

    name = "LayerNormFusion"
    patterns = _layer()
    reductions = ("mean", "variance")

    def check(self, match: Match) -> str:
        reason = super().check(match)
        if not reason and match["scale"].data_type is not match["x"].data_type:
            return "the scale's type is not the input's"
        return reason

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        inputs = (match.name("x"), match.name("scale"))
        return NodeTemplate("LayerNormalization", inputs, (match.result,), self.attributes(match))


class FuseNormalizationBias(Fusion):
    """A sum behind a LayerNormalization that has no bias: its bias."""

    name = "LayerNormBiasFusion"
    patterns = (
        Op("Add", Op("LayerNormalization", X, Var("scale"), None, name="normal", where=_only_result), Var("bias")),
    )

    def check(self, match: Match) -> str:
        scale, bias = match["scale"], match["bias"]
        if scale.shape is None or None in scale.shape or bias.shape != scale.shape:
            return f"'{bias.name}' is not known to have the shape of the scale"
        return ""

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        node = match.node("normal")
        assert node is not None
        inputs = (match.name("x"), match.name("scale"), match.name("bias"))
        return NodeTemplate("LayerNormalization", inputs, (match.result,), node.attributes)


class FuseSimplifiedLayerNormalization(_Normalization):
    """``x / sqrt(mean(x²) + epsilon) · scale`` over the last axes: RMSNormalization of ONNX, or its forerunner."""

    name = "SimplifiedLayerNormFusion"
    patterns = _simplified()
    reductions = ("variance",)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        inputs = (match.name("x"), match.name("scale"))
        same = match["x"].data_type is match["scale"].data_type
        standard = match.anchor.opset_version >= _RMS and same
        op_type = "RMSNormalization" if standard else "SimplifiedLayerNormalization"
        return NodeTemplate(op_type, inputs, (match.result,), self.attributes(match))


_SKIP_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
_EPSILON = float_attribute(1e-5)


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
        return dtype_refusal(x, _SKIP_FLOATS)

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
