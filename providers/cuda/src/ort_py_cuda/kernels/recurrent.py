"""RNN, GRU and LSTM through cuDNN, where its cells are ONNX's.

cuDNN's GRU resets behind the product (``linear_before_reset``), its LSTM has no peepholes, and its cells have the
default activations; everything else is the array library's. Weights are put into cuDNN's order once, where they are
constant.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelFactory, tensors
from ort_py.dtypes import DataType
from ort_py_array.recurrent import check_shapes, layer_of
from ort_py_cuda import settings
from ort_py_cuda.cudnn.element_types import type_name
from ort_py_cuda.cudnn.errors import Unsupported
from ort_py_cuda.cudnn.library import cudnn, missing_library
from ort_py_cuda.cudnn.recurrence import GATES, Cell, Layer, Sequences
from ort_py_cuda.kernels.pictures import aligned
from ort_py_cuda.kernels.standing import note_fallback, over_library, unprepared

__all__ = ["KERNELS", "cell_of", "recurrent"]

_REMEMBERED = 16
"""Shapes that a node keeps; a dictionary that stops growing is safe to share between threads."""

_ORDER: dict[str, tuple[int, ...]] = {"RNN": (0,), "LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}
"""For each of cuDNN's gates, its place among ONNX's: LSTM i, o, f, c; GRU z, r, h."""

_DEFAULTS = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


def cell_of(ctx: KernelContext) -> Cell | str:
    """cuDNN's cell of a node, or the reason, of more than one word, why it has none."""
    kind, attributes = ctx.node.op_type, ctx.node.attributes
    two = attributes.get("direction", "forward") == "bidirectional"
    names = tuple(attributes.get("activations", ())) or None
    for what in ("activation_alpha", "activation_beta", "clip", "input_forget"):
        if attributes.get(what):
            return f"it sets {what}"
    for position, what in ((4, "lengths of sequences"), (7, "peepholes")):
        if len(ctx.node.inputs) > position and ctx.node.inputs[position] is not None:
            return f"it has {what}"
    if kind == "RNN":
        chosen = set((names or ("Tanh",))[: 2 if two else 1])
        if chosen == {"Tanh"}:
            return "TANH"
        return "RELU" if chosen == {"Relu"} else f"activations {sorted(chosen)}"
    if names not in (None, _DEFAULTS[kind] * (2 if two else 1)):
        return f"activations {list(names or ())}"
    if kind == "GRU":
        return "GRU" if attributes.get("linear_before_reset", 0) else "it resets before the product"
    return "LSTM"


def recurrent(ctx: KernelContext, library: KernelFactory) -> KernelCallable:
    """RNN, GRU or LSTM (1–22) of float32 and float16: ``(Y, Y_h)`` or ``(Y, Y_h, Y_c)``.

    Raises InvalidArgument where shapes contradict each other, LimitError through the context.
    """
    cell = cell_of(ctx)
    reason = missing_library() or (None if cell in GATES else str(cell))
    if reason is not None:
        note_fallback(ctx, reason)
        return library(ctx)
    try:
        return _Recurrent(ctx, cell)  # type: ignore[arg-type]  # a key of GATES
    except Unsupported as refusal:  # the library packs the same inputs, so that nothing is lost by having begun
        note_fallback(ctx, "; ".join((refusal.what, *refusal.why)))
        return library(ctx)


