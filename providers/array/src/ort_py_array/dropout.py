"""Dropout: at inference the identity with a mask of ones; in training mode, random.

Training needs random numbers of the host's generator. With a `seed` attribute the numbers are those of NumPy's older
generator, which ONNX's own reference and test data use; without, they come from the session's generator.
"""

from __future__ import annotations

from typing import Any

import numpy as np  # random numbers are drawn on the host

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef


def dropout(ctx: KernelContext) -> KernelCallable:
    """Dropout-1..22: data, ratio and training_mode (host; from 12); outputs data and, if present, the mask.

    The mask is bool from version 10 on, before of the data's type.
    """
    masked = len(ctx.node.outputs) > 1
    version = ctx.node.since_version
    training_always = version < 7 and not ctx.node.attributes.get("is_test", 0)
    ratio_attribute = ctx.node.attributes.get("ratio", 0.5)

    def run(x: Array, ratio: Array | None = None, training_mode: Array | None = None) -> tuple[Array, ...]:
        if training_always or (training_mode is not None and bool(training_mode)):
            rate = float(ratio) if ratio is not None else float(ratio_attribute)
            kept = _kept(ctx, x.shape, rate) if rate else ctx.xp.ones(x.shape, bool)
            # Scaled in float64 and rounded once, so that narrow floats lose nothing to the factor.
            scaled = ctx.xp.multiply(x.astype(ctx.xp.float64), 0.0 if rate >= 1 else 1 / (1 - rate))
            y = ctx.xp.where(kept, scaled, 0).astype(x.dtype)
        else:
            y, kept = x, ctx.xp.ones(x.shape, bool) if masked else None
        if not masked:
            return (y,)
        return y, kept if version >= 10 else kept.astype(x.dtype)

    return run


def _kept(ctx: KernelContext, shape: tuple[int, ...], rate: float) -> Array:
    seed = ctx.node.attributes.get("seed")
    if seed is None:
        draws = ctx.random_generator(None).random(shape)
    else:
        draws = np.random.RandomState(int(seed)).uniform(0, 1.0, shape)
    return ctx.xp.asarray(draws >= rate)


_SHARED: dict[str, Any] = {
    "outputs": None,
    "views": ((0, 0),),
    "strided": True,
    "implementation": f"{__name__}:dropout",
}

KERNELS: list[KernelDef] = [
    KernelDef("Dropout", dropout, since=1, until=10, **_SHARED),
    KernelDef("Dropout", dropout, since=12, until=22, host_inputs=frozenset({1, 2}), **_SHARED),
]
