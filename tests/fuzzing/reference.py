"""Operators that ONNX's reference computes wrongly, for the oracle: each says what is wrong there.

This file knows nothing of ort-py's kernels; what it computes follows the operator's specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_lp_pool

__all__ = ["CORRECTED"]


_LP_POOL: Any = op_lp_pool.LpPool._run


class LRN(OpRun):
    """LRN (since opset 1). ONNX's reference sums the squares of as many channels as there are images in the batch."""

    op_domain = ""

    def _run(self, x: Any, alpha: float, beta: float, bias: float, size: int) -> tuple[Any]:
        before = (size - 1) // 2
        around = [(0, 0), (before, size - 1 - before), (0, 0), (0, 0)]
        windows = sliding_window_view(np.pad(x.astype(np.float64) ** 2, around), size, axis=1)
        return ((x / (bias + alpha / size * windows.sum(axis=-1)) ** beta).astype(x.dtype),)


class LpPool(OpRun):
    """LpPool (since opset 1). ONNX's reference leaves NaN out of its windows, as it does padding; the norm is NaN."""

    op_domain = ""

    def _run(self, x: Any, **options: Any) -> tuple[Any]:
        (found,) = _LP_POOL(self, x, **options)
        absent = np.isnan(x)
        if not absent.any():
            return (found,)
        (touched,) = _LP_POOL(self, absent.astype(x.dtype), **options)
        return (np.where(touched > 0, np.asarray(np.nan, found.dtype), found),)


CORRECTED: tuple[type[OpRun], ...] = (LRN, LpPool)
"""Implementations to run in place of the reference's own."""
