"""GridSample: elements of an image, and what lies between them, at places that a run gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_PADDING = {"zeros": "constant", "border": "border", "reflection": "reflection"}


def _check(node: NodeSpec, graph: Constants) -> str | None:
    mode = attribute(node, "mode", "linear")
    if len(shape_of(node)) != 4:
        return "its data does not have two axes behind the channels"
    if mode not in ("linear", "bilinear"):
        return f"its mode is {mode}: Apple does not say which of two elements is nearest, and has no cubic mode"
    if attribute(node, "padding_mode", "zeros") == "reflection" and not attribute(node, "align_corners", 0):
        return "it reflects at the borders of the first and last elements, MIL at their centres"
    return None


def _sample(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.resample(
        x=lowering.read(node.inputs[0]),
        coordinates=lowering.read(node.inputs[1]),
        sampling_mode="bilinear",
        padding_mode=_PADDING[attribute(node, "padding_mode", "zeros")],
        padding_value=np.float32(0),
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=bool(attribute(node, "align_corners", 0)),
    )


OPERATORS = {"GridSample": Operator(_sample, _check)}
