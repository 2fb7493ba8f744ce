"""Random quantised graphs, and the exact numbers that their integers are roundings of.

Every integer that a graph computes is one of its outputs. So each node is judged by what it made of the integers that
it read, and a number at a half, which may go to either side, explains nothing behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

__all__ = ["Graph", "drawn", "in_single_operators"]

Array = np.ndarray[Any, Any]
Exact = Callable[..., Array]
_MS = "com.microsoft"
LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}
_KINDS = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


class Value(NamedTuple):
    """Integers of a graph: their name, and what they stand for."""

    name: str
    kind: str
    scale: Array
    zero: Array
    shape: tuple[int, ...]

    def real(self, integers: Array) -> Array:
        """The numbers that integers stand for, exactly."""
        return (integers.astype(np.float64) - float(self.zero)) * float(self.scale)


class Step(NamedTuple):
    """A value that is computed: from which others, by what, and at most how far it may be off, in steps."""

    value: Value
    sources: tuple[Value, ...]
    exact: Exact
    near: float = 1e-3


class Graph:
    """A graph that grows by one node between conversions at a time.

    Args:
        rng: What is drawn with.
        rank: Axes of the data.
        batch: Size of the first axis.
    """

    def __init__(self, rng: np.random.Generator, rank: int = 4, batch: int = 2) -> None:
        self.rng = rng
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.steps: list[Step] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.given: dict[str, Value] = {}
        self._count = 0
        shape = (batch, int(rng.integers(1, 9)), *(int(one) for one in rng.integers(1, 12, rank - 2)))
        self.pool = [self._start(shape)]

    # What tests ask

    def model(self, *, dynamic: bool = False) -> bytes:
        """The model, whose batch, and sizes but for the channels, are unknown if it is dynamic."""
        inputs = []
        for name, shape in self.inputs.items():
            kind = _KINDS[self.given[name].kind] if name in self.given else TensorProto.FLOAT
            sizes = [f"n{axis}" if dynamic and axis != 1 else size for axis, size in enumerate(shape)]
            inputs.append(helper.make_tensor_value_info(name, kind, sizes))
        outputs = [
            helper.make_tensor_value_info(step.value.name, _KINDS[step.value.kind], [None] * len(step.value.shape))
            for step in self.steps
        ]
        held = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, held)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()

    def feeds(self, seed: int = 0) -> dict[str, Array]:
        """Inputs."""
        rng = np.random.default_rng(seed)
        found: dict[str, Array] = {}
        for name, shape in self.inputs.items():
            if name in self.given:
                kind = self.given[name].kind
                found[name] = rng.integers(*LIMITS[kind], shape, endpoint=True).astype(kind)
            else:
                found[name] = rng.normal(0, 1.5, shape).astype(np.float32)
        return found

    def worst(self, feeds: Mapping[str, Array], results: list[Array]) -> tuple[float, str]:
        """Return the largest distance of results from exact ones, in steps beyond a half, and where it is."""
        known = dict(feeds) | {step.value.name: one for step, one in zip(self.steps, results, strict=True)}
        worst, place = -1.0, ""
        for step in self.steps:
            value = step.value
            found = known[value.name]
            sources = [known[one.name] if one.kind == "float" else one.real(known[one.name]) for one in step.sources]
            exact = step.exact(*sources) / float(value.scale) + float(value.zero)
            wanted = np.clip(exact, *LIMITS[value.kind])
            assert found.shape == wanted.shape, f"{value.name}: {found.shape} instead of {wanted.shape}"
            assert found.dtype.name == value.kind, value.name
            far = float(np.abs(found.astype(np.float64) - wanted).max(initial=0)) - 0.5 - step.near
            if far > worst:
                worst, place = far, value.name
        return worst, place

    def grow(self) -> None:
        """Add a node."""
        source = self.pool[int(self.rng.integers(len(self.pool)))]
        choices = [self._add_sum, self._add_function, self._add_movement, self._add_requantised, self._add_mean]
        if len(source.shape) > 2:
            choices += [self._add_convolution] * 5 + [self._add_pool] * 2
        else:
            choices += [self._add_product] * 3
        choices[int(self.rng.integers(len(choices)))](source)

    # Parts

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def _held(self, stem: str, array: Array) -> str:
        name = self._name(stem)
        self.constants[name] = array
        return name

    def _grid(self, kind: str, span: float) -> tuple[Array, Array]:
        """A scale at which numbers of a span fill the integers, more or less, and any zero point."""
        scale = span / 256 * float(np.exp(self.rng.uniform(-0.7, 0.7)))
        if self.rng.random() < 0.25:
            scale = 2.0 ** round(math.log2(scale))
        zero = self.rng.choice([0, LIMITS[kind][0], 128 if kind == "uint8" else 0, 1 << 20])
        if zero == 1 << 20:
            zero = self.rng.integers(*LIMITS[kind], endpoint=True)
        return np.array(scale, np.float32), np.array(zero, kind)

    def _start(self, shape: tuple[int, ...]) -> Value:
        kind = str(self.rng.choice(["int8", "uint8"]))
        scale, zero = self._grid(kind, 6.0)
        name = self._name("in")
        self.inputs[name] = shape
        if self.rng.random() < 0.4:
            self.given[name] = Value(name, kind, scale, zero, shape)
            return self.given[name]
        value = Value(self._name("q"), kind, scale, zero, shape)
        self._quantised(name, value)
        real = Value(name, "float", scale, zero, shape)
        self.steps.append(Step(value, (real,), lambda x: x.astype(np.float64), 1e-5))
        return value

    def _quantised(self, name: str, value: Value) -> None:
        inputs = [name, self._held("s", value.scale), self._held("z", value.zero)]
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, [value.name]))

    def _real(self, value: Value) -> str:
        """A DequantizeLinear of its own, as exporters write it."""
        name = self._name("d")
        inputs = [value.name, self._held("s", value.scale), self._held("z", value.zero)]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [name]))
        return name

    def _finish(
        self, name: str, sources: tuple[Value, ...], exact: Exact, shape: tuple[int, ...], span: float, **more: Any
    ) -> None:
        """Perhaps limits, and the conversion to integers."""
        low, high = -np.inf, np.inf
        if self.rng.random() < 0.35:
            limited = self._name("l")
            if self.rng.random() < 0.5:
                self.nodes.append(helper.make_node("Relu", [name], [limited]))
                low = 0.0
            else:
                low, high = (float(np.float32(one)) for one in sorted(self.rng.normal(0, span / 4, 2)))
                bounds = [self._held("c", np.array(one, np.float32)) for one in (low, high)]
                self.nodes.append(helper.make_node("Clip", [name, *bounds], [limited]))
            name = limited
        kind = str(self.rng.choice(["int8", "uint8"]))
        scale, zero = more.get("grid") or self._grid(kind, span)
        value = Value(self._name("q"), zero.dtype.name, scale, zero, shape)
        self._quantised(name, value)
        self.steps.append(Step(value, sources, lambda *all_of: np.clip(exact(*all_of), low, high)))
        self.pool.append(value)

    def _weights(self, shape: tuple[int, ...], axis: int) -> tuple[str, Array, Array]:
        """The name of dequantised weights, what they are, and their scales."""
        rng = self.rng
        kind = str(rng.choice(["int8", "int8", "uint8"]))
        middle = 0 if kind == "int8" else 128
        most = 127 if rng.random() < 0.9 else 128
        numbers = np.clip(rng.integers(-most, 128, shape) + middle, *LIMITS[kind]).astype(kind)
        if rng.random() < 0.1:
            middle += int(rng.integers(-3, 4))
        several = rng.random() < 0.6
        scales = np.exp(rng.uniform(-6, -3, shape[axis] if several else ())).astype(np.float32)
        zeros = np.full(scales.shape, middle, kind)
        inputs = [self._held("w", numbers), self._held("s", scales)]
        if middle or rng.random() < 0.5:
            inputs.append(self._held("z", zeros))
        name = self._name("d")
        more: dict[str, Any] = {"axis": axis} if several else {}
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [name], **more))
        laid = [1] * len(shape)
        laid[axis] = -1
        wide = np.broadcast_to(scales.reshape(-1), shape[axis]).astype(np.float64)
        return name, (numbers.astype(np.float64) - middle) * wide.reshape(laid), wide

    def _bias(self, source: Value, scales: Array) -> tuple[list[str], Array]:
        drawn_kind = self.rng.choice(["none", "integers", "integers", "floats"])
        if drawn_kind == "none":
            return [], np.zeros(scales.size)
        if drawn_kind == "floats":
            bias = self.rng.normal(0, 0.5, scales.size).astype(np.float32)
            return [self._held("b", bias)], bias.astype(np.float64)
        units = (scales * float(source.scale)).astype(np.float32)
        numbers = self.rng.integers(-3000, 3000, scales.size).astype(np.int32)
        name = self._name("d")
        inputs = [self._held("b", numbers), self._held("s", units)]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [name], axis=0))
        return [name], numbers * units.astype(np.float64)

    def _add_convolution(self, source: Value) -> None:
        rng, count = self.rng, len(source.shape) - 2
        channels = source.shape[1]
        group = int(rng.choice([one for one in range(1, channels + 1) if channels % one == 0]))
        group = channels if rng.random() < 0.25 else group
        outputs = group * int(rng.integers(1, 4))
        kernel = [int(one) for one in rng.integers(1, 4, count)]
        strides, dilations = ([int(one) for one in rng.integers(1, 3, count)] for _ in range(2))
        pads = [int(one) for one in rng.integers(0, 3, 2 * count)]
        reach = [(one - 1) * step + 1 for one, step in zip(kernel, dilations, strict=True)]
        sizes = [size + pads[axis] + pads[axis + count] - reach[axis] for axis, size in enumerate(source.shape[2:])]
        if min(sizes) < 0:
            return
        weight, w, scales = self._weights((outputs, channels // group, *kernel), 0)
        more, bias = self._bias(source, scales)
        name = self._name("y")
        window: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads, "group": group}
        self.nodes.append(helper.make_node("Conv", [self._real(source), weight, *more], [name], **window))
        shape = (source.shape[0], outputs, *(size // step + 1 for size, step in zip(sizes, strides, strict=True)))

        def exact(x: Array) -> Array:
            return _convolved(x, w, group, strides, dilations, pads) + bias.reshape(-1, *[1] * count)

        span = 2 * 256 * float(source.scale) * math.sqrt(float((w[0] ** 2).sum())) + 0.1
        self._finish(name, (source,), exact, shape, span)

    def _add_product(self, source: Value) -> None:
        depth, columns = source.shape[-1], int(self.rng.integers(1, 20))
        is_gemm = len(source.shape) == 2 and self.rng.random() < 0.7
        across = is_gemm and self.rng.random() < 0.5
        weight, w, scales = self._weights((columns, depth) if across else (depth, columns), 0 if across else 1)
        more, bias = self._bias(source, scales) if is_gemm else ([], np.zeros(columns))
        name = self._name("y")
        inputs = [self._real(source), weight, *more]
        if is_gemm:
            self.nodes.append(helper.make_node("Gemm", inputs, [name], transB=int(across)))
        else:
            self.nodes.append(helper.make_node("MatMul", inputs, [name]))
        held = w.T if across else w
        span = 2 * 256 * float(source.scale) * math.sqrt(float((held[:, 0] ** 2).sum())) + 0.1
        self._finish(name, (source,), lambda x: x @ held + bias, (*source.shape[:-1], columns), span)

    def _add_sum(self, source: Value) -> None:
        others = [one for one in self.pool if one.shape == source.shape]
        other = others[int(self.rng.integers(len(others)))]
        op_type = str(self.rng.choice(["Add", "Sub", "Mul"]))
        exact = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[op_type]
        reach = [256 * float(one.scale) for one in (source, other)]
        span = reach[0] * reach[1] / 2 if op_type == "Mul" else sum(reach)
        name = self._name("y")
        if self.rng.random() < 0.25:
            shape = tuple(size if self.rng.random() < 0.5 else 1 for size in source.shape)
            kind = str(self.rng.choice(["int8", "uint8"]))
            scale, zero = self._grid(kind, 256 * float(other.scale))
            held = Value(self._name("k"), kind, scale, zero, shape)
            self.constants[held.name] = self.rng.integers(*LIMITS[kind], shape, endpoint=True).astype(kind)
            constant = held.real(self.constants[held.name])
            self.nodes.append(helper.make_node(op_type, [self._real(source), self._real(held)], [name]))
            self._finish(name, (source,), lambda x: exact(x, constant), source.shape, span)
            return
        self.nodes.append(helper.make_node(op_type, [self._real(source), self._real(other)], [name]))
        self._finish(name, (source, other), exact, source.shape, span)

    def _add_function(self, source: Value) -> None:
        op_type = str(self.rng.choice(["Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Relu", "Abs", "Softmax"]))
        name = self._name("y")
        self.nodes.append(helper.make_node(op_type, [self._real(source)], [name]))
        span = 2.2 if op_type in {"Sigmoid", "Tanh", "Softmax"} else 256 * float(source.scale)
        self._finish(name, (source,), _FUNCTIONS[op_type], source.shape, span)

    def _add_requantised(self, source: Value) -> None:
        self._finish(self._real(source), (source,), lambda x: x, source.shape, 256 * float(source.scale))

    def _add_mean(self, source: Value) -> None:
        if len(source.shape) < 3:
            return
        name, axes = self._name("y"), tuple(range(2, len(source.shape)))
        keep = bool(self.rng.random() < 0.5)
        if keep and self.rng.random() < 0.5:
            self.nodes.append(helper.make_node("GlobalAveragePool", [self._real(source)], [name]))
        else:
            which = self._held("a", np.array(axes, np.int64))
            self.nodes.append(helper.make_node("ReduceMean", [self._real(source), which], [name], keepdims=int(keep)))
        shape = source.shape[:2] + ((1,) * len(axes) if keep else ())
        exact = lambda x: x.mean(axes, keepdims=keep)  # noqa: E731 - one of many
        self._finish(name, (source,), exact, shape, 256 * float(source.scale))

    def _add_pool(self, source: Value) -> None:
        count = len(source.shape) - 2
        kernel = [int(one) for one in self.rng.integers(1, 4, count)]
        strides = [int(one) for one in self.rng.integers(1, 3, count)]
        sizes = [(size - one) // step for size, one, step in zip(source.shape[2:], kernel, strides, strict=True)]
        if min(sizes) < 0 or kernel == [1] * count:
            return
        largest = bool(self.rng.random() < 0.5)
        name = self._name("y")
        op_type = "MaxPool" if largest else "AveragePool"
        self.nodes.append(helper.make_node(op_type, [self._real(source)], [name], kernel_shape=kernel, strides=strides))
        shape = (*source.shape[:2], *(size + 1 for size in sizes))
        axes = tuple(range(-count, 0))

        def exact(x: Array) -> Array:
            windows = np.lib.stride_tricks.sliding_window_view(x, kernel, tuple(range(2, 2 + count)))
            chosen = windows[(slice(None), slice(None), *(slice(None, None, one) for one in strides))]
            return np.asarray(chosen.max(axes) if largest else chosen.mean(axes))

        same = {"grid": (source.scale, source.zero)} if largest and self.rng.random() < 0.7 else {}
        self._finish(name, (source,), exact, shape, 256 * float(source.scale), **same)

    def _add_movement(self, source: Value) -> None:
        rank, name = len(source.shape), self._name("y")
        same = {"grid": (source.scale, source.zero)} if self.rng.random() < 0.7 else {}
        span = 256 * float(source.scale)
        match self.rng.choice(["Transpose", "Flatten", "Concat", "Slice", "Reshape"]):
            case "Transpose":
                axes = [0, *(1 + int(one) for one in self.rng.permutation(rank - 1))]
                self.nodes.append(helper.make_node("Transpose", [self._real(source)], [name], perm=axes))
                shape = tuple(source.shape[axis] for axis in axes)
                self._finish(name, (source,), lambda x: x.transpose(axes), shape, span, **same)
            case "Flatten":
                self.nodes.append(helper.make_node("Flatten", [self._real(source)], [name]))
                shape = (source.shape[0], math.prod(source.shape[1:]))
                self._finish(name, (source,), lambda x: x.reshape(shape), shape, span, **same)
            case "Reshape":
                wanted = self._held("n", np.array([0, -1, 1], np.int64))
                self.nodes.append(helper.make_node("Reshape", [self._real(source), wanted], [name]))
                wide = (source.shape[0], math.prod(source.shape[1:]), 1)
                self._finish(name, (source,), lambda x: x.reshape(wide), wide, span, **same)
            case "Slice":
                axis = int(self.rng.integers(1, rank))
                end = int(self.rng.integers(1, source.shape[axis] + 1))
                numbers = [self._held("n", np.array([one], np.int64)) for one in (0, end, axis)]
                self.nodes.append(helper.make_node("Slice", [self._real(source), *numbers], [name]))
                shape = (*source.shape[:axis], end, *source.shape[axis + 1 :])
                exact = lambda x: np.take(x, np.arange(end), axis)  # noqa: E731 - one of many
                self._finish(name, (source,), exact, shape, span, **same)
            case _:
                others = [one for one in self.pool if one.shape == source.shape]
                other = others[int(self.rng.integers(len(others)))]
                joined = [self._real(source), self._real(other)]
                self.nodes.append(helper.make_node("Concat", joined, [name], axis=1))
                shape = (source.shape[0], 2 * source.shape[1], *source.shape[2:])
                exact = lambda *both: np.concatenate(both, 1)  # noqa: E731 - one of many
                self._finish(name, (source, other), exact, shape, span, **same)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


_FUNCTIONS: dict[str, Exact] = {
    "Abs": np.abs,
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda x: np.where(x < 0, float(np.float32(0.01)) * x, x),
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softmax": _softmax,
    "Tanh": np.tanh,
}


def _convolved(x: Array, w: Array, group: int, strides: list[int], dilations: list[int], pads: list[int]) -> Array:
    """A convolution of one or two axes."""
    count = x.ndim - 2
    if count == 1:
        made = _convolved(x[:, :, None], w[:, :, None], group, [1, *strides], [1, *dilations], [0, pads[0], 0, pads[1]])
        return made[:, :, 0]
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    reach = [(one - 1) * step + 1 for one, step in zip(w.shape[2:], dilations, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    batch, channels, height, width = windows.shape[:4]
    parts = windows.reshape(batch, group, channels // group, height, width, *w.shape[2:])
    held = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    made = np.einsum("ngchwij,gocij->ngohw", parts, held)
    return np.asarray(made.reshape(batch, w.shape[0], height, width))


def drawn(seed: int) -> Graph:
    """A random graph of up to six nodes between conversions."""
    rng = np.random.default_rng(seed)
    graph = Graph(rng, int(rng.choice([2, 3, 4, 4, 4])), int(rng.integers(1, 4)))
    for _ in range(int(rng.integers(1, 7))):
        graph.grow()
    return graph


_SINGLE = {
    "Add": "QLinearAdd",
    "AveragePool": "QLinearAveragePool",
    "Concat": "QLinearConcat",
    "Conv": "QLinearConv",
    "Gemm": "QGemm",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
    "LeakyRelu": "QLinearLeakyRelu",
    "MatMul": "QLinearMatMul",
    "Mul": "QLinearMul",
    "Sigmoid": "QLinearSigmoid",
    "Softmax": "QLinearSoftmax",
}
_OF_ANY_TYPES = {"Conv", "Gemm", "MatMul"}
"""Operators whose operands and results may have a sign or not, each by itself."""


def in_single_operators(graph: Graph) -> int:
    """Write operators between conversions as the operators on integers that stand for them; return how many there are.

    Args:
        graph: The graph, which is changed.
    """
    makers = {name: node for node in graph.nodes for name in node.output}
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    kinds = {step.value.name: step.value.kind for step in graph.steps} | {
        name: value.kind for name, value in graph.given.items()
    }
    kinds |= {name: array.dtype.name for name, array in graph.constants.items()}
    gone: list[str] = []
    changed = 0
    for place, node in enumerate(list(graph.nodes)):
        (last,) = readers.get(node.output[0], [None]) if len(readers.get(node.output[0], [])) == 1 else [None]
        operands = [makers.get(name) for name in node.input]
        if node.op_type not in _SINGLE or last is None or last.op_type != "QuantizeLinear":
            continue
        if any(one is None or one.op_type != "DequantizeLinear" for one in operands):
            continue
        sources = [one for one in operands if one is not None]
        of_one_type = len({kinds[one.input[0]] for one in sources} | {kinds[last.output[0]]}) == 1
        if not of_one_type and node.op_type not in _OF_ANY_TYPES:
            continue
        changed += 1
        added = [sources.pop().input[0]] if node.op_type in {"Conv", "Gemm"} and len(sources) == 3 else []
        read = [name for one in sources for name in _operand(graph, one)]
        written = list(last.input[1:])
        match node.op_type:
            case "Concat":
                inputs = [*written, *read]
            case "Gemm":
                inputs = [*read, *(added or [""]), *written]
            case _:
                inputs = [*read, *written, *added]
        domain = "" if node.op_type in {"Conv", "MatMul"} else _MS
        made = helper.make_node(_SINGLE[node.op_type], inputs, [last.output[0]], domain=domain)
        made.attribute.extend(node.attribute)
        if node.op_type == "Softmax":
            made.attribute.append(helper.make_attribute("opset", 13))
            if not node.attribute:
                made.attribute.append(helper.make_attribute("axis", -1))
        graph.nodes[place] = made
        gone += [last.output[0]]
    graph.nodes[:] = [node for node in graph.nodes if node.op_type != "QuantizeLinear" or node.output[0] not in gone]
    used = {name for node in graph.nodes for name in node.input}
    graph.nodes[:] = [node for node in graph.nodes if node.op_type != "DequantizeLinear" or node.output[0] in used]
    return changed


def _operand(graph: Graph, node: NodeProto) -> list[str]:
    """Integers, their scale and a zero point, which operators on integers always have."""
    found = list(node.input)
    if len(found) == 2:
        numbers = graph.constants[found[0]]
        found.append(f"{node.output[0]}/no zero point")
        graph.constants[found[-1]] = np.zeros(graph.constants[found[1]].shape, numbers.dtype)
    return found
