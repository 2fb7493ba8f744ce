"""RNN, GRU and LSTM: attributes, shapes and products; the quantised LSTM in `contrib` shares the former two.

The input's part of every gate is one GEMM over all time steps and batch entries; only what depends on the hidden state
is done step by step, in `recurrent_layers`. What constant weights and known shapes decide is decided once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.precision import rounded, widened
from ort_py_array.products import product
from ort_py_array.recurrent_cells import (
    DEFAULT_ACTIVATIONS,
    GATES,
    Activation,
    Cell,
    activation_of,
    is_standard,
    parameters_of,
)
from ort_py_array.recurrent_layers import STEPS, run_layer
from ort_py_array.recurrent_standard import KINDS, Standard, in_standard_form, product_of

__all__ = ["KERNELS", "Layer", "check_shapes", "layer_of"]


@dataclass(frozen=True, slots=True)
class Layer:
    """A recurrent node's attributes, read once.

    Attributes:
        kind: ``RNN``, ``GRU`` or ``LSTM``.
        hidden: Hidden size; None where only the weights tell.
        reverse: For each direction, whether it runs backwards.
        activations: For each direction, its functions.
        standard: Whether `recurrent_standard` knows its steps.
        clip: Bound before activations, or None.
        batch_first: ``layout`` 1.
        linear_before_reset, input_forget: As in `Cell`.
    """

    kind: str
    hidden: int | None
    reverse: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    standard: bool
    clip: float | None
    batch_first: bool
    linear_before_reset: bool
    input_forget: bool


def layer_of(ctx: KernelContext, kind: str) -> Layer:
    """Read and check a recurrent node's attributes.

    Raises:
        InvalidArgument: Unknown direction or activation, or too few activations.
    """
    attributes = ctx.node.attributes
    where = ctx.node.location
    direction = attributes.get("direction", "forward")
    reverses = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    if direction not in reverses:
        raise InvalidArgument(f"direction is '{direction}'.", where=where, fix=f"Use one of {', '.join(reverses)}.")
    reverse = reverses[direction]
    count = len(DEFAULT_ACTIVATIONS[kind])
    names: Sequence[str] = tuple(attributes.get("activations", ())) or DEFAULT_ACTIVATIONS[kind] * len(reverse)
    if kind == "RNN" and len(names) == 2 and len(reverse) == 1:
        names = names[:1]  # the schema's default names both directions even where there is one
    if len(names) != count * len(reverse):
        raise InvalidArgument(
            f"activations is {list(names)}; {kind} with direction '{direction}' needs {count * len(reverse)}.",
            where=where,
            fix=f"Name {count} activations for each direction, or leave the attribute out.",
        )
    alphas = parameters_of(names, attributes.get("activation_alpha", ()), 0)
    betas = parameters_of(names, attributes.get("activation_beta", ()), 1)
    functions = tuple(activation_of(ctx.xp, *part, where) for part in zip(names, alphas, betas, strict=True))
    clip = attributes.get("clip") or None
    input_forget = bool(attributes.get("input_forget", 0))
    plain = kind in KINDS and clip is None and not input_forget
    # Sequences of several lengths, and peepholes.
    plain = plain and not any(index < len(ctx.node.inputs) and ctx.node.inputs[index] is not None for index in (4, 7))
    return Layer(
        kind=kind,
        hidden=attributes.get("hidden_size"),
        reverse=reverse,
        activations=tuple(functions[i * count : (i + 1) * count] for i in range(len(reverse))),
        standard=plain and all(is_standard(kind, names[i * count :][:count]) for i in range(len(reverse))),
        clip=clip,
        batch_first=bool(attributes.get("layout", 0)),
        linear_before_reset=bool(attributes.get("linear_before_reset", 0)),
        input_forget=input_forget,
    )


def recurrent(kind: str, ctx: KernelContext) -> KernelCallable:
    """RNN, GRU or LSTM (1–22) on floats; narrow floats are computed in float32 and rounded once.

    Inputs X, W, R, B, sequence_lens, initial_h and, for LSTM, initial_c and P, as in the specification. Returns
    ``(Y, Y_h)`` or ``(Y, Y_h, Y_c)``. Raises InvalidArgument where shapes contradict each other.
    """
    xp = ctx.xp
    layer = layer_of(ctx, kind)
    pack: Callable[..., tuple[Array | None, ...]] = _pack if layer.standard else _widened
    weights_of: Callable[..., _Weights] = _Weights.standard if layer.standard else _Weights.general
    form = f"standard {kind}, {layer.linear_before_reset=}" if layer.standard else "widened"
    packed = ctx.packed((1, 2, 3), form, partial(pack, ctx, layer))
    known = None if packed is None else weights_of(ctx, layer, *packed)
    checked: set[Any] = set()

    def run(
        x: Array,
        w: Array,
        r: Array,
        b: Array | None = None,
        lengths: Array | None = None,
        h: Array | None = None,
        c: Array | None = None,
        p: Array | None = None,
    ) -> tuple[Array, ...]:
        shapes = x.shape, w.shape, r.shape, None if b is None else b.shape
        if shapes not in checked:
            _check(ctx, layer, x, w, r, b)
            if len(checked) < _REMEMBERED:
                checked.add(shapes)
        weights = known or weights_of(ctx, layer, *pack(ctx, layer, w, r, b))
        cells = weights.cells
        if p is not None and not isinstance(cells, Standard):
            cells = [replace(cell, peepholes=_peepholes(ctx, p, d, cell.hidden)) for d, cell in enumerate(cells)]

        def project(flat: Array, d: int) -> Array:
            y = product(ctx, flat, weights.inputs[d])
            bias = weights.biases[d]
            if bias is not None:
                xp.add(y, bias, out=y)
            return y

        results = run_layer(
            ctx,
            kind,
            layer.batch_first,
            cells,
            project,
            widened(xp, x),
            lengths,
            None if h is None else widened(xp, h),
            None if c is None else widened(xp, c),
        )
        return tuple(rounded(result, x.dtype) for result in results)

    return run


def _widened(
    ctx: KernelContext, layer: Layer, w: Array, r: Array, b: Array | None
) -> tuple[Array, Array, Array | None]:
    """The weights of a general layer, for `_Weights.general`."""
    xp = ctx.xp
    return widened(xp, w), widened(xp, r), None if b is None else widened(xp, b)


def _pack(ctx: KernelContext, layer: Layer, w: Array, r: Array, b: Array | None) -> tuple[Array | None, ...]:
    """The weights of a standard layer, for `_Weights.standard`: rows of inputs, gates as `recurrent_standard` has them.

    Raises:
        InvalidArgument: They do not belong together.
    """
    _check(ctx, layer, None, w, r, b)
    xp, kind, hidden = ctx.xp, layer.kind, r.shape[2]
    inputs, recurrence = (in_standard_form(xp, kind, xp.swapaxes(widened(xp, part), 1, 2)) for part in (w, r))
    bias = last = last_bias = None
    if b is not None:
        wide, width = widened(xp, b), GATES[kind] * hidden
        bias = wide[:, :width] + wide[:, width:]
        if layer.linear_before_reset:  # the reset gate comes between the last gate's biases
            bias[:, 2 * hidden :] = wide[:, 2 * hidden : width]
            last_bias = wide[:, None, 5 * hidden :].copy()
        bias = in_standard_form(xp, kind, bias)
    if kind == "GRU" and not layer.linear_before_reset:
        recurrence, last = (xp.ascontiguousarray(part) for part in xp.split(recurrence, [2 * hidden], axis=-1))
    return inputs, recurrence, bias, last, last_bias


_REMEMBERED = 16
"""Shapes a node remembers to have checked; a set that stops growing is safe to share between threads."""


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights as the products take them, one entry a direction."""

    inputs: Sequence[Array]
    biases: Sequence[Array | None]
    cells: Sequence[Cell] | Standard

    @staticmethod
    def standard(
        ctx: KernelContext,
        layer: Layer,
        inputs: Array,
        recurrence: Array,
        bias: Array | None,
        last: Array | None,
        last_bias: Array | None,
    ) -> _Weights:
        """From what `_pack` makes."""
        directions = range(len(layer.reverse))
        standard = Standard(
            layer.kind,
            recurrence.shape[1],
            layer.reverse,
            ctx.xp.full((), 0.5, recurrence.dtype),
            product_of(ctx.xp, recurrence),
            None if last is None else product_of(ctx.xp, last),
            last_bias[0] if last_bias is not None and len(directions) == 1 else last_bias,
        )
        return _Weights(
            [inputs[d] for d in directions], [None if bias is None else bias[d] for d in directions], standard
        )

    @staticmethod
    def general(ctx: KernelContext, layer: Layer, weights: Array, recurrence: Array, bias: Array | None) -> _Weights:
        """From W ``(directions, gates · hidden, input)``, R ``(directions, gates · hidden, hidden)`` and B."""
        xp, kind, hidden = ctx.xp, layer.kind, recurrence.shape[-1]
        split = 2 if kind == "GRU" and not layer.linear_before_reset else GATES[kind]
        inputs: list[Array] = []
        biases: list[Array | None] = []
        cells: list[Cell] = []
        for d, reverse in enumerate(layer.reverse):
            inputs.append(weights[d].T)
            biases.append(None if bias is None else _input_bias(kind, bias[d], GATES[kind] * hidden, hidden))
            last = partial(_times, xp, recurrence[d, 2 * hidden :].T) if kind == "GRU" else None
            cells.append(
                Cell(
                    xp,
                    hidden,
                    layer.activations[d],
                    partial(_times, xp, recurrence[d, : split * hidden].T),
                    project_last=last,
                    bias=bias[d, 5 * hidden :] if bias is not None and kind == "GRU" else None,
                    clip=layer.clip,
                    linear_before_reset=layer.linear_before_reset,
                    input_forget=layer.input_forget,
                    reverse=reverse,
                )
            )
        return _Weights(inputs, biases, cells)