class _Recurrent:
    """A node that cuDNN computes."""

    def __init__(self, ctx: KernelContext, cell: Cell) -> None:
        self._ctx = ctx
        self._cell = cell
        self._kind = ctx.node.op_type
        self._attributes = layer_of(ctx, self._kind)
        self._tf32 = settings.current().tf32
        self._layers: dict[Any, Layer] = {}
        self._runs: dict[Any, Sequences] = {}
        self._late: KernelCallable | None = None
        # The block's order is the library's own affair: it is not shared with sessions of another device.
        form = f"cuDNN {cell} on {ctx.device}, tf32 {self._tf32}"
        self._packed = ctx.packed((1, 2, 3), form, self._block)

    def _layer(self, w: Array, r: Array) -> Layer:
        key = (w.shape, r.shape, w.dtype.num)
        layer = self._layers.get(key)
        if layer is None:
            layer = self._layers[key] = Layer(
                cudnn(),
                self._cell,
                w.shape[2],
                r.shape[2],
                bidirectional=w.shape[0] == 2,
                dtype=type_name(w),
                tf32=self._tf32,
                xp=self._ctx.xp,
                device=self._ctx.device.index,
            )
        return layer

    def _block(self, w: Array, r: Array, b: Array | None) -> Array:
        """Weights as cuDNN has them, in one block."""
        self._check(None, w, r, b)
        xp, gates = self._ctx.xp, GATES[self._cell]
        order, hidden = _ORDER[self._kind], r.shape[2]
        nothing = xp.zeros((hidden,), w.dtype)

        def part(direction: int, gate: int) -> tuple[Array, Array]:
            of_state = gate >= gates
            place = order[gate % gates] * hidden
            matrix = (r if of_state else w)[direction, place : place + hidden]
            if b is None:
                return matrix, nothing
            start = place + (gates * hidden if of_state else 0)
            return matrix, b[direction, start : start + hidden]

        return self._layer(w, r).filled(xp, self._ctx.device.index, part)

    def _unpacked(self, block: Array, w: Array, r: Array, b: Array | None) -> tuple[Array, Array, Array | None]:
        """The inverse of `_block`."""
        xp, gates = self._ctx.xp, GATES[self._cell]
        order, hidden = _ORDER[self._kind], r.shape[2]
        wide = [xp.empty(x.shape, x.dtype) for x in (w, r)]
        bias = None if b is None else xp.empty(b.shape, b.dtype)
        parts = self._layer(w, r).read(xp, self._ctx.device.index, block, w.dtype)
        for direction, held in enumerate(parts):
            for gate, (matrix, vector) in enumerate(held):
                of_state = gate >= gates
                place = order[gate % gates] * hidden
                wide[of_state][direction, place : place + hidden] = matrix
                if bias is not None:
                    start = place + (gates * hidden if of_state else 0)
                    bias[direction, start : start + hidden] = vector
        return wide[0], wide[1], bias

    def _check(self, x: Array | None, w: Array, r: Array, b: Array | None) -> None:
        turned = [(one.shape[0], one.shape[2], one.shape[1]) for one in (w, r)]
        check_shapes(self._ctx, self._attributes, x, turned[0], turned[1], b)

    def __call__(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None = None,
        lengths: Array | None = None,
        h: Array | None = None,
        c: Array | None = None,
        peepholes: Array | None = None,
    ) -> tuple[Array, ...]:
        self._check(x, w, r, b)
        first = self._attributes.batch_first
        batch, steps = (x.shape[0], x.shape[1]) if first else (x.shape[1], x.shape[0])
        states = [None if one is None else self._state(one, first) for one in (h, c)]
        fits = all(one is None or one.shape == (w.shape[0], batch, r.shape[2]) for one in states)
        if 0 in (*x.shape, *r.shape) or not fits:
            return self._by_library("an empty sequence, or a state that does not fit", x, w, r, b, h, c)
        self._ctx.check_allocation((steps, w.shape[0], batch, r.shape[2]), x.dtype)
        try:
            return self._run(x, w, r, b, states, steps, batch)
        except Unsupported as refusal:
            return self._by_library("; ".join((refusal.what, *refusal.why)), x, w, r, b, h, c)

    def _state(self, state: Array, first: bool) -> Array:
        return self._ctx.xp.ascontiguousarray(state.swapaxes(0, 1)) if first and state.ndim == 3 else state

    def _run(
        self, x: Array, w: Array, r: Array, b: Array | None, states: list[Array | None], steps: int, batch: int
    ) -> tuple[Array, ...]:
        xp, device, first = self._ctx.xp, self._ctx.device.index, self._attributes.batch_first
        directions, hidden = w.shape[0], r.shape[2]
        backwards = self._attributes.reverse == (True,)
        if backwards:  # cuDNN runs one direction forwards only
            x = xp.ascontiguousarray(x[:, ::-1] if first else x[::-1])
        key = (x.shape, w.shape, r.shape, x.dtype.num)
        runs = self._runs.get(key)
        if runs is None:
            runs = Sequences(self._layer(w, r), steps, batch, batch_first=first, xp=xp, device=device)
            if len(self._runs) < _REMEMBERED:
                self._runs[key] = runs
        block = self._block(w, r, b) if self._packed is None else self._packed
        lead = (batch, steps) if first else (steps, batch)
        y = xp.empty((*lead, directions * hidden), x.dtype)
        x, h, c = aligned(xp, x, *states)
        after = xp.empty((directions, batch, hidden), x.dtype)
        cell = xp.empty((directions, batch, hidden), x.dtype) if self._cell == "LSTM" else None
        given = (x, y, h, after, c if cell is not None else None, cell)
        runs(xp, device, block.data.ptr, [None if one is None else one.data.ptr for one in given])
        if backwards:
            y = y[:, ::-1] if first else y[::-1]
        # With the batch first this is (batch, time, directions, hidden) already; else directions come second.
        y = y.reshape((*lead, directions, hidden))
        if not first:
            y = xp.swapaxes(y, 1, 2)
        results = [y, *(self._state(one, first) for one in (after, cell) if one is not None)]
        return tuple(xp.ascontiguousarray(one) for one in results)

    def _by_library(
        self, reason: str, x: Array, w: Array, r: Array, b: Array | None, h: Array | None, c: Array | None
    ) -> tuple[Array, ...]:
        if self._late is None:
            note_fallback(self._ctx, reason)
            self._late = unprepared(self._ctx)
        if self._packed is not None:
            w, r, b = self._unpacked(self._packed, w, r, b)
        found: tuple[Array, ...] = self._late(x, w, r, b, None, h, c)
        return found


_FLOATS = tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)

KERNELS = [one for kind in ("RNN", "GRU", "LSTM") for one in over_library(kind, recurrent, types={"T": _FLOATS})]
