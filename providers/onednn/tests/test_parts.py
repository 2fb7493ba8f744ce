"""Parts of tensors as operands: every operator reads a part at its place, wherever the part begins."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

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


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_softmax_of_a_part_of_blocks(op_type: str, axis: int) -> None:
    """The result of a convolution with one channel is a block, of which the first columns are a part."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, 4, 4, 11)).astype(np.float32)
    constants = {"w": rng.standard_normal((1, 4, 2, 5)).astype(np.float32), "last": np.array([3])}
    constants |= {"first": np.array([0]), "columns": np.array([3])}
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 4, 11] x) => (float[1, 1, 1, 3] y) {{
        a = Conv <dilations = [3, 3], pads = [0, 0, 0, 5]> (x, w)
        b = Slice (a, first, last, columns)
        y = {op_type} <axis = {axis}> (b)
    }}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    (found,) = ort.InferenceSession(model.SerializeToString(), providers=_HERE).run(None, {"x": x})
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
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


_OPERATIONS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "Conv": ("y = Conv (x, w, b)", {"x": (2, 2, 6), "w": (16, 2, 5), "b": (16,)}),
    "Conv of pictures": ("y = Conv <group = 2> (x, w, b)", {"x": (2, 4, 6, 5), "w": (6, 2, 3, 2), "b": (6,)}),
    "depthwise Conv": ("y = Conv <group = 4> (x, w, b)", {"x": (2, 4, 6), "w": (4, 1, 3), "b": (4,)}),
    "ConvTranspose": ("y = ConvTranspose <group = 2> (x, w, b)", {"x": (1, 2, 5), "w": (2, 3, 4), "b": (6,)}),
    "tiled ConvTranspose": ("y = ConvTranspose <strides = [2, 2]> (x, w, b)",
                            {"x": (1, 3, 5, 4), "w": (3, 4, 2, 2), "b": (4,)}),
    "Gemm": ("y = Gemm <transB = 1> (x, w, b)", {"x": (3, 8), "w": (9, 8), "b": (9,)}),
    "MatMul": ("y = MatMul (x, w)", {"x": (2, 3, 8), "w": (8, 9)}),
    "products of stacks": ("y = MatMul (x, w)", {"x": (2, 3, 8), "w": (2, 8, 9)}),
    "LayerNormalization": ("y = LayerNormalization (x, w, b)", {"x": (2, 3, 8), "w": (8,), "b": (8,)}),
    "BatchNormalization": ("y = BatchNormalization (x, w, b, b, w)", {"x": (2, 3, 8), "w": (3,), "b": (3,)}),
    "Sub": ("a = Sub (w, x) y = Relu (a)", {"x": (2, 3, 8), "w": (2, 3, 8)}),
    "gate": ("s = Sigmoid (x) y = Mul (s, w)", {"x": (2, 3, 8), "w": (3, 8)}),
    "residual": ("p = MatMul (x, w) y = Add (p, b)", {"x": (2, 3, 8), "w": (8, 9), "b": (2, 3, 9)}),
    "Softmax": ("a = Softmax <axis = 1> (x) y = Mul (a, w)", {"x": (2, 3, 8), "w": (2, 3, 1)}),
    "Concat": ("y = Concat <axis = 1> (x, w)", {"x": (2, 3, 8), "w": (2, 4, 8)}),
    "Attention": ("y = Attention <q_num_heads = 2, kv_num_heads = 2> (x, w, b)",
                  {"x": (2, 3, 8), "w": (2, 5, 8), "b": (2, 5, 8)}),
    "LSTM": ("y = LSTM <hidden_size = 3> (x, v, r, u, , w, b)", {"x": (4, 2, 5), "w": (1, 2, 3), "b": (1, 2, 3)}),
}  # fmt: skip
"""Bodies, with the shapes of the operands that are views of what is fed."""


def _seen(name: str, shape: tuple[int, ...], how: str) -> tuple[str, tuple[int, ...]]:
    """The node that shows an operand, and the shape of what it shows."""
    rank = len(shape)
    if how == "turned":
        order = [*range(1, rank), 0]
        whole = [0] * rank
        for place, axis in enumerate(order):
            whole[axis] = shape[place]
        return f"{name} = Transpose <perm = {order}> ({name}_)", tuple(whole)
    axis = 0 if how == "first axis" else rank - 1
    whole = [size + (3 if place == axis else 0) for place, size in enumerate(shape)]
    text = f"{name}0 = Constant <value_ints = [2]> () {name}1 = Constant <value_ints = [{2 + shape[axis]}]> () "
    text += f"{name}2 = Constant <value_ints = [{axis}]> () {name} = Slice ({name}_, {name}0, {name}1, {name}2)"
    return text, tuple(whole)


@pytest.mark.parametrize("how", ["turned", "first axis", "last axis"])
@pytest.mark.parametrize("name", _OPERATIONS)
def test_operands_that_are_views(name: str, how: str) -> None:
    """Each operand by itself, and all together, is a part or a turned form of what is fed."""
    rng = np.random.default_rng(9)
    body, operands = _OPERATIONS[name]
    constants = {"v": (1, 12, 5), "r": (1, 12, 3), "u": (1, 24)} if "LSTM" in body else {}
    plain = ort.SessionOptions()
    plain.pin_cpu = True
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for chosen in (*[[one] for one in operands], list(operands)):
        nodes, feeds = "", {}
        for operand, shape in operands.items():
            text, whole = _seen(operand, shape, how) if operand in chosen else ("", shape)
            nodes += f" {text}"
            feeds[operand + "_" * bool(text)] = rng.uniform(0.5, 1.5, whole).astype(np.float32)
        declared = ", ".join(f"float[{','.join(map(str, array.shape))}] {key}" for key, array in feeds.items())
        model = onnx.parser.parse_model(
            f'<ir_version: 10, opset_import: ["" : 23]> g ({declared}) => (float[] y) {{ {nodes} {body} }}'
        )
        model.graph.output[0].type.tensor_type.ClearField("shape")
        model.graph.initializer.extend(
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), key)
            for key, shape in constants.items()
        )
        data = model.SerializeToString()
        with ort.InferenceSession(data, providers=_HERE) as session:
            (found,) = session.run(None, feeds)
            assert not session.fallback_report, chosen
        (expected,) = ort.InferenceSession(data, plain).run(None, feeds)
        assert_close(found, expected, context=f"{name} {chosen}")
