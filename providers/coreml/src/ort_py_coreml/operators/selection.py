"""The largest and smallest elements along an axis.

Apple does not say which index is given if several elements are equal, where ONNX takes the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import (
    NUMBERS,
    Constants,
    Lower,
    Operator,
    Var,
    attribute,
    integers,
    shape_of,
)

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


def _check_index(node: NodeSpec, graph: Constants) -> str | None:
    if attribute(node, "select_last_index", 0):
        return "it gives the last of several equal elements"
    if not attribute(node, "keepdims", 1) and len(shape_of(node)) == 1:
        return "its result has no axes"
    return None


def _index(name: str) -> Lower:
    def lower(lowering: Lowering, node: NodeSpec) -> Var:
        axis = int(attribute(node, "axis", 0)) % len(shape_of(node))
        keep = bool(attribute(node, "keepdims", 1))
        return getattr(lowering.mb, name)(x=lowering.read(node.inputs[0]), axis=axis, keep_dims=keep)

    return lower


def _check_top(node: NodeSpec, graph: Constants) -> str | None:
    size = shape_of(node)[int(attribute(node, "axis", -1))]
    (count,) = integers(node, graph, 1, "k") or [0]
    if not isinstance(size, int):
        return "the size of its axis is not known"
    return None if 1 <= count <= size else "it takes no elements, or more than there are"


def _top(lowering: Lowering, node: NodeSpec) -> list[Var]:
    (count,) = integers(node, lowering.graph, 1, "k") or [0]
    found = lowering.mb.topk(
        x=lowering.read(node.inputs[0]),
        k=count,
        axis=int(attribute(node, "axis", -1)) % len(shape_of(node)),
        ascending=not attribute(node, "largest", 1),
    )
    return list(found)


OPERATORS = {
    "ArgMax": Operator(_index("reduce_argmax"), _check_index, kinds=NUMBERS),
    "ArgMin": Operator(_index("reduce_argmin"), _check_index, kinds=NUMBERS),
    "TopK": Operator(_top, _check_top, frozenset({1}), since=10, kinds=NUMBERS),
}
