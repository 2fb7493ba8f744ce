"""GroupNormalization as PyTorch's exporters write it: an InstanceNormalization whose channels are groups, then a scale.

    Reshape (n, channels, …) to (n, groups, …), InstanceNormalization, Reshape back, Mul and Add by channel

One node of opset 21 reads and writes the tensor half as often. In older models it has an opset of its own and carries
what it replaces.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import Const, FunctionBody, Level, Match, NodeTemplate, Op, PatternRule, TransformContext, Var
from ort_py.dtypes import DataType, float_attribute
from ort_py.transforms.fusion import dtype_refusal

_OPSET = 21
"""Opset whose GroupNormalization scales by channel; before, it scaled by group."""

_FLOATS = (DataType.FLOAT, DataType.FLOAT16)


def _all(number: int) -> Const:
    return Const(where=lambda array: bool((array == number).all()) or f"it is not {number} everywhere")


class FuseGroupNormalization(PatternRule):
    """The five nodes, with constant scale and bias."""

    name = "GroupNormFusion"
    level = Level.EXTENDED
    patterns = (
        Op(
            "Add",
            Op(
                "Mul",
                Op(
                    "Reshape",
                    Op(
                        "InstanceNormalization",
                        Op("Reshape", Var("x"), Var(), name="split"),
                        _all(1),
                        _all(0),
                        name="normalised",
                    ),
                    Var(),
                    name="joined",
                ),
                Const("scale"),
            ),
            Const("bias"),
        ),
    )

    def check(self, match: Match) -> str:
        x, split, joined = match["x"], match.node("split"), match.node("joined")
        assert split is not None
        assert joined is not None
        inner, outer = split.outputs[0], joined.outputs[0]
        shape = x.shape
        if shape is None or inner is None or inner.shape is None or outer is None or None in shape:
            return f"the shape of '{x.name}' is not known"
        if outer.shape != shape:
            return f"'{x.name}' is {list(shape)}, and after the groups it is {outer.shape and list(outer.shape)}"
        channels, groups = (sizes[1] if len(sizes) > 2 else None for sizes in (shape, inner.shape))
        if not isinstance(channels, int) or not isinstance(groups, int) or inner.shape[0] != shape[0]:
            return f"channels of {list(shape)} or groups of {list(inner.shape)} are not known"
        if groups < 1 or channels % groups:
            return f"{channels} channels cannot be divided into {groups} groups"
        for name in ("scale", "bias"):
            array = match.array(name)
            wanted = (channels, *[1] * (len(shape) - 2))
            if array is None or array.shape not in (wanted, (1, *wanted)):
                return f"'{match[name].name}' is not a number for each channel"
        return dtype_refusal(x, _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        split, normalised, opset = match.node("split"), match.node("normalised"), match.anchor.opset_version
        assert split is not None
        assert normalised is not None
        assert split.outputs[0] is not None
        assert split.outputs[0].shape is not None
        groups = int(split.outputs[0].shape[1] or 0)
        epsilon = float(normalised.attributes.get("epsilon", float_attribute(1e-5)))
        rank = len(match["x"].shape or ())
        names = []
        for name in ("scale", "bias"):
            array = match.array(name)
            assert array is not None
            names.append(match.graph.add_constant(f"{match.name(name)}/channels", array.reshape(-1)))
        body = None
        if opset < _OPSET:
            dtype = np.dtype("float16" if match["x"].data_type is DataType.FLOAT16 else "float32")
            body = _body(groups, epsilon, rank, dtype, opset)
        return NodeTemplate(
            "GroupNormalization",
            (match.name("x"), *names),
            (match.result,),
            {"num_groups": groups, "epsilon": epsilon},
            body=body,
            opset=0 if body is None else _OPSET,
        )


def _body(groups: int, epsilon: float, rank: int, dtype: np.dtype[np.floating], opset: int) -> FunctionBody:
    """The nodes that it replaces, with shapes taken from the input."""
    constants = {
        "split": np.array([0, groups, -1], np.int64),
        "ones": np.ones(groups, dtype),
        "zeros": np.zeros(groups, dtype),
        "channels": np.array([1, -1, *[1] * (rank - 2)], np.int64),
    }
    nodes = (
        NodeTemplate("Reshape", ("x", "split"), ("rows",)),
        NodeTemplate("InstanceNormalization", ("rows", "ones", "zeros"), ("normalised",), {"epsilon": epsilon}),
        NodeTemplate("Shape", ("x",), ("shape",)),
        NodeTemplate("Reshape", ("normalised", "shape"), ("joined",)),
        NodeTemplate("Reshape", ("scale", "channels"), ("factors",)),
        NodeTemplate("Reshape", ("bias", "channels"), ("summands",)),
        NodeTemplate("Mul", ("joined", "factors"), ("scaled",)),
        NodeTemplate("Add", ("scaled", "summands"), ("y",)),
    )
    return FunctionBody(("x", "scale", "bias"), ("y",), nodes, constants, {"": opset})
