"""com.microsoft.DynamicQuantizeLSTM: an LSTM over 8-bit weights, its input and state quantised at run time.

The cell is `recurrent_cells`' LSTM; only the products differ. Input and hidden state are quantised to uint8 with the
scale of the moment, multiplied by 8-bit weights exactly, and scaled back to float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.exact_products import exact_depth, exact_matmul, known_depth, shifted
from ort_py_array.parts import LARGE_PART, by_parts
from ort_py_array.recurrent import check_shapes, layer_of
from ort_py_array.recurrent_cells import Cell
from ort_py_array.recurrent_layers import run_layer
from ort_py_array.recurrent_standard import Product, Standard, in_standard_form, in_standard_order
from ort_py_array.saturation import centred, centred_by_parts

__all__ = ["KERNELS", "dynamic_quantize_lstm"]


class _Weights:
    """8-bit weights ``(directions, rows, columns)``, shifted by their zero points, one set a direction.

    Of a standard LSTM the gates stand as `recurrent_standard` wants them: its scales are in standard form (halving them
    is exact), its values in standard order.
    """

    __slots__ = ("_ctx", "_exact", "_scales", "_values")

    def __init__(
        self,
        ctx: KernelContext,
        name: str,
        w: Array,
        scale: Array,
        zero: Array,
        standard: bool,
        known: tuple[Array, int] | None = None,
    ) -> None:
        xp, self._ctx = ctx.xp, ctx
        _check_parameter(ctx, name, "scale", w, scale)
        if known is not None:
            self._values, self._exact = known
        else:
            self._values, bound = _shifted(ctx, name, w, zero, standard)
            self._exact = exact_depth(255, bound)
        scales = xp.empty((w.shape[0], w.shape[2]), xp.float32)
        scales[...] = scale.reshape(w.shape[0], -1)
        self._scales = in_standard_form(xp, "LSTM", scales) if standard else scales

    def times(self, direction: int, x: Array, out: Array | None = None) -> Array:
        """``x @ weights`` with `x` quantised for this product."""
        return self.times_quantized(direction, *centred(self._ctx.xp, x), out)

    def product(self) -> Product:
        """The products of all directions, for `Standard`."""
        if self._values.shape[0] == 1:
            return partial(self.times, 0)

        def product(h: Array, out: Array) -> None:
            for direction in range(self._values.shape[0]):
                self.times(direction, h[direction], out[direction])

        return product

    def times_quantized(self, direction: int, x: Array, scale: Array, out: Array | None = None) -> Array:
        """``x @ weights · scale`` for an `x` of integers."""
        xp, weights = self._ctx.xp, self._values[direction]
        if weights.shape[0] > self._exact:
            product = exact_matmul(self._ctx, x, weights, self._exact).astype(xp.float32)
        else:  # no sum can leave the integers that float32 holds
            product = xp.matmul(x, weights) if out is None else xp.matmul(x, weights, out=out)
        return xp.multiply(product, self._scales[direction] * scale, out=product if out is None else out)

    def times_rows(self, direction: int, x: Array, scale: Array) -> Array:
        """`times_quantized` of many rows."""
        columns = self._values.shape[2]
        y = self._ctx.xp.empty((x.shape[0], columns), self._ctx.xp.float32)

        def part(start: int, stop: int) -> None:
            y[start:stop] = self.times_quantized(direction, x[start:stop], scale)

        self._ctx.parallel_for(x.shape[0], max(1, LARGE_PART // columns), part)
        return y


def _check_parameter(ctx: KernelContext, name: str, label: str, w: Array, parameter: Array) -> None:
    if parameter.size not in (w.shape[0], w.shape[0] * w.shape[2]):
        raise InvalidArgument(
            f"{name}'s {label} has shape {list(parameter.shape)}; it needs {w.shape[0]} entries, or "
            f"{w.shape[2]} for each direction.",
            where=ctx.node.location,
            fix=f"Give it the shape {[w.shape[0]]} or {[w.shape[0], w.shape[2]]}.",
        )


def _shifted(ctx: KernelContext, name: str, w: Array, zero: Array, standard: bool) -> tuple[Array, int]:
    _check_parameter(ctx, name, "zero point", w, zero)
    values, bound = shifted(ctx, w, zero.reshape(w.shape[0], 1, -1))
    return in_standard_order(ctx.xp, "LSTM", values) if standard else values, bound


def _known(ctx: KernelContext, name: str, w: Array, zero: Array, standard: bool) -> tuple[Array, int]:
    """Weights less their zero points; at planning, a look at the values costs no wait and finds a closer bound."""
    values, _ = _shifted(ctx, name, w, zero, standard)
    return values, known_depth(ctx.xp, values)


def dynamic_quantize_lstm(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.DynamicQuantizeLSTM 1.

    Inputs X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero_point, R_scale, R_zero_point. W and R
    are int8 or uint8 and stand transposed: ``(directions, input, 4 · hidden)`` and
    ``(directions, hidden, 4 · hidden)``. All of X is quantised with one scale, the hidden state with a new one at each
    step. Returns ``(Y, Y_h, Y_c)``, float32. Raises InvalidArgument where shapes contradict each other.
    """
    xp = ctx.xp
    layer = layer_of(ctx, "LSTM")

    standard = layer.standard

    def prepare(parts: Sequence[Array], known: Sequence[Any] = (None, None)) -> tuple[_Weights, list[Cell] | Standard]:
        w, r, w_scale, w_zero, r_scale, r_zero = parts
        inputs = _Weights(ctx, "W", w, w_scale, w_zero, standard, known[0])
        recurrence = _Weights(ctx, "R", r, r_scale, r_zero, standard, known[1])
        if standard:
            return inputs, Standard(
                "LSTM", r.shape[1], layer.reverse, xp.full((), 0.5, xp.float32), recurrence.product()
            )
        cells = [
            Cell(
                xp,
                r.shape[1],
                layer.activations[d],
                partial(recurrence.times, d),
                clip=layer.clip,
                input_forget=layer.input_forget,
                reverse=reverse,
            )
            for d, reverse in enumerate(layer.reverse)
        ]
        return inputs, cells

    scales = [ctx.constant(index) for index in (8, 10)]
    prepared = None
    if all(scale is not None for scale in scales):

        def make(w: Array, r: Array, w_zero: Array, r_zero: Array) -> tuple[Any, Any]:
            return _known(ctx, "W", w, w_zero, standard), _known(ctx, "R", r, r_zero, standard)

        known = ctx.packed((1, 2), f"8-bit gates less zero points, {standard=}", make, (9, 11))
        if known is not None:
            w_scale, r_scale = (xp.asarray(scale) for scale in scales)
            prepared = prepare((known[0][0], known[1][0], w_scale, w_scale, r_scale, r_scale), known)

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
        weights, cells = prepared or prepare((w, r, w_scale, w_zero, r_scale, r_zero))
        hidden = r.shape[1]
        if p is not None and not isinstance(cells, Standard):
            parts = (slice(0, hidden), slice(hidden, 2 * hidden), slice(2 * hidden, None))
            cells = [replace(cell, peepholes=tuple(p[d, part] for part in parts)) for d, cell in enumerate(cells)]
        quantized: list[tuple[Array, Array]] = []

        def project(flat: Array, d: int) -> Array:
            large = max(flat.shape[0] * 4 * hidden, flat.size) > LARGE_PART and ctx.device == HOST
            if large:
                ctx.check_allocation((flat.shape[0], 4 * hidden), xp.float32)
            if not quantized:  # one scale for all of X, whatever the direction
                quantized.append(centred_by_parts(ctx, flat) if large else centred(xp, flat))
            y = weights.times_rows(d, *quantized[0]) if large else weights.times_quantized(d, *quantized[0])
            if b is not None:
                bias = b[d, : 4 * hidden] + b[d, 4 * hidden :]
                bias = in_standard_form(xp, "LSTM", bias) if standard else bias
                if large:
                    by_parts(ctx, lambda out, summand: xp.add(out, summand, out), y, bias)
                else:
                    y += bias
            return y

        return run_layer(ctx, "LSTM", layer.batch_first, cells, project, x, lengths, h, c)

    return run


KERNELS = [
    KernelDef(
        "DynamicQuantizeLSTM",
        dynamic_quantize_lstm,
        domain="com.microsoft",
        since=1,
        outputs=3,
        implementation="ort_py_array.contrib.dynamic_quantize_lstm:dynamic_quantize_lstm",
    )
]
