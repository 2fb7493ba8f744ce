"""Random graphs of convolutions and products between QuantizeLinear and DequantizeLinear.

A graph is drawn in one of two ways. In an exact one every scale is a power of two and every number a small multiple of
one, so all sums are exact, many of them lie on a tie, and a result has one right value. In the other the scales are
arbitrary, and feeds are drawn until no number lies close to a tie, where the order of a sum would decide. So neither
needs a tolerance beyond that of the type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import ort_py
from providers.openvino.tests.differential.case import Array, Case, Rng

__all__ = ["FAMILIES", "GraphCase", "exact_graph", "quantised_graph"]

_NEAR = 3e-4
"""Distance from a tie, in quanta, that float rounding does not reach."""

_DRAWS = 20
"""Feeds that are tried on a graph."""


@dataclass(frozen=True)
class GraphCase(Case):
    """A model of several nodes.

    Attributes:
        graph: The whole model, which `model` gives.
    """

    graph: onnx.ModelProto = field(default_factory=onnx.ModelProto)

    def model(self) -> onnx.ModelProto:
        """The model."""
        return self.graph


@dataclass
class _Value:
    name: str
    shape: tuple[int, ...]
    size: float
    """A typical magnitude, from which scales are chosen."""


class _Drawing:
    """A graph that grows node by node.

    Args:
        rng: What chooses.
        exact: Whether all numbers are multiples of powers of two.
        images: Whether it begins with images, not with rows.
    """

    def __init__(self, rng: Rng, exact: bool, images: bool) -> None:
        self.rng = rng
        self.exact = exact
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.values: list[_Value] = []
        self.quantised: list[tuple[str, str]] = []
        shape = (
            (1, *rng.choice([1, 3, 4, 8, 16], 1), *rng.integers(3, 9, 2)) if images else tuple(rng.integers(1, 9, 2))
        )
        self.input = self._add(_Value("x", tuple(map(int, shape)), 4.0 if exact else 1.0))
        self.quantise(self.input)

    def wander(self) -> None:
        """Operators in any order, on any of the values so far."""
        steps = [self.quantise, self.activate, self.add, self.pool, self.concatenate]
        for _ in range(int(self.rng.integers(2, 9))):
            if self.rng.random() < 0.35:
                self.multiply(self.pick())
            elif self.rng.random() < 0.4:
                self.quantise(self.pick())
            else:
                steps[int(self.rng.integers(len(steps)))](self.pick())

    def residual(self) -> None:
        """Blocks of a residual network, in each form that keeps OpenVINO's low-precision transformation."""
        rng = self.rng
        bases = [self.values[-1]]
        for _ in range(int(rng.integers(1, 5))):
            self.multiply(bases[int(rng.integers(len(bases)))])
            if rng.random() < 0.3:
                self.activate(self.values[-1], "Relu")
            if rng.random() < 0.5:
                others = [one for one in bases if one.shape == self.values[-1].shape]
                if others:
                    other = others[int(rng.integers(len(others)))]
                    pair = [self.values[-1], other][:: 1 if rng.random() < 0.5 else -1]
                    if pair[0].name.startswith("v") and rng.random() < 0.5:
                        self.quantise(pair[0])
                        pair[0] = self.values[-1]
                    made = self.node("Add", [one.name for one in pair])
                    self._add(_Value(made, other.shape, pair[0].size + pair[1].size))
                if rng.random() < 0.6:
                    self.activate(self.values[-1], "Relu")
            if rng.random() < 0.85:
                start = len(self.values)
                self.quantise(self.values[-1])
                bases += self.values[start:]
                if not self.exact and rng.random() < 0.2:
                    self.average(self.values[-1])
                elif rng.random() < 0.2:
                    self.pool(self.values[-1], "MaxPool")
                    self.multiply(self.values[-1])
                    self.quantise(self.values[-1])

    def pick(self) -> _Value:
        """A value, a late one more often than an early one."""
        return self.values[-1 - int(len(self.values) * self.rng.random() ** 2)]

    def weight(self, array: Array) -> str:
        """An initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op_type: str, inputs: list[str], **attributes: Any) -> str:
        """A node with one output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"{op_type}_{name}", **attributes))
        return name

    def _add(self, value: _Value) -> _Value:
        self.values.append(value)
        return value

    def scale(self, size: float) -> np.float32:
        """A scale for numbers of a magnitude, of which some saturate."""
        wanted = size * self.rng.uniform(1.0, 5.0) / 127
        return np.float32(2.0 ** np.ceil(np.log2(wanted)) if self.exact else wanted)

    def quantise(self, value: _Value) -> None:
        """QuantizeLinear and DequantizeLinear, for one reader or several."""
        dtype = np.int8 if self.rng.random() < 0.5 else np.uint8
        middle = 0 if dtype is np.int8 else 128
        zero = [middle, 0, middle + int(self.rng.integers(-40, 41))][int(self.rng.integers(3))]
        step = self.scale(value.size)
        inputs = [self.weight(np.array(step)), self.weight(np.array(zero, dtype))]
        number = self.node("QuantizeLinear", [value.name, *inputs])
        self.quantised.append((value.name, inputs[0]))
        for _ in range(1 + int(self.rng.random() < 0.2)):
            self._add(_Value(self.node("DequantizeLinear", [number, *inputs]), value.shape, value.size))

    def multiply(self, value: _Value) -> None:
        """A product with quantised weights, per tensor or per channel, with a bias or without."""
        rng, images = self.rng, len(value.shape) == 4
        width = int(rng.choice([1, 3, 4, 8, 16]))
        kernel = int(rng.choice([1, 3]))
        alone = images and rng.random() < 0.2
        if images:
            width = value.shape[1] if alone else width
            shape: tuple[int, ...] = (width, 1 if alone else value.shape[1], kernel, kernel)
        else:
            shape = (value.shape[1], width)
        axis = 0 if images else 1
        each = bool(rng.random() < 0.5)
        top = 4 if self.exact else 128
        array = rng.integers(-top, top, shape).astype(np.int8)
        steps = np.full(width if each else (), 0.25) if self.exact else rng.uniform(0.003, 0.01, width if each else ())
        if self.exact and each:
            steps = 2.0 ** rng.integers(-3, 0, width)
        scale = self.weight(np.asarray(steps, np.float32))
        zero = self.weight(np.zeros(steps.shape, np.int8))
        weights = self.node("DequantizeLinear", [self.weight(array), scale, zero], axis=axis)
        inputs, form = [value.name, weights], int(rng.integers(3))
        size = value.size * float(np.sqrt(array[..., :1].size if images else 8)) * (1.0 if self.exact else 0.5)
        bias = self.weight((rng.integers(-8, 9, width) * 0.5).astype(np.float32))
        if images:
            inputs += [bias] if form else []
            made = self.node(
                "Conv", inputs, pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2, group=width if alone else 1
            )
            self._add(_Value(made, (1, width, *value.shape[2:]), size))
        else:
            made = self.node("MatMul", inputs) if form else self.node("Gemm", [*inputs, bias])
            self._add(_Value(made, (value.shape[0], width), size))

    def activate(self, value: _Value, kind: str = "") -> None:
        """An activation."""
        chosen = kind or str(
            self.rng.choice(["Relu"] if self.exact else ["Relu", "HardSwish", "Sigmoid", "LeakyRelu", "Tanh"])
        )
        self._add(_Value(self.node(chosen, [value.name]), value.shape, 1.0 if chosen in "Sigmoid Tanh" else value.size))

    def add(self, value: _Value) -> None:
        """A residual."""
        others = [one for one in self.values if one.shape == value.shape]
        other = others[int(self.rng.integers(len(others)))]
        kind = "Add" if self.exact or self.rng.random() < 0.7 else "Mul"
        size = value.size + other.size if kind == "Add" else value.size * other.size
        self._add(_Value(self.node(kind, [value.name, other.name]), value.shape, size))

    def concatenate(self, value: _Value) -> None:
        """Channels of two."""
        others = [one for one in self.values if (one.shape[0], *one.shape[2:]) == (value.shape[0], *value.shape[2:])]
        other = others[int(self.rng.integers(len(others)))]
        shape = (value.shape[0], value.shape[1] + other.shape[1], *value.shape[2:])
        made = self.node("Concat", [value.name, other.name], axis=1)
        self._add(_Value(made, shape, max(value.size, other.size)))

    def pool(self, value: _Value, kind: str = "") -> None:
        """A window."""
        if len(value.shape) < 4 or min(value.shape[2:]) < 2:
            return
        kind = kind or str(self.rng.choice(["MaxPool", "AveragePool"]))
        made = self.node(kind, [value.name], kernel_shape=[2, 2], strides=[1, 1])
        self._add(_Value(made, (*value.shape[:2], value.shape[2] - 1, value.shape[3] - 1), value.size))

    def average(self, value: _Value) -> None:
        """The mean of each channel, quantised or not."""
        made = self.node("GlobalAveragePool", [value.name])
        mean = self._add(_Value(made, (*value.shape[:2], 1, 1), value.size / 4))
        if self.rng.random() < 0.7:
            self.quantise(mean)

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        """The model with some of its values for outputs."""
        given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.input.shape)]
        wanted = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", given, wanted, self.weights)
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        )

    def feeds(self) -> Array:
        """Numbers for the input; halves of powers of two in an exact graph."""
        if self.exact:
            return np.asarray(self.rng.integers(-40, 41, self.input.shape) / np.float32(16), np.float32)
        return self.rng.standard_normal(self.input.shape).astype(np.float32)


