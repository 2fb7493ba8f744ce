"""Conversions between integers and numbers, drawn into the operations around them, so that integers stay integers.

A DequantizeLinear is not run where its reader can take the integers: averages do, sums take them as a second operand,
and what only moves elements moves them. A QuantizeLinear ends the product in front of it. What has no integer form gets
its numbers from an operation of its own. Every rounding and clipping of the model is kept: a product whose integers are
turned back rounds and clips in its chain. Comes on top of `fusion` and before `quantization`, which knows the products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ort_py.contracts import NodeSpec, RegionView
from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import Binary, Element, Eltwise
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.graph.functions import before_bytes, is_moderate, linear, merged, rounded
from ort_py_onednn.graph.fusion import Fused
from ort_py_onednn.graph.holding import LIMITS, Holding, holding
from ort_py_onednn.graph.integers import BYTES, Array, Dequantized, Numbers, numbers_of
from ort_py_onednn.graph.operation import Combine, Operation, Result

__all__ = ["FLOAT", "Conversions", "Rules", "Waiting", "name_of", "output_of", "single"]

FLOAT = np.float32
_ENDS = frozenset({"QuantizedConv", "QuantizedMatMul", "WindowSums"})
"""Operations that can write integers."""

_GOES_ON = frozenset({"QuantizedConv", "QuantizedMatMul"})
"""Those of them that can round in the middle of any chain; the others can in front of a sum."""

_SMALL = 4096
"""Elements up to which a constant is dequantised at once: it may be read while operations are drawn together."""

_BOUNDS = frozenset({"Clip", "LeakyRelu", "Relu"})
_MOVES = frozenset(
    {"Concat", "Flatten", "Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
Rules: TypeAlias = Mapping[str, Callable[[Any, NodeSpec], bool]]
"""By operator: whether the node was dealt with."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A DequantizeLinear that has not been run: the integers, what they stand for, and whether they are a constant."""

    integers: str
    numbers: Numbers
    element: Element | None
    array: Array | None = None