def _times(xp: Any, weights: Array, h: Array) -> Array:
    return xp.matmul(h, weights)


def _input_bias(kind: str, bias: Array, width: int, hidden: int) -> Array:
    """The summand of the projected input: both biases, but for the GRU's last gate only the input's."""
    if kind != "GRU":
        return bias[:width] + bias[width:]
    both = bias[:width].copy()
    both[: 2 * hidden] += bias[width : width + 2 * hidden]
    return both


def _peepholes(ctx: KernelContext, p: Array, d: int, hidden: int) -> tuple[Array, Array, Array]:
    if p.ndim != 2 or p.shape[0] <= d or p.shape[1] != 3 * hidden:
        raise InvalidArgument(
            f"P has shape {list(p.shape)}; it needs an entry for each direction, each of 3 · {hidden}.",
            where=ctx.node.location,
            fix=f"Give it the shape (directions, {3 * hidden}).",
        )
    wide = widened(ctx.xp, p)[d]
    return wide[:hidden], wide[hidden : 2 * hidden], wide[2 * hidden :]


def _check(ctx: KernelContext, layer: Layer, x: Array | None, w: Array, r: Array, b: Array | None) -> None:
    check_shapes(ctx, layer, x, _transposed(w), _transposed(r), b)


def _transposed(weights: Array) -> tuple[int, ...]:
    shape: tuple[int, ...] = weights.shape
    return shape[0], shape[2], shape[1]


