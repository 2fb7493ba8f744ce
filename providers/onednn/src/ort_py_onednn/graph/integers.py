"""Meaning of the integers of a quantised model, read from a node's constants. Does not depend on operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from ort_py.contracts import NodeSpec, RegionWeight
from ort_py.dtypes import DataType
from ort_py.hashing import blake2b
from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import Element

__all__ = ["BYTES", "Array", "Dequantized", "Derived", "Numbers", "numbers_of", "signed"]

Array: TypeAlias = np.ndarray[Any, Any]
BYTES: Mapping[DataType, Element] = {DataType.UINT8: Element.U8, DataType.INT8: Element.S8}
"""Types of quantised tensors that are computed with."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """``real = scale · (integer - zero)``.

    Attributes:
        scale: float32, one or a vector.
        zero: int64, likewise.
        axis: The dimension a vector belongs to.
    """

    scale: Array
    zero: Array
    axis: int = 1

    @property
    def is_single(self) -> bool:
        """True if one scale and one zero point are for all."""
        return self.scale.size == 1 and self.zero.size == 1

    @property
    def key(self) -> str:
        """A text that is equal for what is the same for all integers."""
        content = self.scale.tobytes() + self.zero.tobytes()
        return f"numbers {self.scale.size} {self.zero.size} {self.axis} {blake2b(content, digest_size=20).hexdigest()}"

    def real(self, integers: Array) -> Array:
        """The numbers that integers stand for, float32."""
        scale, zero = (self.spread(one, integers.ndim) for one in (self.scale, self.zero))
        if integers.dtype.itemsize == 1:  # float32 has every difference of bytes
            if not zero.any():
                return np.multiply(integers, scale, dtype=np.float32)  # reads and writes once
            real = integers.astype(np.float32)
            real -= zero.astype(np.float32)
            real *= scale
            return real
        return np.asarray((integers.astype(np.int64) - zero).astype(np.float32) * scale, np.float32)

    def spread(self, vector: Array, rank: int) -> Array:
        """A vector of the axis with dimensions of 1, so that it broadcasts."""
        if vector.size == 1:
            return vector.reshape(())
        shape = [1] * rank
        shape[self.axis % rank] = vector.size
        return vector.reshape(shape)

    def same(self, other: Numbers) -> bool:
        """Return whether the same integers stand for the same numbers."""
        return (
            self.is_single
            and other.is_single
            and float(self.scale.reshape(-1)[0]) == float(other.scale.reshape(-1)[0])
            and int(self.zero.reshape(-1)[0]) == int(other.zero.reshape(-1)[0])
        )


class Derived(Protocol):
    """Something that is computed of a constant of the model where it is read.

    Attributes:
        key: A text that is equal for equal content.
        shape: Its shape.
        dtype: Its type.
    """

    key: str
    shape: tuple[int, ...]
    dtype: type[np.generic]

    def array(self) -> Array:
        """The content."""


class Dequantized:
    """The numbers that a constant of the model stands for. They are computed where they are read.

    Args:
        source: The integers. They are kept as long as this.
        numbers: Their meaning.

    Attributes:
        key: A text that is equal for equal numbers; how it begins tells the file.
        shape: As that of the integers.
    """

    def __init__(self, source: RegionWeight, numbers: Numbers) -> None:
        self._source, self._held = source, source.held()
        self._numbers = numbers
        self.key = f"{source.key} as {numbers.key}"
        self.shape = tuple(source.shape)

    dtype: type[np.generic] = np.float32

    def array(self) -> Array:
        """The numbers, float32."""
        return self._numbers.real(self._source.array())


def numbers_of(node: NodeSpec, constant: Callable[[str], Array | None], first: int = 1) -> Numbers | None:
    """The constants of QuantizeLinear or DequantizeLinear; None where one is none, or blocks have their own.

    Args:
        node: The node.
        constant: The array of a name.
        first: Place of the scale; the zero point follows.
    """
    if node.attributes.get("block_size", 0):
        return None
    names = ["" if value is None else value.name for value in node.inputs[first : first + 2]]
    scale = constant(names[0])
    if scale is None or scale.dtype != np.float32 or scale.ndim > 1:
        return None
    zero: Array | None = np.zeros(1, np.int64)
    if len(names) > 1 and names[1]:
        zero = constant(names[1])
        if zero is None:
            return None
    assert zero is not None
    return Numbers(scale, np.asarray(zero).astype(np.int64), node.attributes.get("axis", 1))


def signed(integers: Array, numbers: Numbers) -> tuple[Array, int] | None:
    """Weights as int8 and their zero point then: 0 where all fit, else one for all; None where neither can be."""
    if integers.dtype == np.int8 and not numbers.zero.any():
        return integers, 0
    shifted = integers.astype(np.int32) - numbers.spread(numbers.zero, integers.ndim)
    if shifted.size and int(shifted.min()) >= -128 and int(shifted.max()) <= 127:
        return shifted.astype(np.int8), 0
    if numbers.zero.size != 1:
        return None
    zero = int(numbers.zero.reshape(()))
    if integers.dtype == np.int8:
        return integers, zero
    return (integers ^ np.uint8(128)).view(np.int8), zero - 128
