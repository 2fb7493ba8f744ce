"""Models with products of float8, as text and with weights of random bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from ort_py.contracts import GraphView
from ort_py_array.contrib.schemas import schemas
from ort_py_kit.graphs import graph_view, model_from_text

__all__ = ["FORMS", "bits", "model", "product", "view_of"]

FORMS = {"float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e5m2": ml_dtypes.float8_e5m2}
_KINDS = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19}


def view_of(made: onnx.ModelProto) -> GraphView:
    """A model as providers see it, fused operators too."""
    return graph_view(made, schemas=schemas())


def bits(form: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Numbers of a float8 type, small ones and large ones."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(FORMS[form])


def model(text: str, opset: int = 21, **weights: Any) -> onnx.ModelProto:
    """A model of text whose initializers, float8 ones too, are given."""
    made = model_from_text(f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> {text}')
    for name, array in weights.items():
        kind = _KINDS.get(array.dtype.name)
        if kind is not None:
            made.graph.initializer.append(helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True))
        else:
            made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return made


def product(
    form: str = "float8e4m3fn",
    weight_form: str = "float8e4m3fn",
    kind: str = "float",
    *,
    shape: str = "M, 20",
    result: str = "M, 10",
    sizes: tuple[int, int] = (20, 10),
    last: str = "y = MatMul (xd, wd)",
    scale: float = 0.25,
    opset: int = 21,
    **more: Any,
) -> onnx.ModelProto:
    """One product: x quantised and dequantised, a weight of float8."""
    dtype = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[kind]

    def scalar(value: float) -> Any:
        return np.asarray(value).astype(dtype)

    text = f"""g ({kind}[{shape}] x) => ({kind}[{result}] y) {{
        xq = QuantizeLinear (x, s, z)
        xd = DequantizeLinear (xq, s, z)
        wd = DequantizeLinear (w, t)
        {last} }}"""
    weights: dict[str, Any] = {
        "s": scalar(scale),
        "z": np.zeros((), FORMS[form]),
        "w": bits(weight_form, sizes),
        "t": scalar(0.5),
        **more,
    }
    return model(text, opset, **weights)