def _draw(rng: Rng, exact: bool, residual: bool = False) -> GraphCase:
    feeds = None
    while feeds is None:
        drawing = _Drawing(rng, exact, images=residual or bool(rng.random() < 0.7))
        if residual:
            drawing.residual()
        else:
            drawing.wander()
        feeds = drawing.feeds() if exact else _far_from_ties(drawing)
    read = {name for node in drawing.nodes for name in node.input}
    outputs = [node.output[0] for node in drawing.nodes if node.output[0] not in read]
    if rng.random() < 0.2 and not residual:
        middle = drawing.values[int(rng.integers(1, len(drawing.values)))].name
        outputs += [middle] if middle not in outputs else []
    kinds = " ".join(node.op_type for node in drawing.nodes)
    return GraphCase(kinds, [feeds], graph=_named(drawing.model(outputs)))


def _named(model: onnx.ModelProto) -> onnx.ModelProto:
    """The input is called as `Case.feeds` calls it."""
    model.graph.input[0].name = "i0"
    for node in model.graph.node:
        node.input[:] = ["i0" if name == "x" else name for name in node.input]
    return model


def _far_from_ties(drawing: _Drawing) -> Array | None:
    """Feeds with which every number that is quantised is far from a tie, None where none are found."""
    scales = {weight.name: numpy_helper.to_array(weight) for weight in drawing.weights}
    names = sorted({name for name, _ in drawing.quantised if name != "x"}) or [drawing.nodes[-1].output[0]]
    options = ort_py.SessionOptions()
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.pin_cpu = True
    model = drawing.model(names).SerializeToString()
    with ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"]) as session:
        for _ in range(_DRAWS):
            feeds = drawing.feeds()
            found = dict(zip(names, session.run(None, {"x": feeds}), strict=True)) | {"x": feeds}
            if min(_distance(np.asarray(found[name]) / scales[step]) for name, step in drawing.quantised) > _NEAR:
                return feeds
    return None


def _distance(quotients: Array) -> float:
    return float(np.abs(quotients - np.floor(quotients) - 0.5).min())


def exact_graph(rng: Rng) -> GraphCase:
    """Scales are powers of two: every sum is exact, and ties are frequent."""
    return _draw(rng, exact=True)


def quantised_graph(rng: Rng) -> GraphCase:
    """Arbitrary scales, no number close to a tie."""
    return _draw(rng, exact=False)


def residual_graph(rng: Rng) -> GraphCase:
    """Residual networks with arbitrary scales, most of which OpenVINO computes in integers."""
    return _draw(rng, exact=False, residual=True)


def exact_residual_graph(rng: Rng) -> GraphCase:
    """The same with frequent ties."""
    return _draw(rng, exact=True, residual=True)


FAMILIES = {
    "exact_graph": exact_graph,
    "quantised_graph": quantised_graph,
    "exact_residual_graph": exact_residual_graph,
    "residual_graph": residual_graph,
}
