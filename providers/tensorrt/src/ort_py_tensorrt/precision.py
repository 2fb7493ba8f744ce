"""A region's model in float16 or bfloat16: networks are strongly typed, so that the types of the model decide.

Values of float32 become half as wide, with a Cast where they enter and leave; the inputs and outputs of the region stay
float32. A node stays in float32 where its operator loses too much (sums of many elements, exponentials, normalisations
where asked), where a weight is out of range, and where a type is not known. Comes after `region_model`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ort_py_tensorrt.region_model import RegionModel, declare_weight

__all__ = ["KEPT", "NORMALISATIONS", "lowered"]

NORMALISATIONS = frozenset(
    {"BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization"}
    | {"MeanVarianceNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization"}
)
"""Operators that divide by a deviation."""

KEPT = frozenset(
    {"CumSum", "Einsum", "Exp", "Log", "LogSoftmax", "Pow", "Range", "ReduceL1", "ReduceL2", "ReduceLogSum"}
    | {"ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Reciprocal", "Softmax"}
    | {"Sqrt", "Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "Resize", "RandomNormal", "RandomUniform"}
    | {"RandomNormalLike", "RandomUniformLike", "Constant", "ConstantOfShape", "EyeLike", "NonMaxSuppression"}
)
"""Operators that stay in float32, or whose types attributes say."""

_TYPES: dict[str, tuple[int, Any, float]] = {
    "float16": (TensorProto.FLOAT16, np.dtype(np.float16), 65504.0),
    "bfloat16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16), 2.0**127 * (2 - 2.0**-7)),
}
"""For each precision the type, as ONNX and as NumPy know it, and its largest number."""


def lowered(model: RegionModel, precision: str, *, normalisations_in_float32: bool = True) -> RegionModel:
    """Return a model that computes in another precision.

    Args:
        model: The region.
        precision: ``"float32"``, which returns the model itself, ``"float16"`` or ``"bfloat16"``.
        normalisations_in_float32: Whether normalisations stay in float32.
    """
    if precision == "float32":
        return model
    return _Lowering(model, precision, KEPT | (NORMALISATIONS if normalisations_in_float32 else frozenset())).result()


class _Lowering:
    """One pass over the nodes of a model, in order."""

    def __init__(self, model: RegionModel, precision: str, kept: frozenset[str]) -> None:
        self._proto = onnx.ModelProto()
        self._proto.CopyFrom(model.proto)
        self._graph = self._proto.graph
        self._weights = dict(model.weights)
        self._kind, self._dtype, self._largest = _TYPES[precision]
        self._kept = kept
        self._types = _types_of(self._proto)
        self._constants = {one.name: one for one in self._graph.initializer}
        self._outputs = {one.name for one in self._graph.output}
        self._narrow: set[str] = set()  # values that are narrow where the model says float32
        self._copies: dict[tuple[str, bool], str] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._names = {name for node in self._graph.node for name in (*node.input, *node.output)} | set(self._constants)

    def result(self) -> RegionModel:
        """Rewrite all nodes."""
        for node in list(self._graph.node):
            self._rewrite(node)
        del self._graph.node[:]
        self._graph.node.extend(self._nodes)
        del self._graph.value_info[:]  # they said float32
        read = {name for node in self._nodes for name in node.input} | self._outputs
        left = [one for one in self._graph.initializer if one.name in read]
        del self._graph.initializer[:]
        self._graph.initializer.extend(left)
        return RegionModel(self._proto, {name: array for name, array in self._weights.items() if name in read})

    def _rewrite(self, node: onnx.NodeProto) -> None:
        wide = node.op_type in self._kept or not self._fits(node)
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        for place, name in enumerate(node.input):
            if name and self._types.get(name) == TensorProto.FLOAT:
                copied.input[place] = self._as(name, narrow=not wide)
        self._nodes.append(copied)
        if wide:
            return
        for place, name in enumerate(node.output):
            if name and self._types.get(name) == TensorProto.FLOAT:
                if name in self._outputs:  # the region's output stays float32
                    copied.output[place] = self._fresh(name)
                    self._nodes.append(_cast(copied.output[place], name, TensorProto.FLOAT))
                    self._copies[name, True] = copied.output[place]
                else:
                    self._narrow.add(name)

    def _fits(self, node: onnx.NodeProto) -> bool:
        """Return whether a node computes float32 with known types, and its constants have a narrow form."""
        names = [name for name in (*node.input, *node.output) if name]
        if any(name not in self._types for name in names) or any(
            one.type == onnx.AttributeProto.GRAPH for one in node.attribute
        ):
            return False
        floats = [name for name in names if self._types[name] == TensorProto.FLOAT]
        if not floats:
            return False
        return all(self._in_range(name) for name in floats if name in self._constants)

    def _in_range(self, name: str) -> bool:
        array = self._array(name)
        largest = self._largest
        finite = array[np.isfinite(array)]
        return not finite.size or float(np.abs(finite).max()) <= largest

    def _as(self, name: str, *, narrow: bool) -> str:
        """Return the name of a value in one of the two types, and add what converts it once."""
        if (name in self._narrow) == narrow:
            return name
        if (name, narrow) not in self._copies:
            made = self._copies[name, narrow] = self._fresh(name)
            if name in self._constants:
                self._convert(name, made)
            else:
                self._nodes.append(_cast(name, made, self._kind if narrow else TensorProto.FLOAT))
        return self._copies[name, narrow]

    def _array(self, name: str) -> np.ndarray[Any, Any]:
        return self._weights[name] if name in self._weights else numpy_helper.to_array(self._constants[name])

    def _convert(self, name: str, made: str) -> None:
        with np.errstate(under="ignore"):
            array = np.ascontiguousarray(self._array(name).astype(self._dtype))
        self._weights[made] = array.reshape(self._constants[name].dims)
        declare_weight(self._graph, made, self._kind, array.shape)

    def _fresh(self, name: str) -> str:
        made = f"{name}_narrow"
        while made in self._names:
            made += "_"
        self._names.add(made)
        return made


def _cast(source: str, target: str, kind: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], name=f"cast_{target}", to=kind)


def _types_of(model: onnx.ModelProto) -> dict[str, int]:
    """Return the element types of values, as far as ONNX's inference finds them."""
    inferred = onnx.shape_inference.infer_shapes(model)
    values = (*inferred.graph.input, *inferred.graph.output, *inferred.graph.value_info)
    found = {one.name: one.type.tensor_type.elem_type for one in values if one.type.HasField("tensor_type")}
    return found | {one.name: one.data_type for one in inferred.graph.initializer}