class Conversions(Fused):
    """`Fused` that knows what integers stand for."""

    def __init__(self, region: RegionView, *, fast_math: bool = False) -> None:
        super().__init__(region, fast_math=fast_math)
        self._waiting: dict[str, Waiting] = {}
        self._readers: dict[str, list[NodeSpec]] = {}
        self._done: set[str] = set()
        self._covered: set[str] = set()
        self._held: dict[str, Holding] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    self._readers.setdefault(value.name, []).append(node)

    def add(self, node: NodeSpec) -> None:
        """Append a node, or draw it into what is there."""
        if self._covered and output_of(node) in self._covered:
            return  # computed with the node before it
        rule = self.rules.get(node.op_type)
        if rule is not None and rule(self, node):
            return
        for value in node.inputs:
            if value is not None:
                self._real(value.name)
        held = self._held.get(name_of(node, 0))
        if held is not None and node.op_type in _MOVES:
            self._held[output_of(node)] = held
        super().add(node)

    def finish(self) -> None:
        """Run the conversions whose results leave the region."""
        for value in self._region.outputs:
            self._real(value.name)

    def _host(self, name: str, uses: int = 1) -> Operation | None:
        operation = super()._host(name, uses)
        return None if operation is None or operation.result is not None else operation

    # Conversions ------------------------------------------------------------------------------------------------------

    def _dequantize(self, node: NodeSpec) -> bool:
        name, output = name_of(node, 0), output_of(node)
        value = node.inputs[0]
        numbers = numbers_of(node, self._region.constant)
        assert numbers is not None, "claimed with constants"
        assert value is not None
        array = None if name in self._producer else self._region.constant(name)
        element = None if value.data_type is None else BYTES.get(value.data_type)
        held = self._held.get(name)
        if held is not None:
            numbers, element = replace(numbers, zero=numbers.zero + held.shift), held.element
        self._waiting[output] = Waiting(name, numbers, element, array)
        return True

    def _inner_readers(self, name: str) -> list[list[NodeSpec]] | None:
        """The readers of each conversion that reads integers, moved or not; None where something else sees them."""
        outputs = {value.name for value in self._region.outputs}
        found: list[list[NodeSpec]] = []
        pending = [name]
        while pending:
            name = pending.pop()
            if name in outputs:
                return None
            for node in self._readers.get(name, []):
                if node.op_type == "DequantizeLinear":
                    found.append(self._readers.get(output_of(node), []))
                elif node.op_type in _MOVES and node.op_type != "Concat":
                    pending.append(output_of(node))
                else:
                    return None
        return found

    def _real(self, name: str) -> None:
        """Make a value that waits a real number."""
        waiting = self._waiting.get(name)
        if waiting is None or name in self._done:
            return
        self._done.add(name)
        if waiting.array is not None:
            source = self._region.weight(waiting.integers) if waiting.array.size > _SMALL else None
            if source is None:
                self.constants[name] = waiting.numbers.real(waiting.array)
            else:
                self.derived[name] = Dequantized(source, waiting.numbers)
        elif not self._open(name, waiting):
            scale, zero = single(waiting.numbers)
            self._append(
                Operation("DequantizeLinear", name, (waiting.integers,), (name,), {"scale": scale, "zero": zero})
            )

    def _open(self, name: str, waiting: Waiting, kinds: frozenset[str] = _GOES_ON) -> bool:
        """Let the product that ends in these integers go on: it rounds and clips as it would have, in its chain."""
        host = self._opening(name, waiting, kinds)
        if host is None or host.result is None:
            return False
        low, high = LIMITS[host.result.element]
        zero = host.result.zero
        host.posts += [
            Function(Eltwise.ROUND),
            Function(Eltwise.CLIP_V2, low - zero, high - zero),
            linear(single(waiting.numbers)[0]),
        ]
        host.result = None
        self._renamed(host, name)
        del self._waiting[name]
        return True

    def _opening(self, name: str, waiting: Waiting, kinds: frozenset[str] = _GOES_ON) -> Operation | None:
        if waiting.array is not None or self._uses.get(waiting.integers) != 1 or self._uses.get(name) != 1:
            return None
        host = super()._host(waiting.integers)
        if host is None or host.result is None or host.kind not in kinds:
            return None
        return host if host.result.zero == single(waiting.numbers)[1] else None

    def _quantize(self, node: NodeSpec) -> bool:
        name, output = name_of(node, 0), output_of(node)
        numbers = numbers_of(node, self._region.constant)
        value = node.outputs[0]
        assert numbers is not None and numbers.is_single, "claimed with one constant"  # noqa: PT018
        assert value is not None
        assert value.data_type is not None
        scale, zero = single(numbers)
        self._real(name)
        host = self._host(name)
        ends = host is not None and host.kind in _ENDS
        positive = host is not None and ends and bool(host.posts) and host.posts[-1] == Function(Eltwise.RELU)
        held = holding(BYTES[value.data_type], zero, self._inner_readers(output), positive=positive)
        self._held[output] = held
        result = Result(held.element, zero + held.shift)
        if host is None or not ends:
            self._append(Operation("QuantizeLinear", node.name, (name,), (output,), {"scale": scale}, result=result))
            return True
        if positive and result.zero == LIMITS[result.element][0]:
            host.posts.pop()  # saturation does the same
        if host.posts or not self._rescaled(host, scale):
            self._extend(host, linear(1 / scale))
        if held.most is not None:
            host.posts.append(Function(Eltwise.CLIP_V2, 0.0, held.most))
        low, high = LIMITS[result.element]
        host.posts = rounded(host.posts, low - result.zero, high - result.zero)
        host.result = result
        self._renamed(host, output)
        return True

    def _rescaled(self, host: Operation, scale: float) -> bool:
        """Divide a product's own scale and bias instead of its result."""
        names = list(host.inputs)
        for place in (2, 3):
            name = names[place]
            if name is None:
                continue
            found = self.constants.get(name)
            if found is None or found.dtype != FLOAT:
                return False
        for place in (2, 3):
            name = names[place]
            if name is not None:
                names[place] = f"{name}/{scale!r}"
                self.constants[names[place] or ""] = (self.constants[name].astype(np.float64) / scale).astype(FLOAT)
        host.inputs = tuple(names)
        return True

    def _extend(self, host: Operation, function: Function) -> None:
        """Add the linear function of a conversion to bytes."""
        first = function
        while host.posts and isinstance(last := host.posts[-1], Function) and last.algorithm == Eltwise.LINEAR:
            both = before_bytes(last, first)
            if both is None:
                break
            first = both
            host.posts.pop()
        host.posts += merged([first], freely=True)

    # What takes integers as they are ----------------------------------------------------------------------------------

    def _integers(self, name: str) -> Waiting | None:
        """Integers of 8 bits that a value waits as, one scale for all."""
        waiting = self._waiting.get(name)
        if waiting is None or waiting.array is not None or waiting.element is None:
            return None
        return waiting

    def _moved(self, node: NodeSpec) -> bool:
        """Elements that are only moved are moved as integers."""
        places = range(len(node.inputs)) if node.op_type == "Concat" else (0,)
        found = [self._integers(name_of(node, place)) for place in places]
        first = found[0]
        if first is None or any(
            one is None or one.element != first.element or not one.numbers.same(first.numbers) for one in found
        ):
            return False
        output = output_of(node)
        name = f"{output}:integers"
        inputs = [None if value is None else value.name for value in node.inputs]
        for place, one in zip(places, found, strict=True):
            inputs[place] = one.integers if one is not None else None
        self._uses[name] = self._uses.get(output, 0)
        if node.op_type == "Identity":
            name = first.integers
        else:
            self._append(
                Operation(node.op_type, node.name, tuple(inputs), (name,), node.attributes, node.since_version)
            )
        self._waiting[output] = Waiting(name, first.numbers, first.element)
        return True

    def _pool(self, node: NodeSpec) -> bool:
        """An average of integers that is quantised at once, to the same type."""
        output = output_of(node)
        waiting = self._integers(name_of(node, 0))
        readers = self._readers.get(output, [])
        if waiting is None or len(readers) != 1 or readers[0].op_type != "QuantizeLinear" or self._uses[output] != 1:
            return False
        made, numbers = readers[0].outputs[0], numbers_of(readers[0], self._region.constant)
        if made is None or numbers is None or made.data_type is None or waiting.element is None:
            return False
        (scale, zero), (wanted, target) = single(waiting.numbers), single(numbers)
        if not is_moderate(scale / wanted):
            return False
        held = Holding(BYTES[made.data_type])
        if held.element != waiting.element:
            if self._inner_readers(made.name) is None:
                return False
            # The average is held as what it is made of.
            held = Holding(waiting.element, LIMITS[waiting.element][0] - LIMITS[held.element][0])
        self._held[made.name] = held
        target += held.shift
        if node.attributes.get("count_include_pad", 0) and zero and any(node.attributes.get("pads") or ()):
            return False
        factor = scale / wanted
        posts = merged([linear(factor, -zero * factor), *_rounded(target)], freely=True)
        operation = Operation(
            node.op_type,
            node.name,
            (waiting.integers,),
            (made.name,),
            node.attributes,
            node.since_version,
            list(posts),
        )
        self._append(operation)
        self._done.add(output)
        self._covered.add(made.name)
        return True

    def _is_rounded(self, name: str) -> bool:
        """Return whether all that becomes of a value are integers, perhaps behind a bound."""
        readers = self._readers.get(name, [])
        if not readers or any(value.name == name for value in self._region.outputs):
            return False
        return all(
            reader.op_type == "QuantizeLinear" or (reader.op_type in _BOUNDS and self._is_rounded(output_of(reader)))
            for reader in readers
        )

    def _is_addable(self, name: str) -> bool:
        """Return whether a value waits as integers in whose steps another can be counted."""
        waiting = self._integers(name)
        return waiting is not None and is_moderate(single(waiting.numbers)[0])

    def _sum(self, node: NodeSpec) -> bool:
        """Two values of which one is made by an operation that can add the other's integers.

        Divided by a scale and multiplied by it again, a sum is not the next number to the exact one any more. That does
        not matter where it is rounded to an integer.
        """
        names = [name_of(node, place) for place in range(len(node.inputs))]
        if len(names) != 2 or names[0] == names[1] or not self._is_rounded(output_of(node)):
            return False
        shapes = [None if value is None else value.shape for value in (*node.inputs, *node.outputs)]
        hosts: list[tuple[int, str, str, Operation]] = []
        for place, (name, other) in enumerate((names, names[::-1])):
            if not self._is_addable(other) or shapes[place] is None or shapes[place] != shapes[2]:
                continue
            waiting = self._waiting.get(name)
            host = self._host(name) if waiting is None else self._opening(name, waiting, _ENDS)
            if host is not None:
                hosts.append((self.operations.index(host), name, other, host))
        if not hosts:
            return False
        _, name, other, host = max(hosts, key=lambda found: found[0])
        if name not in self._waiting or not self._open(name, self._waiting[name], _ENDS):
            self._real(name)
        taken = self._waiting[other]
        scale, zero = single(taken.numbers)
        # Subtracted from what is as exact: the zero point must add just 0 to 0.
        self._extend(host, linear(1 / scale, -zero) if zero else linear(1 / scale))
        host.posts += [Combine(Binary.ADD, taken.integers), linear(scale)]
        self._renamed(host, output_of(node))
        # It runs where this node stood: there the other operand is made already.
        self.operations.remove(host)
        self.operations.append(host)
        return True

    rules: ClassVar[Rules] = {
        **dict.fromkeys(_MOVES, _moved),
        "Add": _sum,
        "AveragePool": _pool,
        "DequantizeLinear": _dequantize,
        "GlobalAveragePool": _pool,
        "QuantizeLinear": _quantize,
        "Sum": _sum,
    }


def _rounded(zero: int) -> list[Function]:
    """The functions between a number and its integer: an odd zero point must not decide the direction in which a half
    is rounded.
    """
    return [Function(Eltwise.ROUND), linear(1.0, zero)] if zero % 2 else [linear(1.0, zero)]


def single(numbers: Numbers) -> tuple[float, int]:
    """Scale and zero point where one is for all."""
    return float(numbers.scale.reshape(-1)[0]), int(numbers.zero.reshape(-1)[0])


def name_of(node: NodeSpec, place: int) -> str:
    """Name of an input, ``""`` where it is absent."""
    value = node.inputs[place] if place < len(node.inputs) else None
    return "" if value is None else value.name


def output_of(node: NodeSpec) -> str:
    """Name of the first output."""
    value: Any = node.outputs[0]
    assert value is not None
    return str(value.name)
