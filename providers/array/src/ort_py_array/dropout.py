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
            y, kept = _dropped(ctx, x, rate)
        else:
            y, kept = x, ctx.xp.ones(x.shape, bool) if masked else None
        if not masked:
            return (y,)
        return y, kept if version >= 10 else kept.astype(x.dtype)

    return run


_BLOCK = 1 << 20
"""Elements that are drawn at once: the numbers of a generator are the same however many are asked for."""


def _dropped(ctx: KernelContext, x: Array, rate: float) -> tuple[Array, Array]:
    """The result and the mask."""
    xp = ctx.xp
    seed = ctx.node.attributes.get("seed")
    draw = ctx.random_generator(None).random if seed is None else np.random.RandomState(int(seed)).random_sample
    y, kept = xp.empty(x.shape, x.dtype), xp.ones(x.shape, bool)
    flat_x, flat_y, flat_kept = x.reshape(-1), y.reshape(-1), kept.reshape(-1)
    factor = 0.0 if rate >= 1 else 1 / (1 - rate)
    for start in range(0, x.size, _BLOCK):
        ctx.check_time()
        places = slice(start, min(start + _BLOCK, x.size))
        if rate:
            flat_kept[places] = xp.asarray(draw(places.stop - start) >= rate)
        # Scaled in float64 and rounded once, so that narrow floats lose nothing to the factor.
        scaled = xp.multiply(flat_x[places].astype(xp.float64), factor)
        flat_y[places] = xp.where(flat_kept[places], scaled, 0).astype(x.dtype)
    return y, kept


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
