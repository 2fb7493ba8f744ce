"""A typed graph that grows node by node: values with shapes, constants, inputs with symbolic sizes.

Shapes come from the operators' schemas of the `onnx` package, which also decide whether a node is allowed at the
graph's operator set version. Nothing here knows ort-py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzzing.schemas import FLOATS, INTEGERS, ONNX_TYPES, TYPE_NAMES, Rejected, Value, inferred_outputs, np_dtype

__all__ = ["Builder", "Input"]

MOST_ELEMENTS = 6000
"""Elements of one value: large enough for blocked layouts, small enough for the Python reference."""

_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17)


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input.

    Attributes:
        name: Its name.
        shape: Sizes, or the names of symbolic ones.
        dtype: Name of its element type.
        role: ``"data"``; ``"index"`` for integers in [-bound, bound); ``"count"`` for integers in [1, bound].
        bound: A size or the name of one.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    role: str = "data"
    bound: int | str = 0


class Builder:
    """A graph being drawn.

    Args:
        rng: Where choices come from.
        opset: Version of the standard operator set.
        main: Element type of most data.
    """

    def __init__(self, rng: random.Random, opset: int, main: str = "float32") -> None:
        self.rng = rng
        self.opset = opset
        self.main = main
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[Input] = []
        self.values: list[Value] = []
        self.sizes: dict[str, int] = {}
        self.serial = 0
        self.domains: set[str] = set()
        self.numbers = np.random.default_rng(rng.getrandbits(32))

    # -- choices ------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.rng.random() < probability

    def one(self, *among: Any) -> Any:
        """One of some things."""
        return self.rng.choice(among)

    def integer(self, first: int, last: int) -> int:
        """A number from `first` to `last`, both included."""
        return self.rng.randint(first, last)

    def axis(self, rank: int, *, negative_since: int = 11) -> int:
        """An axis, counted from the end sometimes where the operator set allows it."""
        if not rank:
            raise Rejected("a scalar has no axis")
        axis = self.integer(0, rank - 1)
        return axis - rank if self.opset >= negative_since and self.chance(0.3) else axis

    def size(self) -> int:
        """A size of an axis."""
        return int(self.rng.choice(_SIZES)) if self.chance(0.985) else 0

    # -- values -------------------------------------------------------------------------------------------------

    def name(self, prefix: str = "v") -> str:
        """A new name."""
        self.serial += 1
        return f"{prefix}{self.serial}"

    def symbol(self, size: int) -> int | str:
        """The name of a symbolic size, or the size itself."""
        known = [name for name, value in self.sizes.items() if value == size]
        if known and self.chance(0.8):
            return known[0]
        if len(self.sizes) < 5 and not known:
            name = "NHWTK"[len(self.sizes)]
            self.sizes[name] = size
            return name
        return size

    def new_input(
        self, shape: Sequence[int], dtype: str = "", *, role: str = "data", bound: int | str = 0, symbolic: float = 0.4
    ) -> Value:
        """A graph input, with sizes that are symbolic sometimes."""
        declared = tuple([self.symbol(size) if self.chance(symbolic) else size for size in shape])
        made = Value(self.name("x"), tuple(shape), dtype or self.main)
        self.inputs.append(Input(made.name, declared, made.dtype, role, bound))
        if role == "data":
            self.values.append(made)
        return made

    def const(self, array: Any, dtype: str = "") -> Value:
        """A constant: an initializer, or a Constant node sometimes."""
        with np.errstate(over="ignore"):  # -1e5 is -inf in float16, which masks as well
            array = np.asarray(array, np_dtype(dtype) if dtype else None)
        made = Value(self.name("c"), array.shape, TYPE_NAMES[helper.np_dtype_to_tensor_dtype(array.dtype)], array)
        tensor = numpy_helper.from_array(array, made.name)
        if self.chance(0.12) and self.opset >= 9:
            tensor.name = ""
            self.nodes.append(helper.make_node("Constant", [], [made.name], value=tensor))
        else:
            self.initializers.append(tensor)
        return made

    def ints(self, *numbers: int) -> Value:
        """A constant int64 vector."""
        return self.const(np.array(numbers, np.int64))

    def weights(self, shape: Sequence[int], dtype: str = "", scale: float = 0.0) -> Value:
        """A constant of random numbers; data fed at run time sometimes."""
        dtype = dtype or self.main
        if dtype in FLOATS and self.chance(0.12):
            return self._seen_part(shape, dtype) if self.chance(0.4) else self.new_input(shape, dtype, symbolic=0.1)
        if dtype == "bool":
            return self.const(self.numbers.integers(0, 2, shape).astype(bool))
        if dtype in INTEGERS:
            info = np.iinfo(dtype)
            wide = (max(info.min, -128), min(info.max, 255))
            return self.const(self.numbers.integers(wide[0], wide[1] + 1, shape).astype(dtype))
        drawn = self.numbers.standard_normal(shape)
        if self.chance(0.15):
            drawn = np.round(drawn * 2)
        return self.const((drawn * (scale or self.one(1.0, 0.3, 0.5))).astype(np_dtype(dtype)))

    def _seen_part(self, shape: Sequence[int], dtype: str) -> Value:
        """Data fed at run time, of which a node shows a part, or the axes in another order."""
        rank = len(shape)
        if not rank or self.opset < 10:
            return self.new_input(shape, dtype, symbolic=0.1)
        if self.chance(0.5):
            order = self.rng.sample(range(rank), rank)
            whole = [0] * rank
            for place, axis in enumerate(order):
                whole[axis] = shape[place]
            source = self.new_input(whole, dtype, symbolic=0.1)
            return self.emit("Transpose", [source], perm=order)[0]
        axis, ahead, behind = self.integer(0, rank - 1), self.integer(0, 2), self.integer(0, 2)
        whole = [size + (ahead + behind if place == axis else 0) for place, size in enumerate(shape)]
        source = self.new_input(whole, dtype, symbolic=0.1)
        bounds = [self.ints(ahead), self.ints(ahead + shape[axis]), self.ints(axis)]
        return self.emit("Slice", [source, *bounds])[0]

    def pick(
        self,
        dtypes: Sequence[str] = (),
        *,
        rank: int | None = None,
        least: int = 0,
        fits: Callable[[Value], bool] | None = None,
    ) -> Value:
        """A value that is there: a late one rather than an early one.

        Raises:
            Rejected: None fits.
        """
        found = [
            one
            for one in self.values
            if (not dtypes or one.dtype in dtypes)
            and (rank is None or one.rank == rank)
            and one.rank >= least
            and (fits is None or fits(one))
        ]
        if not found:
            raise Rejected("no such value")
        if self.chance(0.6):
            return found[-1 - min(len(found) - 1, int(self.rng.expovariate(0.7)))]
        return found[self.integer(0, len(found) - 1)]

    def data(self, rank: int | None = None, dtypes: Sequence[str] = (), *, least: int = 0) -> Value:
        """A value of a rank: one that is there, one reshaped to it, or a new input."""
        dtypes = dtypes or (self.main,)
        try:
            if self.chance(0.9):
                return self.pick(dtypes, rank=rank, least=least)
        except Rejected:
            pass
        wanted = rank if rank is not None else max(least, self.integer(0, 4))
        if self.chance(0.6) and wanted:
            try:
                source = self.pick(dtypes, fits=lambda one: one.rank != wanted and one.rank > 0)
                return self.reshaped(source, wanted)
            except Rejected:
                pass
        return self.new_input([self.size() for _ in range(wanted)], dtypes[0])

    def reshaped(self, source: Value, rank: int) -> Value:
        """A value reshaped to a rank by merging or splitting axes."""
        shape = list(source.shape)
        while len(shape) > rank:
            place = self.integer(0, len(shape) - 2)
            shape[place : place + 2] = [shape[place] * shape[place + 1]]
        while len(shape) < rank:
            place = self.integer(0, len(shape) - 1)
            if shape[place] % 2 == 0 and shape[place] and self.chance(0.6):
                shape[place : place + 1] = [shape[place] // 2, 2]
            else:
                shape.insert(place, 1)
        wanted = list(shape)
        if self.chance(0.6) and 0 not in shape:
            wanted[self.integer(0, rank - 1)] = -1
        return self.emit("Reshape", [source, self.ints(*wanted)])[0]

    def like(self, value: Value) -> Value:
        """A second operand of the same shape and type: one that is there, a constant or an input."""
        found = [one for one in self.values if one.dtype == value.dtype and one.shape == value.shape]
        if found and self.chance(0.8):
            return self.rng.choice(found)
        return self.weights(value.shape, value.dtype)

    def broadcast(self, value: Value) -> Value:
        """A second operand that broadcasts with a value, or widens it."""
        roll = self.rng.random()
        if roll < 0.45:
            return self.like(value)
        shape = [1 if self.chance(0.35) else size for size in value.shape]
        shape = shape[self.integer(0, len(shape)) :] if self.chance(0.5) else shape
        if self.chance(0.1):
            shape = [self.one(1, 2), *shape] if len(shape) == value.rank else shape
        if self.chance(0.15):
            shape = []
        fitting = [one for one in self.values if one.dtype == value.dtype and one.shape == tuple(shape)]
        if fitting and self.chance(0.5):
            return self.rng.choice(fitting)
        return self.weights(shape, value.dtype)

    # -- nodes --------------------------------------------------------------------------------------------------

    def emit(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        outputs: int = 1,
        *,
        shapes: Sequence[Sequence[int]] = (),
        domain: str = "",
        keep: int | None = None,
        dtypes: Sequence[str] = (),
        **attributes: Any,
    ) -> list[Value]:
        """A node; its outputs join the values.

        Args:
            op_type: The operator.
            inputs: What it reads; None leaves an optional one out.
            outputs: How many outputs it has.
            shapes: Their shapes, where the schema cannot tell.
            domain: Of the operator; schemas are known of the standard one only.
            keep: How many of the outputs join the values; None for all.
            dtypes: Their element types, where the schema cannot tell.
            attributes: Its attributes; those that are None are left out.

        Raises:
            Rejected: The operator set does not allow it.
        """
        attributes = {key: value for key, value in attributes.items() if value is not None}
        names = [one.name if one is not None else "" for one in inputs]
        while names and not names[-1]:
            names.pop()
        made = [self.name() for _ in range(outputs)]
        node = helper.make_node(op_type, names, made, domain=domain, **attributes)
        if not domain:
            found = inferred_outputs(node, [one for one in inputs if one is not None], self.opset)
        else:
            self.domains.add(domain)
            found = [(None, "")] * outputs
        results = []
        for place, name in enumerate(made):
            shape, dtype = found[place]
            if place < len(shapes):
                shape = tuple(shapes[place])
            if place < len(dtypes):
                dtype = dtypes[place]
            if shape is None or dtype not in ONNX_TYPES:
                raise Rejected(f"{op_type}: the shape of output {place} is unknown")
            size = int(np.prod(shape)) if shape else 1
            if size > MOST_ELEMENTS or any(one < 0 for one in shape):
                raise Rejected(f"{op_type}: too large")
            results.append(Value(name, shape, dtype))
        self.nodes.append(node)
        self.values.extend(results[:keep])
        return results

    # -- snapshots ----------------------------------------------------------------------------------------------

    def mark(self) -> tuple[int, int, int, int]:
        """End of the graph now, for `back`."""
        return len(self.nodes), len(self.initializers), len(self.inputs), len(self.values)

    def back(self, mark: tuple[int, int, int, int]) -> None:
        """Forget what came after a mark."""
        del self.nodes[mark[0] :], self.initializers[mark[1] :], self.inputs[mark[2] :], self.values[mark[3] :]
