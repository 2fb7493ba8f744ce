"""A region's nodes as fused operations.

Functions of one argument, sums with residuals and products with gates are drawn into the operation that makes their
first argument, if it has no other reader. An operation that took another operand runs where that operand's reader
stood, so everything it reads is there. Shapes are not considered here: whether an operand only broadcasts is decided
when a plan is made, and an operation that one primitive cannot do is split into several.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import NodeSpec, RegionView
from ort_py_onednn.binding.constants import Binary, Eltwise
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.graph.expansion import expand
from ort_py_onednn.graph.functions import UNARY, constant_operand, linear, merged
from ort_py_onednn.graph.integers import Derived
from ort_py_onednn.graph.operation import Combine, Operation, Post
from ort_py_onednn.graph.shape_values import WHOLE, is_shape_operator

__all__ = ["BINARY", "Fused"]

BINARY = {
    "Add": Binary.ADD,
    "Sub": Binary.SUB,
    "Mul": Binary.MUL,
    "Div": Binary.DIV,
    "Max": Binary.MAX,
    "Min": Binary.MIN,
}
"""ONNX operators of two arguments; Max and Min take more, which is a chain."""

_LOOKED_BACK = 3
"""Functions at the end of a chain that may merge with new ones. Those before were looked at when they were the end."""

_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
_Shapes = tuple[Any, ...]
"""Shapes of both operands and of the result, None where unknown."""

_COMMUTES = frozenset({Binary.ADD, Binary.MUL, Binary.MAX, Binary.MIN})
_TAKES_POSTS = frozenset(
    {
        "Conv",
        "ConvTranspose",
        "DequantizeLinear",
        "DigitMatMul",
        "Gemm",
        "MatMul",
        "QuantizedConv",
        "QuantizedMatMul",
        "WindowSums",
        "binary",
        "eltwise",
    }
)
_MOST_POSTS = 24
"""oneDNN takes 32 post-ops; some stand for two."""


class Fused:
    """Operations in order, and the constants that fusing made.

    Attributes:
        nodes: The region's, fused operators written out.
        operations: In the order in which they run.
        constants: New constants by name.
        derived: What is read of constants of the model in another form, by name.
        known: Values that follow from shapes.
    """

    def __init__(self, region: RegionView, *, fast_math: bool = False) -> None:
        self._fast_math = fast_math
        self.operations: list[Operation] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.derived: dict[str, Derived] = {}
        self._region = region
        self._producer: dict[str, Operation] = {}
        self._uses: dict[str, int] = {value.name: 1 for value in region.outputs}
        self.nodes = [step for node in region.nodes for step in expand(node) or ()]
        self.known: set[str] = set()
        self._following = {value.name for value in region.inputs if value.data_type in WHOLE}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    self._uses[value.name] = self._uses.get(value.name, 0) + 1

    def add(self, node: NodeSpec) -> None:
        """Append a node, or draw it into what is there."""
        if is_shape_operator(node, self._following, self._region.constant):
            (made,) = self._append(_written(node, "shape:")).outputs
            self.known.add(made)
            self._following.add(made)
        elif node.op_type in UNARY:
            self._function(node, UNARY[node.op_type](node.attributes))
        elif node.op_type == "Clip":
            self._function(node, [self._clip(node)])
        elif node.op_type in BINARY:
            self._binary(node)
        elif node.op_type == "Pow":
            self._function(node, [Function(Eltwise.POW, 1.0, self._number(_input(node, 1)) or 0.0)])
        elif node.op_type == "Sum":
            self._chain(node, Binary.ADD)
        elif node.op_type == "ConstantOfShape" and self._region.constant(_input(node, 0)) is not None:
            self._filled(node)
        elif node.op_type == "BatchNormalization":
            self._batch_normalization(node)
        elif node.op_type in _RECURRENT:
            from ort_py_onednn.graph.recurrent import recurrent_operation  # most regions have no such layer

            operation, constants = recurrent_operation(node, self._region)
            self.constants.update(constants)
            self._append(operation)
        else:
            self._append(_written(node))

    # How an operation gets in -----------------------------------------------------------------------------------------

    def _append(self, operation: Operation) -> Operation:
        self.operations.append(operation)
        for name in operation.outputs:
            self._producer[name] = operation
        return operation

    def _host(self, name: str, uses: int = 1) -> Operation | None:
        """The operation that makes a value, where it may take what is done with it."""
        operation = self._producer.get(name)
        if operation is None or operation.kind not in _TAKES_POSTS or self._uses.get(name, 0) != uses:
            return None
        return operation if len(operation.posts) < _MOST_POSTS else None

    def _renamed(self, operation: Operation, output: str) -> None:
        self._producer.pop(operation.outputs[0], None)
        operation.outputs = (output, *operation.outputs[1:])
        self._producer[output] = operation

    def _function(self, node: NodeSpec, functions: list[Function]) -> None:
        self._apply(node.name, _input(node, 0), _output(node), functions)

    def _apply(self, title: str, source: str, output: str, functions: list[Function], uses: int = 1) -> None:
        host = self._host(source, uses)
        if host is None:
            self._append(Operation("eltwise", title, (source,), (output,), posts=self._merged(functions)))
            return
        tail: list[Function] = []
        while len(tail) < _LOOKED_BACK and host.posts and isinstance(last := host.posts[-1], Function):
            tail.insert(0, last)
            host.posts.pop()
        host.posts += self._merged([*tail, *functions])
        self._renamed(host, output)

    def _merged(self, functions: list[Function]) -> list[Post]:
        return list(merged(functions, freely=self._fast_math))

    # Functions of two arguments ---------------------------------------------------------------------------------------

    def _binary(self, node: NodeSpec) -> None:
        algorithm = BINARY[node.op_type]
        if len(node.inputs) != 2:
            self._chain(node, algorithm)
            return
        first, second, output = _input(node, 0), _input(node, 1), _output(node)
        values = (*node.inputs, node.outputs[0])
        self._two(
            node.name, algorithm, first, second, output, tuple(None if one is None else one.shape for one in values)
        )

    def _chain(self, node: NodeSpec, algorithm: Binary) -> None:
        """Max, Min and Sum of any number of values."""
        names = [value.name for value in node.inputs if value is not None]
        if len(names) == 1:
            self._apply(node.name, names[0], _output(node), [])
            return
        left = names[0]
        for index, right in enumerate(names[1:], 1):
            last = index == len(names) - 1
            output = _output(node) if last else f"{_output(node)}:{index}"
            self._uses.setdefault(output, 1)
            self._two(node.name, algorithm, left, right, output)
            left = output

    def _two(
        self, title: str, algorithm: Binary, first: str, second: str, output: str, shapes: _Shapes | None = None
    ) -> None:
        for name, other, is_first in ((first, second, True), (second, first, False)):
            scalar = shapes is None or shapes[is_first] is None or not len(shapes[is_first])
            number = self._number(name, 0 if scalar else 1)
            function = None if number is None else constant_operand(algorithm, number, first=is_first)
            if function is not None:
                self._apply(title, other, output, [function])
                return
            if (
                algorithm == Binary.DIV
                and not is_first
                and number is not None
                and self._hard_swish(other, number, output)
            ):
                return
        if algorithm == Binary.MUL and self._gate(title, first, second, output):
            return
        if first == second and algorithm == Binary.MUL:
            self._apply(title, first, output, [Function(Eltwise.SQUARE)], 2)
            return
        for value, other in self._hosts(algorithm, first, second, shapes):
            host = self._producer[value]
            host.posts.append(Combine(algorithm, other))
            self._renamed(host, output)
            # It runs where this node stood: there the other operand is made already.
            self.operations.remove(host)
            self.operations.append(host)
            return
        self._append(Operation("binary", title, (first, second), (output,), {"algorithm": algorithm}))

    def _hosts(self, algorithm: Binary, first: str, second: str, shapes: _Shapes | None) -> list[tuple[str, str]]:
        """(value, other) where the operation that makes the value may take the other: products before what is cheap."""
        found: list[tuple[str, str]] = []
        for place, (value, other) in enumerate(((first, second), (second, first))):
            if self._host(value) is None or (place == 1 and algorithm not in _COMMUTES):
                continue
            if (
                shapes is not None
                and shapes[place] is not None
                and shapes[2] is not None
                and shapes[place] != shapes[2]
            ):
                continue  # the other operand has more elements: the result would not be the host's
            found.append((value, other))
        return sorted(found, key=lambda pair: self._producer[pair[0]].kind in {"eltwise", "binary"})

    def _hard_swish(self, product: str, divisor: float, output: str) -> bool:
        """x · clip(x + 3, 0, 6) / 6: HardSwish by definition, so that the factor and the divisor are left out."""
        host = self._host(product)
        if host is None or len(host.posts) < 2:
            return False
        function, scale = host.posts[-2:]
        if not isinstance(function, Function) or function.algorithm != Eltwise.HARDSWISH or scale != linear(divisor):
            return False
        host.posts.pop()
        self._renamed(host, output)
        return True

    def _gate(self, title: str, first: str, second: str, output: str) -> bool:
        """x · σ(x) and x · clip(a·x + b): Swish and HardSwish, where the gate is an operation of its own."""
        for value, gate in ((first, second), (second, first)):
            operation = self._producer.get(gate)
            if (
                operation is None
                or operation.kind != "eltwise"
                or operation.inputs != (value,)
                or self._uses.get(gate) != 1
                or operation.posts_read()
            ):
                continue
            inner = [post for post in operation.posts if isinstance(post, Function)]
            functions = _gated(inner) if len(inner) == len(operation.posts) else None
            if functions is None or len(functions) == 0:
                continue
            self.operations.remove(operation)
            del self._producer[gate]
            self._apply(title, value, output, functions, 2)
            return True
        return False

    # Operators that become others -------------------------------------------------------------------------------------

    def _clip(self, node: NodeSpec) -> Function:
        low, high = node.attributes.get("min"), node.attributes.get("max")
        if node.since_version >= 11:
            low = self._number(_input(node, 1)) if len(node.inputs) > 1 else None
            high = self._number(_input(node, 2)) if len(node.inputs) > 2 else None
        above = np.inf if high is None else float(high)
        # Where the bounds contradict each other the upper one is the result; oneDNN refuses such bounds.
        return Function(Eltwise.CLIP_V2, -np.inf if low is None else min(float(low), above), above)

    def _filled(self, node: NodeSpec) -> None:
        """A constant that is too large to be folded, as the weights of some test models: made once, when compiling."""
        shape = self._region.constant(_input(node, 0))
        value = node.attributes.get("value")
        number = np.float32(0) if value is None else np.asarray(value).reshape(())
        self.constants[_output(node)] = np.broadcast_to(np.float32(number), [int(dim) for dim in np.asarray(shape)])

    def _batch_normalization(self, node: NodeSpec) -> None:
        """(x - mean) / √(variance + ε) · scale + bias, as one product and one sum of channels."""
        scale, bias, mean, variance = (
            np.asarray(self._region.constant(_input(node, place)), np.float64) for place in (1, 2, 3, 4)
        )
        factor = scale / np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
        names = f"{node.name}:factor", f"{node.name}:offset"
        self.constants[names[0]] = factor.astype(np.float32)
        self.constants[names[1]] = (bias - mean * factor).astype(np.float32)
        source, output = _input(node, 0), _output(node)
        host = self._host(source)
        if host is None:
            host = self._append(Operation("eltwise", node.name, (source,), (output,)))
        host.posts += [Combine(_PER_CHANNEL | Binary.MUL, names[0]), Combine(_PER_CHANNEL | Binary.ADD, names[1])]
        self._renamed(host, output)

    def _number(self, name: str, rank: int = 1) -> float | None:
        """A constant of one element with at most `rank` dimensions, so that broadcasting adds none."""
        array = self.constants.get(name)
        if array is None:
            array = self._region.constant(name) if name else None
        if array is None or array.size != 1 or array.ndim > rank:
            return None
        return float(array.reshape(()))


_SMALL = 16.0
"""A summand that rounds nothing of note."""

_PER_CHANNEL = 1 << 24
"""Bit of an algorithm: the operand is a vector of channels, dimension 1, whatever the rank."""


def _gated(functions: list[Function]) -> list[Function] | None:
    """x · f(x) as a chain, for the f that oneDNN has it for."""
    if len(functions) == 1:
        (only,) = functions
        if only.algorithm == Eltwise.LOGISTIC:
            return [Function(Eltwise.SWISH, 1.0)]
        if only.algorithm == Eltwise.HARDSIGMOID:
            return [Function(Eltwise.HARDSWISH, only.alpha, only.beta)]
    if len(functions) > 2 and functions[0].algorithm == functions[1].algorithm == Eltwise.LINEAR:
        # x / 6 + 1/2: between bounds as small as these it makes no difference that it is rounded once.
        functions = [*merged(functions[:2], freely=abs(functions[1].beta) <= _SMALL), *functions[2:]]
    if len(functions) in {2, 3}:
        # clip(x + 3, 0, 6), perhaps over 6 already: top · hardsigmoid((x + 3) / 6).
        first, second = functions[:2]
        scale = functions[2] if len(functions) == 3 else linear(1.0)
        if (
            first.algorithm == Eltwise.LINEAR
            and second.algorithm in {Eltwise.CLIP, Eltwise.CLIP_V2}
            and scale.algorithm == Eltwise.LINEAR
            and scale.beta == 0
            and second.alpha == 0
            and 0 < second.beta < np.inf
        ):
            top = second.beta
            return [Function(Eltwise.HARDSWISH, first.alpha / top, first.beta / top), linear(top * scale.alpha)]
    return None


def _written(node: NodeSpec, family: str = "") -> Operation:
    return Operation(
        f"{family}{node.op_type}",
        node.name,
        tuple(None if value is None else value.name for value in node.inputs),
        tuple("" if value is None else value.name for value in node.outputs),
        node.attributes,
        node.since_version,
    )


def _input(node: NodeSpec, place: int) -> str:
    value = node.inputs[place] if place < len(node.inputs) else None
    return "" if value is None else value.name


def _output(node: NodeSpec) -> str:
    value = node.outputs[0]
    assert value is not None
    return value.name
