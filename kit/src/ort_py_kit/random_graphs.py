"""Random graphs of common operators, drawn from any source of choices: seeded numbers, or a search such as hypothesis.

Every graph is valid and typed, reads one float tensor, and returns the last value and a few others. Numbers stay small,
so that no operator is asked for what ONNX leaves open, such as casting a number that does not fit. It is independent of
who runs them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

T = TypeVar("T")

_UNARY = ("Abs", "Dropout", "Identity", "Neg", "Relu", "Tanh")
_BINARY = ("Add", "Max", "Min", "Mul", "Sub")
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_CASTS = (*_FLOATS, TensorProto.INT32, TensorProto.INT64)
_MOST_NODES = 14
_INPUT_SHAPE = (2, 3, 4)


class Choices(ABC):
    """Source of a graph's choices. A search that shrinks what it finds begins with the first of each."""

    @abstractmethod
    def integer(self, first: int, last: int) -> int:
        """A number from `first` to `last`, both included."""

    @abstractmethod
    def boolean(self) -> bool:
        """True or False."""

    @abstractmethod
    def one_of(self, among: Sequence[T]) -> T:
        """One of some things."""

    @abstractmethod
    def permutation(self, of: Sequence[T]) -> list[T]:
        """All of some things, in any order."""

    @abstractmethod
    def several(self, among: Sequence[T], least: int, most: int) -> list[T]:
        """From `least` to `most` of some things, which may repeat."""


