"""Operators of the domain com.microsoft that exported models use: DynamicQuantizeLSTM.

The cell is `recurrent_cells`' LSTM; only the products differ. Input and hidden state are quantised to uint8 with the
scale of the moment, multiplied by 8-bit weights exactly, and scaled back to float32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.exact_products import exact_depth, exact_matmul, shifted
from ort_py_array.recurrent import check_shapes, layer_of, run_layer
from ort_py_array.recurrent_cells import Cell
from ort_py_array.saturation import quantized_dynamically

__all__ = ["KERNELS", "dynamic_quantize_lstm"]


class _Weights:
    """8-bit weights ``(directions, rows, columns)``, shifted by their zero points, one set a direction."""

    __slots__ = ("bound", "scales", "values")

    def __init__(self, ctx: KernelContext, name: str, w: Array, scale: Array, zero: Array) -> None:
        xp = ctx.xp
        for label, parameter in (("scale", scale), ("zero point", zero)):
            if parameter.size not in (w.shape[0], w.shape[0] * w.shape[2]):
                raise InvalidArgument(
                    f"{name}'s {label} has shape {list(parameter.shape)}; it needs {w.shape[0]} entries, or "
                    f"{w.shape[2]} for each direction.",
                    where=ctx.node.location,
                )
        self.values, self.bound = shifted(xp, w, zero.reshape(w.shape[0], 1, -1))
        self.scales = scale.reshape(w.shape[0], -1).astype(xp.float32)


def _times(xp: Any, weights: _Weights, direction: int, depth: int, x: Array) -> Array:
    """``x @ weights`` with `x` quantised for this product."""
    values, scale, zero = quantized_dynamically(xp, x)
    left, _ = shifted(xp, values, zero)
    product = exact_matmul(xp, left, weights.values[direction], depth).astype(xp.float32)
    product *= scale * weights.scales[direction]
    return product


def dynamic_quantize_lstm(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.DynamicQuantizeLSTM 1.

    Inputs X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero_point, R_scale, R_zero_point. W and R
    are int8 or uint8 and stand transposed: ``(directions, input, 4 · hidden)`` and
    ``(directions, hidden, 4 · hidden)``. All of X is quantised with one scale, the hidden state with a new one at each
    step. Returns ``(Y, Y_h, Y_c)``, float32. Raises InvalidArgument where shapes contradict each other.
    """
    xp = ctx.xp
    layer = layer_of(ctx, "LSTM")
    constants = {index: ctx.constant(index) for index in (1, 2, 8, 9, 10, 11)}

    def prepare(w: Any, r: Any, w_scale: Any, w_zero: Any, r_scale: Any, r_zero: Any) -> tuple[_Weights, _Weights]:
        parts = [xp.asarray(part) for part in (w, r, w_scale, w_zero, r_scale, r_zero)]
        return (
            _Weights(ctx, "W", parts[0], parts[2], parts[3]),
            _Weights(ctx, "R", parts[1], parts[4], parts[5]),
        )

    prepared = prepare(*constants.values()) if all(part is not None for part in constants.values()) else None

    def run(
        x: Array,
        w: Array,
        r: Array,
        b: Array | None,
        lengths: Array | None,
        h: Array | None,
        c: Array | None,
        p: Array | None,
        w_scale: Array,
        w_zero: Array,
        r_scale: Array,
        r_zero: Array,
    ) -> tuple[Array, ...]:
        check_shapes(ctx, layer, x, w.shape, r.shape, b)
        weights, recurrence = prepared or prepare(w, r, w_scale, w_zero, r_scale, r_zero)
        hidden = r.shape[1]
        cells = [
            Cell(
                xp,
                hidden,
                layer.activations[d],
                partial(_times, xp, recurrence, d, exact_depth(255, recurrence.bound)),
                peepholes=None if p is None else (p[d, :hidden], p[d, hidden : 2 * hidden], p[d, 2 * hidden :]),
                clip=layer.clip,
                input_forget=layer.input_forget,
            )
            for d in range(len(layer.reverse))
        ]
        depth = exact_depth(255, weights.bound)

        def project(flat: Array, d: int) -> Array:
            y = _times(xp, weights, d, depth, flat)
            if b is not None:
                y += b[d, : 4 * hidden] + b[d, 4 * hidden :]
            return y

        return run_layer(ctx, layer, cells, project, x, lengths, h, c)

    return run


KERNELS = [
    KernelDef(
        "DynamicQuantizeLSTM",
        dynamic_quantize_lstm,
        domain="com.microsoft",
        since=1,
        outputs=3,
        implementation="ort_py_array.contrib:dynamic_quantize_lstm",
    )
]
