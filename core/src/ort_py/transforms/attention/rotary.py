"""Halves of heads turned against each other by angles of their positions: one RotaryEmbedding.

Fits what PyTorch's exporters write for Llama and its kin in opsets without the operator: ``x · cos + turned(x) · sin``
with ``turned(x) = (-right half, left half)`` and cosines of the same angles for both halves. Positions must be the
same in all batch entries, since the operator reads cosines from a matrix with a row a position. Comes after shapes are
known.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ort_py.contracts import (
    Const,
    FunctionBody,
    GraphEditor,
    Level,
    Match,
    NodeTemplate,
    Op,
    PatternRule,
    TransformContext,
    ValueSpec,
    Var,
)
from ort_py.dtypes import DataType
from ort_py.transforms.attention.parts import operator, shape_of

_FAR = 2**31


def _half(name: str) -> Op:
    return Op(
        "Slice",
        Var("x"),
        Const(f"{name} start"),
        Const(f"{name} end"),
        Const(f"{name} axis"),
        Var(optional=True),
        name=name,
    )


class FuseRotaryEmbedding(PatternRule):
    """The multiplications, slices and the Concat become com.microsoft's RotaryEmbedding."""

    name = "RotaryEmbeddingFusion"
    level = Level.EXTENDED
    patterns = (
        Op(
            "Add",
            Op("Mul", Var("x"), Var("cos")),
            Op("Mul", Op("Concat", Op("Neg", _half("right")), _half("left"), name="turned"), Var("sin")),
        ),
    )

    def replacement(self, match: Match, context: TransformContext) -> list[NodeTemplate] | str:
        graph, name = match.graph, match.anchor.name
        angles = _angles(graph, match["cos"], "Cos")
        other = _angles(graph, match["sin"], "Sin")
        if angles is None or other is None or angles.name != other.name:
            return (
                "what the halves are multiplied by are not cosines and sines of the same angles, joined with themselves"
            )
        reason = _refusal(match, angles)
        if reason:
            return reason
        pairs = int((shape_of(angles) or (0,))[-1] or 0)
        shape = graph.add_constant(f"{name}/matrix", np.array([-1, pairs], np.int64))
        first = graph.add_constant(f"{name}/first", np.zeros(1, np.int64))
        made, caches = list[NodeTemplate](), list[str]()
        for function in ("Cos", "Sin"):
            whole = graph.free_name(f"{angles.name}/{function}")
            matrix = graph.free_name(f"{angles.name}/{function}/rows")
            made += [
                NodeTemplate(function, (angles.name,), (whole,)),
                NodeTemplate("Reshape", (whole, shape), (matrix,)),
            ]
            caches.append(matrix)
        body = _body(pairs, match.anchor.opset_version)
        made.append(
            NodeTemplate(
                "RotaryEmbedding",
                (match.name("x"), first, *caches),
                (match.result,),
                {"interleaved": 0},
                "com.microsoft",
                body=body,
            )
        )
        return made


def _angles(graph: GraphEditor, value: ValueSpec, function: str) -> ValueSpec | None:
    """The angles of one half whose cosines or sines a value holds twice, with an axis for the heads."""
    heads = operator(graph, value, "Unsqueeze", "Reshape")
    wave = operator(graph, heads.inputs[0], function) if heads is not None else None
    both = operator(graph, wave.inputs[0], "Concat") if wave is not None else None
    if both is None or len(both.inputs) != 2 or both.inputs[0] is None or both.inputs[1] is None:
        return None
    twice = both.inputs[0].name == both.inputs[1].name and both.attributes.get("axis") in (-1, 2)
    given, spread = shape_of(both.outputs[0]), shape_of(value)
    placed = given is not None and len(given) == 3 and spread == (given[0], 1, *given[1:])
    return both.inputs[0] if twice and placed and None not in (given or (None,)) else None


def _refusal(match: Match, turns: ValueSpec) -> str:
    x, angles = shape_of(match["x"]), shape_of(turns)
    if x is None or angles is None or len(x) != 4 or len(angles) != 3:
        return "the rank of heads or angles is unknown, or not 4 and 3"
    size, pairs = x[3], angles[2]
    if not isinstance(size, int) or not isinstance(pairs, int) or size != 2 * pairs:
        return f"{pairs} angles do not turn heads of {size} columns"
    if angles[0] != 1:
        return f"positions may differ between the batch's entries: the angles have the shape {list(angles)}"
    if x[2] is None or angles[1] != x[2]:
        return f"there are {angles[1]} positions for {x[2]} rows"
    if match["x"].data_type not in (DataType.FLOAT, DataType.FLOAT16):
        return "it computes in neither float nor float16"
    turned = match.node("turned")
    if turned is None or turned.attributes.get("axis") not in (-1, 3):
        return "the halves are joined along another axis than the last"
    ends = {
        name: [np.asarray(match.array(f"{name} {what}")).ravel().tolist() for what in ("start", "end", "axis")]
        for name in ("left", "right")
    }
    (left, right) = ends["left"], ends["right"]
    whole = left[0] == [0] and left[1] == [pairs] and right[0] == [pairs] and len(right[1]) == 1 and right[1][0] >= size
    if not whole or any(one[2] not in ([3], [-1]) for one in (left, right)):
        return "the slices are not the two halves of the last axis"  # steps beyond 1 would not give halves
    return ""


@lru_cache(maxsize=64)
def _body(pairs: int, opset: int) -> FunctionBody:
    """The operator's computation for positions that start at 0, in standard operators."""
    nodes = (
        NodeTemplate("Concat", ("cos", "cos"), ("both_cos",), {"axis": -1}),
        NodeTemplate("Concat", ("sin", "sin"), ("both_sin",), {"axis": -1}),
        NodeTemplate("Slice", ("x", "zero", "middle", "axis"), ("left",)),
        NodeTemplate("Slice", ("x", "middle", "end", "axis"), ("right",)),
        NodeTemplate("Neg", ("right",), ("negative",)),
        NodeTemplate("Concat", ("negative", "left"), ("turned",), {"axis": -1}),
        NodeTemplate("Mul", ("x", "both_cos"), ("kept",)),
        NodeTemplate("Mul", ("turned", "both_sin"), ("moved",)),
        NodeTemplate("Add", ("kept", "moved"), ("y",)),
    )
    numbers = {"zero": 0, "middle": pairs, "end": _FAR, "axis": -1}
    constants = {name: np.array([number], np.int64) for name, number in numbers.items()}
    return FunctionBody(("x", "positions", "cos", "sin"), ("y",), nodes, constants, {"": opset})
