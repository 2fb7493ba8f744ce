"""Attributes that a node leaves out are float32, as those that it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator

import ort_py as ort

_OPSET = 22

_SHAPES = {
    "BatchNormalization": ((2, 3, 4), (3,), (3,), (3,), (3,)),
    "GroupNormalization": ((2, 4, 3), (4,), (4,)),
    "InstanceNormalization": ((2, 3, 4), (3,), (3,)),
    "LayerNormalization": ((2, 4), (4,), (4,)),
    "LRN": ((5, 5, 2, 2),),
}
"""Shapes of the inputs; other operators have one. The reference's LRN computes as many channels as the batch has."""

_REQUIRED: dict[str, dict[str, Any]] = {"GroupNormalization": {"num_groups": 2}, "LRN": {"size": 3}}


def _inexact() -> list[str]:
    """Operators of this opset with a double input and a float attribute whose printed default is no float32."""
    found = []
    for schema in defs.get_all_schemas():
        current = (
            defs.get_schema(schema.name, _OPSET) if schema.domain == "" and defs.has(schema.name, _OPSET, "") else None
        )
        if current is None or not current.inputs or "tensor(double)" not in current.inputs[0].types:
            continue
        defaults = [attribute.default_value.f for attribute in current.attributes.values()]
        if any(float(f"{number:.6g}") != number for number in defaults):
            found.append(current.name)
    return sorted(found)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("op_type", _inexact())
def test_defaults_of_float64_models(op_type: str, level: str) -> None:
    """In float64, 0.01 and the nearest float32 are different numbers; a small input makes an epsilon count."""
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(1e-3, 5e-3, shape) for shape in _SHAPES.get(op_type, ((2, 7),))]
    if len(arrays) == 1 and op_type != "LRN":
        arrays[0] = arrays[0] * 100 - 0.25
    names = [f"x{index}" for index in range(len(arrays))]
    node = helper.make_node(op_type, names, ["y"], **_REQUIRED.get(op_type, {}))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, array.shape)
        for name, array in zip(names, arrays, strict=True)
    ]
    output = helper.make_tensor_value_info("y", TensorProto.DOUBLE, arrays[0].shape)
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, [output]), opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10
    )
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    feeds = dict(zip(names, arrays, strict=True))
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    # These compute in float32, as their stash_type says.
    tolerance = 1e-6 if op_type in {"GroupNormalization", "LayerNormalization"} else 1e-12
    (wanted, *_) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(np.asarray(session.run(None, feeds)[0]), np.asarray(wanted), rtol=tolerance)
