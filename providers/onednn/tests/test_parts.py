"""Parts of tensors as operands: every operator reads a part at its place, wherever the part begins."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_py as ort
from ort_py_kit.tolerances import assert_close

_HERE: list[str | tuple[str, dict[str, str]]] = [
    ("DnnlExecutionProvider", {"claim_small": "1"}),
    "CPUExecutionProvider",
]

_CUTS = {
    "Split, first axis": ("a, b = Split <axis = 0> (x, sizes)", {"sizes": np.array([1, 2])}, 0, 3),
    "Split, channels": ("a, b = Split <axis = 1> (x, sizes)", {"sizes": np.array([8, 8])}, 1, 16),
    "Slice, first axis": (
        "b = Slice (x, first, last, axis)",
        {"first": np.array([1]), "last": np.array([3]), "axis": np.array([0])},
        0,
        3,
    ),
    "Slice, last axis": (
        "b = Slice (x, first, last, axis)",
        {"first": np.array([2]), "last": np.array([14]), "axis": np.array([-1])},
        -1,
        16,
    ),
}
_READERS = (
    "MaxPool <kernel_shape = [{2}]> (b)",
    "MaxPool <kernel_shape = [{3}], strides = [{2}]> (b)",
    "AveragePool <kernel_shape = [{2}]> (b)",
    "GlobalAveragePool (b)",
    "GlobalMaxPool (b)",
    "ReduceMean <axes = [-1]> (b)",
    "ReduceMean <axes = [1]> (b)",
    "Conv (b, w)",
    "Softmax <axis = -1> (b)",
    "LRN <size = 3> (b)",
    "Sigmoid (b)",
    "Add (b, b)",
    "Concat <axis = 1> (b, b)",
)


@pytest.mark.parametrize("cut", _CUTS)
@pytest.mark.parametrize("rank", [3, 4])
def test_readers_of_parts(cut: str, rank: int) -> None:
    """Pools, convolutions, reductions and functions of a part agree with the NumPy provider."""
    rng = np.random.default_rng(rank)
    made, constants, axis, size = _CUTS[cut]
    shape = [2, 8, *(12,) * (rank - 2)]
    shape[axis] = size
    x = rng.standard_normal(shape).astype(np.float32)
    constants = {**constants, "w": rng.standard_normal((4, 8, *(3,) * (rank - 2))).astype(np.float32)}
    plain = ort.SessionOptions()
    plain.pin_cpu = True
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for reader in _READERS:
        body = reader
        for number in (2, 3):
            body = body.replace(f"{{{number}}}", ", ".join(str(number) for _ in range(rank - 2)))
        dims = ", ".join(map(str, shape))
        text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[{dims}] x) => (float[N] y) {{ {made} y = {body} }}'
        model = onnx.parser.parse_model(text)
        model.graph.output[0].type.tensor_type.ClearField("shape")
        model.graph.initializer.extend(
            numpy_helper.from_array(array, name) for name, array in constants.items() if name in made + body
        )
        data = model.SerializeToString()
        (found,) = ort.InferenceSession(data, providers=_HERE).run(None, {"x": x})
        (expected,) = ort.InferenceSession(data, plain).run(None, {"x": x})
        assert_close(found, expected)


@pytest.mark.parametrize("cut", ["Split, first axis", "Slice, first axis"])
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
def test_constants_beside_parts(op_type: str, cut: str) -> None:
    """A constant is never packed into the layout of a part, which begins behind its address: oneDNN runs the node."""
    made, constants, _, _ = _CUTS[cut]
    x = np.random.default_rng(5).standard_normal((3, 40)).astype(np.float32)
    k = np.random.default_rng(6).uniform(1, 2, (2, 40)).astype(np.float32)
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[N, 40] x) => (float[2, 40] y) '
        f"{{ {made} y = {op_type} (k, b) }}"
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    model.graph.initializer.append(numpy_helper.from_array(k, "k"))
    with ort.InferenceSession(model.SerializeToString(), providers=_HERE) as session:
        (found,) = session.run(None, {"x": x})
        assert not session.fallback_report
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    assert_close(found, {**functions, "Max": np.maximum, "Min": np.minimum}[op_type](k, x[1:3]))
