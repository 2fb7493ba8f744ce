"""One model of a single node with its feeds, and the numbers that random feeds are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["Array", "Case", "axis_of", "floats", "integers", "numbers", "pick", "shape_of"]

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e30, -1e30, 100.0, -100.0)


@dataclass(frozen=True)
class Case:
    """A node, its inputs in order, and the inputs that are constants of the model.

    Attributes:
        op_type: The operator.
        inputs: Arrays; None for an input that is left out.
        attributes: Of the node.
        opset: Version of the operator set.
        outputs: Number of outputs.
        constants: Places of inputs that are initializers.
        static: Whether the model declares the sizes of its inputs.
        domain: Of the operator.
        missing: Places of unused outputs.
    """

    op_type: str
    inputs: Sequence[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    outputs: int = 1
    constants: frozenset[int] = frozenset()
    static: bool = True
    domain: str = ""
    missing: frozenset[int] = frozenset()

    def model(self) -> onnx.ModelProto:
        """The model."""
        names = [f"i{place}" if array is not None else "" for place, array in enumerate(self.inputs)]
        outputs = ["" if place in self.missing else f"o{place}" for place in range(self.outputs)]
        node = helper.make_node(self.op_type, names, outputs, name="node", domain=self.domain, **self.attributes)
        given = [(place, array) for place, array in enumerate(self.inputs) if array is not None]
        inputs = [
            helper.make_tensor_value_info(
                names[place],
                helper.np_dtype_to_tensor_dtype(array.dtype),
                array.shape if self.static else [f"d{place}_{axis}" for axis in range(array.ndim)],
            )
            for place, array in given
            if place not in self.constants
        ]
        weights = [numpy_helper.from_array(array, names[place]) for place, array in given if place in self.constants]
        values = [onnx.ValueInfoProto(name=name) for name in outputs if name]
        graph = helper.make_graph([node], "g", inputs, values, weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        inferred = onnx.shape_inference.infer_shapes(model)
        types = {value.name: value for value in inferred.graph.output}
        for value in model.graph.output:
            if types[value.name].type.HasField("tensor_type"):
                value.type.tensor_type.elem_type = types[value.name].type.tensor_type.elem_type
        return model

    def feeds(self) -> dict[str, Array]:
        """Feeds of the model."""
        return {
            f"i{place}": array
            for place, array in enumerate(self.inputs)
            if array is not None and place not in self.constants
        }


def shape_of(rng: Rng, low: int = 0, high: int = 4, largest: int = 4) -> tuple[int, ...]:
    """A small shape of `low` to `high` axes."""
    return tuple(int(size) for size in rng.integers(1, largest + 1, rng.integers(low, high + 1)))


def axis_of(rng: Rng, rank: int) -> int:
    """An axis, counted from either end."""
    return int(rng.integers(-rank, rank))


def floats(rng: Rng, shape: Sequence[int], special: float = 0.0, scale: float = 2.0, dtype: Any = np.float32) -> Array:
    """Normal numbers; a share of them are not-a-number, infinities, signed zeros, halves and large numbers."""
    found = (rng.standard_normal(tuple(shape)) * scale).astype(dtype)
    if special:
        with np.errstate(over="ignore"):
            found = np.where(rng.random(found.shape) < special, rng.choice(_SPECIAL, found.shape), found).astype(dtype)
    return np.asarray(found)


def integers(rng: Rng, shape: Sequence[int], dtype: Any, low: int | None = None, high: int | None = None) -> Array:
    """Integers: small ones, or up to the ends of the type where no bounds are given."""
    if low is not None and high is not None:
        return np.asarray(rng.integers(low, high, tuple(shape)).astype(dtype))
    bounds = np.iinfo(dtype)
    small = rng.integers(max(-9, int(bounds.min)), 10, tuple(shape))
    wide = rng.integers(int(bounds.min), int(bounds.max), tuple(shape), endpoint=True, dtype=dtype)
    return np.asarray(np.where(rng.random(tuple(shape)) < 0.7, small.astype(dtype), wide).astype(dtype))


def pick(rng: Rng, kinds: Sequence[Any]) -> Any:
    """One of some types."""
    return kinds[int(rng.integers(len(kinds)))]


def numbers(rng: Rng, shape: Sequence[int], dtype: Any, special: float = 0.15) -> Array:
    """Numbers of any type."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return np.asarray(rng.random(tuple(shape)) < 0.5)
    if kind.kind in "iu":
        return integers(rng, shape, dtype)
    return floats(rng, shape, special, dtype=dtype)


FLOATS = (np.float32, np.float32, np.float32, np.float16, ml_dtypes.bfloat16)
"""Types of numbers with a point, float32 more often than the others."""
