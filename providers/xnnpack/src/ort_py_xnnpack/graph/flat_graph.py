"""A graph without functions: fused nodes are replaced by those of their bodies, and ways lead to all constants.

Operators on integers with scales of their own (QLinearConv, …) are replaced by those on real numbers between
conversions, where their scales are constants: so both forms of a quantised model are the same here.

A DequantizeLinear of constants is a constant itself, which is computed where it is looked at. A view is valid only
while a region is compiled or asked for, so this is a copy. It does not know operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.contracts.quantized_expansion import QUANTIZED_RULES
from ort_py.contracts.steps import Steps
from ort_py.dtypes import DataType, TensorType
from ort_py_xnnpack.binding.features import has_half_arithmetic
from ort_py_xnnpack.graph.widening import cast, is_widened, of_float32

__all__ = ["FlatGraph", "dequantised"]

Array = np.ndarray[Any, Any]


class FlatGraph:
    """The nodes of a graph.

    Args:
        view: The graph.
        find: Finds a constant of the graph by its name.

    Attributes:
        nodes: Its nodes, in order.
        owners: For each node, the index of the node of the view that it is a part of.
        outputs: Names of what the graph gives.
        scales: The two constants that a scale made here is the product of, by its name.
        widened: The values of float16 that others of float32 stand for, by the names of these.
    """

    def __init__(self, view: GraphView, find: Callable[[str], Array | None]) -> None:
        self._find = find
        self._own: dict[str, Array] = {}
        self.scales: dict[str, tuple[ValueSpec, ValueSpec]] = {}
        self.widened: dict[str, ValueSpec] = {}
        found = [(node, part) for node in view.nodes for part in self._parts(node, view, {}, "")]
        self.owners = tuple(owner.index for owner, _ in found)
        self.nodes: tuple[NodeSpec, ...] = tuple(part for _, part in found)
        self.outputs = frozenset(value.name for value in view.outputs)
        self._makers = {
            value.name: place for place, node in enumerate(self.nodes) for value in node.outputs if value is not None
        }
        self._readers: dict[str, list[int]] = {}
        for place, node in enumerate(self.nodes):
            for value in node.inputs:
                if value is not None:
                    self._readers.setdefault(value.name, []).append(place)

    def constant(self, name: str, /) -> Array | None:
        """A constant; None where the value is none."""
        node = self.dequantiser(name)
        if node is None:
            narrow = self.widened.get(name)
            found = self._held(name if narrow is None else narrow.name)
            return found if narrow is None or found is None else np.asarray(found, np.float32)
        return dequantised(node, [self.value(one) for one in node.inputs])

    def is_known(self, name: str) -> bool:
        """Return whether a value is a constant, without computing it."""
        narrow = self.widened.get(name)
        return self.dequantiser(name) is not None or self._held(name if narrow is None else narrow.name) is not None

    def value(self, spec: ValueSpec | None) -> Array | None:
        """A constant that is held, not one that is computed; None where it is absent or is none."""
        return None if spec is None else self._held(spec.name)

    def maker(self, name: str) -> int | None:
        """The place of the node that writes a value; None where none does."""
        return self._makers.get(name)

    def readers(self, name: str) -> list[int]:
        """The places of the nodes that read a value, once for each time."""
        return self._readers.get(name, [])

    def dequantiser(self, name: str) -> NodeSpec | None:
        """The node that dequantises constants to a value; None where none does."""
        place = self._makers.get(name)
        if place is None:
            return None
        node = self.nodes[place]
        if node.op_type != "DequantizeLinear" or node.domain:
            return None
        return node if all(one is None or self._held(one.name) is not None for one in node.inputs) else None

    def is_dequantiser(self, place: int) -> bool:
        """Return whether the node at a place dequantises constants."""
        value = self.nodes[place].outputs[0]
        return value is not None and self.dequantiser(value.name) is self.nodes[place]

    def _held(self, name: str) -> Array | None:
        found = self._own.get(name)
        return self._find(name) if found is None else found

    def _parts(
        self, node: NodeSpec, view: GraphView, names: Mapping[str, str | None], prefix: str
    ) -> Iterator[NodeSpec]:
        inner, body = view.function(node), node.body
        if inner is None or body is None:
            renamed = self._renamed(node, names, prefix) if prefix else node
            yield from self._between_conversions(renamed) or self._in_float32(renamed) or (renamed,)
            return
        within = f"{prefix}{node.name}/"

        def outer(value: ValueSpec | None) -> str | None:
            return None if value is None else _name(value.name, names, prefix)

        given: dict[str, str | None] = {
            own: outer(value) for own, value in zip(body.inputs, node.inputs, strict=False) if own
        }
        given |= {own: outer(value) for own, value in zip(body.outputs, node.outputs, strict=False) if own and value}
        for part in inner.nodes:
            for value in part.inputs:
                if value is not None and value.name not in given:
                    found = inner.constant(value.name)
                    if found is not None:
                        self._own[within + value.name] = np.asarray(found)
        for part in inner.nodes:
            yield from self._parts(part, inner, given, within)

    def _between_conversions(self, node: NodeSpec) -> list[NodeSpec] | None:
        """The nodes that an operator on integers consists of; None where it is another, or has none."""
        rule = QUANTIZED_RULES.get((node.domain, node.op_type))
        steps = Steps(node)
        if rule is None or not rule(steps):
            return None
        found = [self._with_scale(one) if one.op_type == "@Bias" else one for one in steps.made]
        return (
            None if any(one is None or not self._is_laid_out(one) for one in found) else [one for one in found if one]
        )

    def _in_float32(self, node: NodeSpec) -> list[NodeSpec] | None:
        """The nodes that stand for one of float16 that is computed in float32; None where it is another."""
        if not is_widened(node) or not has_half_arithmetic():
            return None
        inputs, before = tuple(of_float32(one) for one in node.inputs), []
        for narrow, wide in zip(node.inputs, inputs, strict=True):
            if narrow is None or wide is None or wide is narrow or wide.name in self.widened:
                continue
            self.widened[wide.name] = narrow
            if self._held(narrow.name) is None:
                before.append(cast(node, narrow, wide))
        # What reads a result that was rounded reads it by another name.
        outputs = tuple(of_float32(one, "exact") for one in node.outputs)
        pairs = zip(outputs, node.outputs, strict=True)
        behind = [cast(node, wide, narrow) for wide, narrow in pairs if wide and narrow and wide is not narrow]
        return [*before, replace(node, inputs=inputs, outputs=outputs), *behind]

    def _with_scale(self, node: NodeSpec) -> NodeSpec | None:
        """A bias as a conversion of integers, whose scale is the product of two; None where they are no constants."""
        bias, *factors = node.inputs
        numbers = [self.value(one) for one in factors]
        first, second = factors
        if first is None or second is None or any(one is None or one.dtype != np.float32 for one in numbers):
            return None
        # As float64 the product is exact, and integers stay those of the model.
        product = np.multiply(*(np.asarray(one, np.float64).reshape(-1) for one in numbers))
        name = f"{node.name}:scale of the bias"
        self._own[name] = product
        self.scales[name] = first, second
        scale = ValueSpec(name, TensorType(DataType.DOUBLE, product.shape), constant=True)
        return replace(node, op_type="DequantizeLinear", inputs=(bias, scale), attributes={"axis": -1})

    def _is_laid_out(self, node: NodeSpec) -> bool:
        """Return whether the scales and zero points of a conversion lie along one axis, if there are several."""
        if node.op_type != "DequantizeLinear" or node.inputs[0] is None:
            return True
        shape, axis = node.inputs[0].shape or (), int(node.attributes["axis"])
        size = shape[axis] if -len(shape) <= axis < len(shape) else 1
        numbers = [self.value(one) for one in node.inputs[1:]]
        return all(one is None or one.size in {1, size} for one in numbers)

    @staticmethod
    def _renamed(node: NodeSpec, names: Mapping[str, str | None], prefix: str) -> NodeSpec:
        def of(values: tuple[ValueSpec | None, ...]) -> tuple[ValueSpec | None, ...]:
            found = []
            for value in values:
                name = None if value is None else _name(value.name, names, prefix)
                found.append(None if value is None or name is None else replace(value, name=name))
            return tuple(found)

        return replace(node, name=prefix + node.name, inputs=of(node.inputs), outputs=of(node.outputs))


def _name(name: str, names: Mapping[str, str | None], prefix: str) -> str | None:
    return names.get(name, f"{prefix}{name}")


def dequantised(node: NodeSpec, inputs: list[Array | None]) -> Array:
    """The result of a DequantizeLinear: of whole tensors, along an axis, or in blocks.

    Args:
        node: The node.
        inputs: The integers, their scales and their zero points.
    """
    data, scale, zero = [*inputs, None][:3]
    assert data is not None
    assert scale is not None
    count, block = data.ndim, int(node.attributes.get("block_size", 0))
    axis = int(node.attributes.get("axis", 1))

    def laid(numbers: Array) -> Array:
        wide = np.asarray(numbers).astype(np.float32)
        if wide.size == 1:
            return wide.reshape(())
        if block:
            return np.repeat(wide, block, axis % count)[tuple(slice(size) for size in data.shape)]
        shape = [1] * count
        shape[axis % count] = wide.size
        return wide.reshape(shape)

    real = np.asarray(data).astype(np.float32)
    if zero is not None:
        real = real - laid(zero)
    return np.asarray(real * laid(scale), np.float32)
