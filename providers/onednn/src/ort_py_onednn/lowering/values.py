"""A value of a plan: a tensor in a buffer with a layout, and what can be said of dimensions and layouts alone."""

from __future__ import annotations

import numpy as np

from ort_py_onednn.binding.constants import Element
from ort_py_onednn.binding.descriptors import Desc, Key, row_major
from ort_py_onednn.execution.packed_weights import Weight
from ort_py_onednn.execution.plan import Buffer

__all__ = ["Value", "broadcast_dims", "folded", "lies_plainly"]


class Value:
    """A tensor: a layout in a buffer.

    Attributes:
        desc: The layout with the type of the elements; of a constant, how its array is to be read.
        buffer: The bytes.
        weight: The constant it is, None where it is computed.
        others: The same data in other layouts and types, by key.
    """

    __slots__ = ("buffer", "desc", "others", "shape", "weight")

    def __init__(self, desc: Desc, buffer: Buffer | None, shape: tuple[int, ...], weight: Weight | None = None) -> None:
        self.desc = desc
        self.buffer = buffer
        self.shape = shape
        self.weight = weight
        self.others: dict[Key, Value] = {}

    @property
    def dims(self) -> tuple[int, ...]:
        """Dimensions as oneDNN sees them: a scalar has one."""
        return self.desc.dims

    @property
    def dtype(self) -> Element:
        """Type of the elements."""
        return self.desc.dtype


def broadcast_dims(*dims: tuple[int, ...]) -> tuple[int, ...]:
    """Dimensions that the values broadcast to."""
    return tuple(np.broadcast_shapes(*dims))


def lies_plainly(desc: Desc) -> bool:
    """Return whether a blocked layout is the plain one all the same: whole blocks of the only dimension that is not
    1.
    """
    if desc.key is None or desc.key[2] != desc.dims or desc.key[4] or not desc.is_dense:
        return False
    large = [place for place, dim in enumerate(desc.dims) if dim != 1]
    if len(large) <= 1:
        return True
    blocks, places = desc.key[3]
    if len(blocks) != 1:
        return False
    # Dimensions before the blocked one lie outside of it, those after it are 1.
    (block,), (place,) = blocks, places
    if any(where > place for where in large):
        return False
    outer = list(desc.dims)
    outer[place] //= block
    wanted = row_major(tuple(outer))
    return all(
        dim == 1 or stride == want * block for dim, stride, want in zip(outer, desc.strides, wanted, strict=True)
    )


def folded(full: tuple[int, ...], other: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Both dimensions with neighbours made one where both have them or one lacks both; None where that changes nothing.

    So a vector in the middle becomes a vector of channels, which oneDNN has code for.
    """
    sizes: list[int] = []
    spread: list[bool] = []
    for size, own in zip(full, other, strict=True):
        if size == 1:
            continue
        if spread and spread[-1] == (own == 1):
            sizes[-1] *= size
        else:
            sizes.append(size)
            spread.append(own == 1)
    if len(sizes) == len(full) or not sizes:
        return None
    return tuple(sizes), tuple(1 if bare else size for size, bare in zip(sizes, spread, strict=True))
