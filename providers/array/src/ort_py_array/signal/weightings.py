"""HannWindow, HammingWindow, BlackmanWindow and MelWeightMatrix: weights for samples and for frequencies.

All are computed in float64 from a few host numbers and rounded once to the type asked for, whatever it is.
"""

from __future__ import annotations

from math import log, log1p, pi
from typing import Any

import numpy as np  # the band edges of a mel matrix, a few host numbers

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_NUMERIC, KernelCallable, KernelContext, KernelDef, kernel
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.element_types import attribute_type
from ort_py_array.signal.fourier import scalar

__all__ = ["KERNELS", "cosine_window", "mel_weight_matrix"]

_COSINES: dict[str, tuple[float, ...]] = {
    "HannWindow": (0.5, 0.5),
    "HammingWindow": (25 / 46, 21 / 46),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}
"""Coefficients of 1, -cos(t) and cos(2t)."""


_BLOCK = 1 << 16
"""Elements of a matrix that are made at once: what they are made of stays in the cache."""


def _output_type(ctx: KernelContext) -> Any:
    number = ctx.node.attributes.get("output_datatype", DataType.FLOAT)
    return attribute_type(ctx, "output_datatype", number, ALL_NUMERIC)


def cosine_window(ctx: KernelContext) -> KernelCallable:
    """HannWindow-17, HammingWindow-17 and BlackmanWindow-17 of a host size; any numeric output type.

    With ``periodic`` (the default) the first `size` points of a symmetric window one longer. A symmetric window of one
    sample is 0/0, as the operator's function has it. Integers are cut towards 0.

    Raises:
        InvalidArgument: The size is negative or not one number, or the output type is not numeric.
        LimitError: The window would be too large.
    """
    xp = ctx.xp
    coefficients = _COSINES[ctx.node.op_type]
    periodic = bool(ctx.node.attributes.get("periodic", 1))
    dtype = _output_type(ctx)

    def run(size: Array) -> Array:
        count = scalar(ctx, size, "size")
        if count < 0:
            raise InvalidArgument(
                f"The window has a size of {count}.", where=ctx.node.location, fix="It must not be negative."
            )
        ctx.check_allocation((count,), np.dtype(np.float64))
        last = count if periodic else count - 1
        step = 2 * pi / last if last else float("inf")  # 0 · inf is what dividing 0 by 0 gives
        result = xp.empty((count,), dtype)

        def part(start: int, stop: int) -> None:
            angle = xp.arange(start, stop, dtype=xp.float64)
            angle *= step
            y = xp.cos(angle)
            y *= -coefficients[1]
            y += coefficients[0]
            if len(coefficients) > 2:
                angle *= 2
                second = xp.cos(angle)
                second *= coefficients[2]
                y += second
            result[start:stop] = y.astype(dtype, copy=False)

        ctx.parallel_for(count, _BLOCK, part)
        return result

    return run


@kernel("MelWeightMatrix", since=17, host_inputs=frozenset(range(5)))
def mel_weight_matrix(
    ctx: KernelContext,
    num_mel_bins: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge_hertz: Array,
    upper_edge_hertz: Array,
    *,
    output_datatype: int = 1,
) -> Array:
    """MelWeightMatrix-17: ``[dft_length // 2 + 1][num_mel_bins]`` triangles, evenly spaced on the mel scale.

    The edges are `num_mel_bins` + 2 steps of 1 / (`num_mel_bins` + 2) of the range, so that the last one lies below
    `upper_edge_hertz`: that is what ONNX's reference and onnxruntime do. A triangle whose left edge falls on its peak
    is 1 there. Integers are cut towards 0. All inputs are host scalars.

    Raises:
        InvalidArgument: A number is out of its range, or a triangle reaches beyond the spectrum.
        LimitError: The matrix would be too large.
    """
    xp = ctx.xp
    dtype = _output_type(ctx)
    bands, length, rate = (
        scalar(ctx, value, name)
        for value, name in (
            (num_mel_bins, "num_mel_bins"),
            (dft_length, "dft_length"),
            (sample_rate, "sample_rate"),
        )
    )
    low, high = _hertz(ctx, lower_edge_hertz, "lower_edge_hertz"), _hertz(ctx, upper_edge_hertz, "upper_edge_hertz")
    if bands < 0 or length < 1 or rate < 1 or not 0 <= low <= high < float("inf"):
        raise InvalidArgument(
            f"MelWeightMatrix has {bands} bands from {low} to {high} Hz for a DFT of {length} at {rate} samples a "
            "second.",
            where=ctx.node.location,
            fix="Neither bands nor frequencies may be negative; length and rate must be at least 1, and the edges in "
            "ascending order.",
        )
    bins = length // 2 + 1
    ctx.check_allocation((bins, bands), np.dtype(np.float64))
    edges = _edges(bands, low, high, length, rate)
    if bands and (edges[-2] >= bins or edges[-1] > bins):
        raise InvalidArgument(
            f"The mel bands reach up to bin {edges[-1]:.0f}, but the spectrum has {bins}.",
            where=ctx.node.location,
            why=f"upper_edge_hertz is {high}, sample_rate {rate}",
            fix="Keep the upper edge at or below half the sample rate.",
        )
    left, peak, right = (xp.asarray(edges[shift : shift + bands]) for shift in range(3))
    y = xp.empty((bins, bands), dtype)

    def part(start: int, stop: int) -> None:
        positions = xp.arange(start, stop, dtype=xp.float64).reshape((-1, 1))
        rising = xp.divide(positions - left, xp.maximum(peak - left, 1))
        rising = xp.where(xp.logical_and(peak == left, positions == peak), 1.0, rising)
        falling = xp.divide(right - positions, xp.maximum(right - peak, 1))
        falling = xp.where(positions == peak, 1.0, falling)
        y[start:stop] = xp.maximum(xp.where(positions <= peak, rising, falling), 0.0).astype(dtype)

    ctx.parallel_for(bins, max(1, _BLOCK // max(1, bands)), part)
    return y


def _hertz(ctx: KernelContext, value: Array, name: str) -> float:
    if value.size != 1:
        raise InvalidArgument(
            f"{name} has the shape {list(value.shape)}.", where=ctx.node.location, fix=f"{name} must be one number."
        )
    return float(value.reshape(()).item())


def _edges(bands: int, low: float, high: float, length: int, rate: int) -> Any:
    """Bins of the `bands` + 2 edges, as whole float64 numbers on the host."""
    first, last = (2595 * log1p(edge / 700) / log(10) for edge in (low, high))
    mels = np.arange(bands + 2) * ((last - first) / (bands + 2)) + first
    hertz = 700 * np.expm1(mels / 2595 * log(10))
    return np.floor((length + 1) * hertz / rate)


KERNELS: list[KernelDef] = [
    KernelDef(
        op_type,
        cosine_window,
        since=17,
        host_inputs=frozenset({0}),
        implementation=f"{__name__}:cosine_window",
    )
    for op_type in _COSINES
]
