"""Gradients compared with central differences of what the same session computes, in float64.

The body of a model is given as ONNX text and writes ``y``. Around it: ``loss = y * weights``, a Gradient of the loss
with respect to every input named, and a Gradient of those gradients. So first derivatives are compared with differences
of the loss, and second derivatives with differences of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

import ort_py
from ort_py_kit.graphs import model_from_text

__all__ = ["check_gradients", "gradient_model", "random_inputs", "session_of"]

_STEP = 1e-6
"""With float64 and values around 1, rounding then spoils about the tenth digit, truncation the twelfth."""

_TOLERANCE = 2e-6
"""Four digits more than the differences lose."""

_DOMAIN = "ai.onnx.preview.training"


def random_inputs(seed: int = 0, low: float = -2.0, high: float = 2.0, **shapes: Sequence[int]) -> dict[str, Any]:
    """Seeded inputs of the given shapes, uniform between two bounds."""
    generator = np.random.default_rng(seed)
    return {name: generator.uniform(low, high, shape) for name, shape in shapes.items()}


def session_of(model: onnx.ModelProto, *, optimised: bool = True) -> ort_py.InferenceSession:
    """A session on the plain CPU provider."""
    options = ort_py.SessionOptions()
    options.pin_cpu = True
    if not optimised:
        options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def gradient_model(
    body: str, inputs: Mapping[str, Any], xs: Sequence[str], opset: int, *, dims: str = "static", second: bool = True
) -> onnx.ModelProto:
    """The model described above.

    Args:
        body: Nodes that write ``y``.
        inputs: Example of each input; of ``weights``, which has the shape of ``y``, too.
        xs: Inputs to differentiate by.
        opset: Of ``ai.onnx``.
        dims: ``static``, ``symbolic`` (every size has a name of its own, except those of ``filters`` and ``bias``) or
            ``ranks`` (not even the rank is known).
        second: Whether to differentiate the gradients, too.
    """
    given = {**inputs, **{f"by_{name}": inputs[name] for name in xs}}
    nodes = [body, "loss = Mul(y, weights)", _gradient(xs, "loss", [f"d_{name}" for name in xs])]
    outputs = ["y", "loss", *[f"d_{name}" for name in xs]]
    if second:
        nodes += [f"m_{name} = Mul(d_{name}, by_{name}) s_{name} = ReduceSum<keepdims = 0>(m_{name})" for name in xs]
        nodes.append(f"total = Sum({', '.join(f's_{name}' for name in xs)})")
        nodes.append(_gradient(xs, "total", [f"dd_{name}" for name in xs]))
        outputs += [f"dd_{name}" for name in xs]
    return _model(nodes, given, outputs, opset, dims)


def _model(
    nodes: Sequence[str], inputs: Mapping[str, Any], outputs: Sequence[str], opset: int, dims: str = "static"
) -> onnx.ModelProto:
    imports = f'"" : {opset}, "{_DOMAIN}" : 1'
    text = "\n".join(nodes)
    model = model_from_text(f"<ir_version: 10, opset_import: [{imports}]> g () => () {{\n{text}\n}}")
    model.graph.input.extend(_declaration(name, array, dims) for name, array in inputs.items())
    double = onnx.TensorProto.DOUBLE
    model.graph.output.extend(helper.make_tensor_value_info(name, double, None) for name in outputs)
    return model


def _declaration(name: str, array: Any, dims: str) -> onnx.ValueInfoProto:
    sizes: Any = list(array.shape)
    if dims == "symbolic" and name not in ("filters", "bias"):
        sizes = [f"{name}_{axis}" for axis in range(array.ndim)]
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), None if dims == "ranks" else sizes
    )


def _shape_of_y(body: str, inputs: Mapping[str, Any], opset: int) -> tuple[int, ...]:
    with session_of(_model([body], inputs, ["y"], opset)) as session:
        return tuple(session.run(None, dict(inputs))[0].shape)


def _gradient(xs: Sequence[str], y: str, outputs: Sequence[str]) -> str:
    named = ", ".join(f'"{name}"' for name in xs)
    return f'{", ".join(outputs)} = {_DOMAIN}.Gradient<xs = [{named}], y = "{y}">({", ".join(xs)})'


def check_gradients(
    body: str,
    inputs: Mapping[str, Any],
    *,
    xs: Sequence[str] | None = None,
    opset: int = 21,
    dims: str = "static",
    second: bool = True,
    step: float = _STEP,
    tolerance: float = _TOLERANCE,
) -> None:
    """Compare derivatives of a body with differences.

    Args:
        body: Nodes that write ``y``, of float64.
        inputs: Value of each input.
        xs: Inputs to differentiate by; None: all of float64.
        opset: Of ``ai.onnx``.
        dims: As in `gradient_model`.
        second: Whether to look at second derivatives, too.
        step, tolerance: Larger where the body computes in less than float64.

    Raises:
        AssertionError: They differ.
    """
    xs = list(xs or [name for name, array in inputs.items() if array.dtype == np.float64])
    generator = np.random.default_rng(1)
    inputs = {**inputs, "weights": generator.uniform(-1.0, 1.0, _shape_of_y(body, inputs, opset))}
    with session_of(gradient_model(body, inputs, xs, opset, dims=dims, second=second)) as session:
        feeds = dict(inputs)
        feeds |= {f"by_{name}": generator.uniform(0.5, 1.5, inputs[name].shape) for name in xs}
        firsts = [f"d_{name}" for name in xs]

        def loss(fed: Mapping[str, Any]) -> float:
            return float(session.run(["loss"], fed)[0].sum())

        def along(fed: Mapping[str, Any]) -> float:
            found = session.run(firsts, fed)
            return float(sum((fed[f"by_{name}"] * one).sum() for name, one in zip(xs, found, strict=True)))

        for function, prefix in ((loss, "d"), *([(along, "dd")] if second else [])):
            found = session.run([f"{prefix}_{name}" for name in xs], feeds)
            for name, actual in zip(xs, found, strict=True):
                expected = _differences(function, feeds, name, step)
                assert actual.shape == expected.shape
                assert actual.dtype == np.float64
                np.testing.assert_allclose(
                    actual, expected, rtol=tolerance, atol=tolerance, err_msg=f"{prefix}_{name} of {body}"
                )


def _differences(function: Any, feeds: Mapping[str, Any], name: str, step: float) -> Any:
    point = feeds[name]
    found = np.zeros(point.shape)
    for index in np.ndindex(*point.shape):
        sides = []
        for sign in (1, -1):
            moved = point.copy()
            moved[index] += sign * step
            sides.append(function({**feeds, name: moved}))
        found[index] = (sides[0] - sides[1]) / (2 * step)
    return found
