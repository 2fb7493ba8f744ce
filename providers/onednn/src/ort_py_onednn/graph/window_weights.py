"""Weights of products that `binding.integer_windows` computes: which fit, and how they are packed.

It does not depend on operations. Used by the rules of what is claimed and by `quantization`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ort_py.contracts import RegionWeight
from ort_py_onednn.binding.integer_windows import BLOCK, OUTPUTS, has_window_sums, packed_weights
from ort_py_onednn.binding.library import open_library
from ort_py_onednn.binding.widening import CHANNELS, padded
from ort_py_onednn.graph.integers import Array, Numbers, signed

__all__ = ["WindowWeights", "fit", "window_shape"]


def window_shape(shape: Sequence[int], columns: int) -> tuple[int, ...]:
    """Sizes of weights as those of a convolution: a matrix has windows of one pixel."""
    return tuple(shape) if len(shape) != 2 else (shape[columns], shape[1 - columns], 1, 1)


def fit(
    weights: Sequence[int], columns: int, source: Sequence[object] | None, *, group: int = 1, given: bool = False
) -> bool:
    """Return whether there is code for a product on this CPU.

    Args:
        weights: Shape of the weights.
        columns: The dimension of them that the result has.
        source: Shape of the first factor, as far as it is known.
        group: Groups of a convolution.
        given: Whether the zero point of the first factor is given in the run.
    """
    shape = window_shape(weights, columns)
    if len(shape) != 4 or group != 1 or 0 in shape or source is None or len(source) < 2:
        return False
    channels = shape[1] if given else padded(shape[1])
    return shape[0] % OUTPUTS == 0 and channels % CHANNELS == 0 and has_window_sums(open_library())


class WindowWeights:
    """Weights of a convolution or a matrix product, as they are read there.

    Args:
        source: The integers: (outputs, inputs, height, width), or a matrix. They are kept as long as this.
        numbers: Their meaning. Less their zero points, they fit into int8.
        columns: The dimension of outputs.

    Attributes:
        key, shape, dtype: As of `Derived`.
    """

    dtype: type[np.generic] = np.int32

    def __init__(self, source: RegionWeight, numbers: Numbers, columns: int) -> None:
        self._source, self._held = source, source.held()
        self._numbers, self._columns = numbers, columns
        self.key = f"{source.key} in windows of {columns} less {numbers.key}"
        outputs, inputs, *kernel = window_shape(source.shape, columns)
        self.shape: tuple[int, ...] = (-(-outputs // BLOCK), math.prod(kernel), padded(inputs) // 2, BLOCK)

    def array(self) -> Array:
        """The packed weights."""
        found = signed(self._source.array(), self._numbers)
        assert found is not None, "asked before"
        whole = np.moveaxis(found[0], self._columns, 0)
        return packed_weights(whole if whole.ndim == 4 else whole[:, :, None, None])
