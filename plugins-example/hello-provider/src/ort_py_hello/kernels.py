"""The two operators. `ort_py.contracts.kernel_defs` collects what is declared here, in either way."""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import ALL_NUMERIC, KernelContext, KernelDef, kernel

__all__ = ["KERNELS", "relu"]


@kernel("Relu", since=6, until=14, types={"T": ALL_NUMERIC})
def relu(ctx: KernelContext, x: Any) -> Any:
    """max(x, 0), and NaN stays NaN. `since` and `until` are versions of the operator's schema, not opsets."""
    return np.maximum(x, x.dtype.type(0))


# A NumPy ufunc is a kernel already. `out` says that it can write to an array it is given.
KERNELS = [
    KernelDef(
        "Add",
        factory=lambda ctx: np.add,
        since=7,
        until=14,
        types={"T": ALL_NUMERIC},
        out=True,
        strided=True,
        output_shape=lambda a, b: np.broadcast_shapes(a.shape, b.shape),
        implementation="numpy:add",
    )
]