def check_shapes(
    ctx: KernelContext,
    layer: Layer,
    x: Array | None,
    weights: tuple[int, ...],
    recurrence: tuple[int, ...],
    b: Array | None,
) -> None:
    """Compare the shapes of input, weights ``(directions, input, gates · hidden)``, recurrence weights and bias.

    Args:
        ctx: Context of the node.
        layer: Its attributes.
        x: The input; None where it is not known yet.
        weights, recurrence: Shapes of the weights, transposed.
        b: The bias, or None.

    Raises:
        InvalidArgument: They do not belong together.
    """
    directions, gates = len(layer.reverse), GATES[layer.kind]
    hidden = layer.hidden or recurrence[1]
    problems = []
    if x is None:
        pass
    elif x.ndim != 3:
        problems.append(f"X has shape {list(x.shape)}; it needs rank 3")
    elif x.shape[2] != weights[1]:
        problems.append(f"X has {x.shape[2]} features, W is made for {weights[1]}")
    if weights[0] != directions or weights[2] != gates * hidden:
        problems.append(
            f"W has {weights[0]} directions and {weights[2]} gate rows instead of {directions} and {gates} · {hidden}"
        )
    if tuple(recurrence) != (directions, hidden, gates * hidden):
        problems.append(
            f"R is made for {recurrence[0]} directions, hidden size {recurrence[1]} and {recurrence[2]} gate rows "
            f"instead of {directions}, {hidden} and {gates} · {hidden}"
        )
    if b is not None and tuple(b.shape) != (directions, 2 * gates * hidden):
        problems.append(f"B has shape {list(b.shape)} instead of {[directions, 2 * gates * hidden]}")
    if problems:
        raise InvalidArgument(
            f"{layer.kind}'s inputs do not fit together.",
            where=ctx.node.location,
            why=problems,
            fix="Check the shapes of the inputs, and the attributes hidden_size, direction and layout.",
        )


KERNELS = [
    KernelDef(
        kind,
        partial(recurrent, kind),
        since=1,
        until=22,
        outputs=3 if kind == "LSTM" else 2,
        implementation="ort_py_array.recurrent:recurrent",
    )
    for kind in STEPS
]