class SeededChoices(Choices):
    """Random choices that a seed determines."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def integer(self, first: int, last: int) -> int:
        return int(self._generator.integers(first, last + 1))

    def boolean(self) -> bool:
        return bool(self._generator.integers(2))

    def one_of(self, among: Sequence[T]) -> T:
        return among[self.integer(0, len(among) - 1)]

    def permutation(self, of: Sequence[T]) -> list[T]:
        return [of[place] for place in self._generator.permutation(len(of))]

    def several(self, among: Sequence[T], least: int, most: int) -> list[T]:
        return [self.one_of(among) for _ in range(self.integer(least, most))]


@dataclass(slots=True)
class _Tensor:
    name: str
    shape: tuple[int, ...]
    data_type: int


@dataclass(slots=True)
class _Graph:
    """A graph being drawn. Once a node may be rounded otherwise, no number becomes an integer or a truth value, which
    would make a step of it."""

    choices: Choices
    symbolic: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    values: list[_Tensor] = field(default_factory=list)
    serial: int = 0
    exact: bool = True

    def pick(self, data_types: tuple[int, ...] = (), rank: int | None = None) -> _Tensor | None:
        """One of the values so far, late ones rather than early ones."""
        fitting = [
            one
            for one in self.values
            if (not data_types or one.data_type in data_types) and (rank is None or len(one.shape) == rank)
        ]
        if not fitting:
            return None
        back: int = self.choices.integer(0, min(4, len(fitting) - 1))
        return fitting[-1 - back]

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        """A constant, written as an initializer or as a node."""
        self.serial += 1
        name = f"c{self.serial}"
        if self.choices.boolean():
            self.constants.append(numpy_helper.from_array(array, name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        return name

    def add(
        self, op_type: str, inputs: list[str], shape: tuple[int, ...], data_type: int, **attributes: Any
    ) -> _Tensor:
        self.serial += 1
        made = _Tensor(f"v{self.serial}", shape, data_type)
        self.nodes.append(helper.make_node(op_type, inputs, [made.name], **attributes))
        self.values.append(made)
        return made


def _unary(graph: _Graph) -> None:
    source = graph.pick(_FLOATS)
    assert source is not None
    graph.add(graph.choices.one_of(_UNARY), [source.name], source.shape, source.data_type)


def _binary(graph: _Graph) -> None:
    left = graph.pick()
    assert left is not None
    right = graph.pick((left.data_type,))
    assert right is not None
    op_type = graph.choices.one_of([op for op in _BINARY if op != "Mul"])
    if right.shape != left.shape:
        right = left
    graph.add(op_type, [left.name, right.name], left.shape, left.data_type)


def _scaled(graph: _Graph) -> None:
    """A value with a constant: a neutral one often, and one that broadcasts sometimes."""
    source = graph.pick()
    assert source is not None
    dtype = helper.tensor_dtype_to_np_dtype(source.data_type)
    shape = graph.choices.one_of([(), (1,), source.shape, source.shape[-1:]])
    number = graph.choices.one_of([0, 1, 2])
    operands = [source.name, graph.constant(np.full(shape, number, dtype))]
    if graph.choices.boolean():
        operands.reverse()
    result = np.broadcast_shapes(source.shape, shape)
    made = graph.add(graph.choices.one_of(_BINARY), operands, result, source.data_type)
    if source.data_type in _FLOATS:
        graph.add("Tanh", [made.name], result, source.data_type)


def _cast(graph: _Graph) -> None:
    source = graph.pick()
    assert source is not None
    targets = _CASTS if graph.exact else _FLOATS
    for target in graph.choices.several(targets, 1, 3):
        source = graph.add("Cast", [source.name], source.shape, target, to=target)


def _transpose(graph: _Graph) -> None:
    source = graph.pick()
    assert source is not None
    for _ in range(graph.choices.integer(1, 2)):
        order = graph.choices.permutation(range(len(source.shape)))
        shape = tuple([source.shape[axis] for axis in order])
        source = graph.add("Transpose", [source.name], shape, source.data_type, perm=order)


def _reshape(graph: _Graph) -> None:
    source = graph.pick()
    assert source is not None
    for _ in range(graph.choices.integer(1, 2)):
        shape = list(graph.choices.permutation(source.shape))
        if len(shape) > 1 and graph.choices.boolean():
            shape[:2] = [shape[0] * shape[1]]
        shape.insert(graph.choices.integer(0, len(shape)), 1)
        asked = list(shape)
        if shape and graph.choices.boolean():
            asked[graph.choices.integer(0, len(shape) - 1)] = -1
        name = graph.constant(np.array(asked, np.int64))
        source = graph.add("Reshape", [source.name, name], tuple(shape), source.data_type)


def _squeeze(graph: _Graph) -> None:
    source = graph.pick()
    assert source is not None
    axis = graph.choices.integer(0, len(source.shape))
    name = graph.constant(np.array([axis], np.int64))
    shape = (*source.shape[:axis], 1, *source.shape[axis:])
    wide = graph.add("Unsqueeze", [source.name, name], shape, source.data_type)
    if graph.choices.boolean():
        narrow = graph.choices.one_of([place for place, size in enumerate(shape) if size == 1])
        name = graph.constant(np.array([narrow], np.int64))
        graph.add("Squeeze", [wide.name, name], (*shape[:narrow], *shape[narrow + 1 :]), source.data_type)


def _slice(graph: _Graph) -> None:
    source = graph.pick()
    if source is None or not source.shape:
        return
    axis = graph.choices.integer(0, len(source.shape) - 1)
    end = graph.choices.one_of([1, source.shape[axis], 2**31 - 1, 2**63 - 1])
    bounds = [graph.constant(np.array([number], np.int64)) for number in (0, end, axis)]
    shape = (*source.shape[:axis], min(end, source.shape[axis]), *source.shape[axis + 1 :])
    graph.add("Slice", [source.name, *bounds], shape, source.data_type)


def _concat(graph: _Graph) -> None:
    source = graph.pick()
    if source is None or not source.shape or math.prod(source.shape) > 500:
        return
    axis, count = graph.choices.integer(0, len(source.shape) - 1), graph.choices.integer(1, 2)
    shape = (*source.shape[:axis], source.shape[axis] * count, *source.shape[axis + 1 :])
    graph.add("Concat", [source.name] * count, shape, source.data_type, axis=axis)


def _shape(graph: _Graph) -> None:
    """A shape that is computed, and used for an Expand that changes nothing."""
    source = graph.pick()
    assert source is not None
    shape = graph.add("Shape", [source.name], (len(source.shape),), TensorProto.INT64)
    graph.values.pop()
    graph.add("Expand", [source.name, shape.name], source.shape, source.data_type)


def _matmul(graph: _Graph) -> None:
    source = graph.pick((TensorProto.FLOAT,))
    if source is None or not source.shape:
        return
    size = source.shape[-1]
    weights = np.linspace(-1, 1, size * 2, dtype=np.float32).reshape(size, 2)
    made = graph.add("MatMul", [source.name, graph.constant(weights)], (*source.shape[:-1], 2), TensorProto.FLOAT)
    bias = graph.constant(np.array([0.5, -0.5], np.float32))
    graph.add("Add", [made.name, bias], made.shape, TensorProto.FLOAT)


def _convolution(graph: _Graph) -> None:
    """A Conv with a BatchNormalization behind it."""
    source = graph.pick((TensorProto.FLOAT,), rank=3)
    if source is None:
        return
    channels = source.shape[1]
    filters = np.linspace(-1, 1, 2 * channels, dtype=np.float32).reshape(2, channels, 1)
    inputs = [source.name, graph.constant(filters)]
    made = graph.add("Conv", inputs, (source.shape[0], 2, source.shape[2]), TensorProto.FLOAT, kernel_shape=[1])
    numbers = [graph.constant(np.array(pair, np.float32)) for pair in ([1, 2], [0, 1], [0.5, 0], [1, 4])]
    graph.exact = False
    graph.add("BatchNormalization", [made.name, *numbers], made.shape, TensorProto.FLOAT)


def _branch(graph: _Graph) -> None:
    """An If whose condition is constant, or is computed."""
    source = graph.pick(_FLOATS)
    assert source is not None
    if not graph.exact or graph.choices.boolean():
        condition = graph.constant(np.array(graph.choices.boolean()))
    else:
        total = graph.add("ReduceSum", [source.name], (), source.data_type, keepdims=0)
        condition = graph.add("Cast", [total.name], (), TensorProto.BOOL, to=TensorProto.BOOL).name
        del graph.values[-2:]
    branches = {}
    for key, op_type in (("then_branch", "Identity"), ("else_branch", "Neg")):
        graph.serial += 1
        inner, out = f"n{graph.serial}", f"o{graph.serial}"
        nodes = [helper.make_node(op_type, [source.name], [inner]), helper.make_node("Identity", [inner], [out])]
        returned = helper.make_tensor_value_info(out, source.data_type, None)
        branches[key] = helper.make_graph(nodes, key, [], [returned])
    graph.add("If", [condition], source.shape, source.data_type, **branches)


_STEPS = (
    _binary,
    _branch,
    _cast,
    _concat,
    _convolution,
    _matmul,
    _reshape,
    _scaled,
    _shape,
    _slice,
    _squeeze,
    _transpose,
    _unary,
)


def random_model(choices: Choices) -> onnx.ModelProto:
    """A model with one float32 input ``x`` of shape 2 × 3 × 4, of which the first size may be declared unknown."""
    graph = _Graph(choices, symbolic=choices.boolean())
    graph.values.append(_Tensor("x", _INPUT_SHAPE, TensorProto.FLOAT))
    for step in choices.several(_STEPS, 1, _MOST_NODES):
        step(graph)
    made = graph.values[1:] or graph.values
    chosen = [made[-1], *choices.several(made, 0, 2)]
    names = {one.name: one for one in chosen if one.name != "x"}
    outputs = [helper.make_tensor_value_info(name, one.data_type, None) for name, one in names.items()]
    if not outputs:
        graph.nodes.append(helper.make_node("Identity", ["x"], ["y"]))
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    shape: list[int | str] = list(_INPUT_SHAPE)
    if graph.symbolic:
        shape[0] = "N"
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made_graph = helper.make_graph(graph.nodes, "random", [source], outputs, graph.constants)
    return helper.make_model(made_graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def random_feed() -> np.ndarray[Any, Any]:
    """The input of every model: float32, 2 × 3 × 4."""
    return np.random.default_rng(6).uniform(-1.5, 1.5, _INPUT_SHAPE).astype(np.float32)


def narrowest_type(model: onnx.ModelProto) -> np.dtype[Any]:
    """The smallest floating type that a model computes in: a double is not more exact than the float it came from."""
    targets = {attribute.i for node in model.graph.node for attribute in node.attribute if attribute.name == "to"}
    return np.dtype(np.float16 if TensorProto.FLOAT16 in targets else np.float32)
