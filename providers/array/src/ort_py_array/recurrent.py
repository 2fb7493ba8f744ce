"""RNN, GRU and LSTM: sequences, directions, layouts and initial states around the steps of `recurrent_cells`.

The input's part of every gate is one GEMM over all time steps and batch entries; only what depends on the hidden state
is done step by step. `run_layer` is also what the quantised LSTM in `contrib` uses, with its own products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.precision import rounded, widened
from ort_py_array.recurrent_cells import (
    DEFAULT_ACTIVATIONS,
    GATES,
    Activation,
    Cell,
    activation_of,
    gru,
    lstm,
    parameters_of,
    rnn,
)

__all__ = ["KERNELS", "Layer", "layer_of", "run_layer"]

_STEPS = {"RNN": rnn, "GRU": gru, "LSTM": lstm}


@dataclass(frozen=True, slots=True)
class Layer:
    """A recurrent node's attributes, read once.

    Attributes:
        kind: ``RNN``, ``GRU`` or ``LSTM``.
        hidden: Hidden size; None where only the weights tell.
        reverse: For each direction, whether it runs backwards.
        activations: For each direction, its functions.
        clip: Bound before activations, or None.
        batch_first: ``layout`` 1.
        linear_before_reset, input_forget: As in `Cell`.
    """

    kind: str
    hidden: int | None
    reverse: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
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
        )
    alphas = parameters_of(names, attributes.get("activation_alpha", ()), 0)
    betas = parameters_of(names, attributes.get("activation_beta", ()), 1)
    functions = tuple(activation_of(ctx.xp, *part, where) for part in zip(names, alphas, betas, strict=True))
    clip = attributes.get("clip")
    return Layer(
        kind=kind,
        hidden=attributes.get("hidden_size"),
        reverse=reverse,
        activations=tuple(functions[i * count : (i + 1) * count] for i in range(len(reverse))),
        clip=clip or None,
        batch_first=bool(attributes.get("layout", 0)),
        linear_before_reset=bool(attributes.get("linear_before_reset", 0)),
        input_forget=bool(attributes.get("input_forget", 0)),
    )


def recurrent(kind: str, ctx: KernelContext) -> KernelCallable:
    """RNN, GRU (7–22) or LSTM (7–22) on floats; narrow floats are computed in float32 and rounded once.

    Inputs X, W, R, B, sequence_lens, initial_h and, for LSTM, initial_c and P, as in the specification. Returns
    ``(Y, Y_h)`` or ``(Y, Y_h, Y_c)``. Raises InvalidArgument where shapes contradict each other.
    """
    xp = ctx.xp
    layer = layer_of(ctx, kind)
    gates = GATES[kind]

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
        hidden = r.shape[-1]
        check_shapes(ctx, layer, x, (w.shape[0], w.shape[2], w.shape[1]), (r.shape[0], r.shape[2], r.shape[1]), b)
        wide = widened(xp, x)
        weights, recurrence = widened(xp, w), widened(xp, r)
        bias = None if b is None else widened(xp, b)
        cells = []
        for d in range(len(layer.reverse)):
            last = None
            split = 2 if kind == "GRU" and not layer.linear_before_reset else gates
            if kind == "GRU":
                last = partial(_times, xp, recurrence[d, 2 * hidden :].T)
            cells.append(
                Cell(
                    xp,
                    hidden,
                    layer.activations[d],
                    partial(_times, xp, recurrence[d, : split * hidden].T),
                    last,
                    bias[d, 5 * hidden :] if bias is not None and kind == "GRU" else None,
                    _peepholes(ctx, p, d, hidden),
                    layer.clip,
                    layer.linear_before_reset,
                    layer.input_forget,
                )
            )

        def project(flat: Array, d: int) -> Array:
            y = xp.matmul(flat, weights[d].T)
            if bias is not None:
                y += _input_bias(xp, kind, bias[d], gates * hidden, hidden)
            return y

        results = run_layer(
            ctx,
            layer,
            cells,
            project,
            wide,
            lengths,
            None if h is None else widened(xp, h),
            None if c is None else widened(xp, c),
        )
        return tuple(rounded(result, x.dtype) for result in results)

    return run


def _times(xp: Any, weights: Array, h: Array) -> Array:
    return xp.matmul(h, weights)


def _input_bias(xp: Any, kind: str, bias: Array, width: int, hidden: int) -> Array:
    """What can be added to the projected input: both biases, but for the GRU's last gate only the input's."""
    if kind != "GRU":
        return bias[:width] + bias[width:]
    both = bias[:width].copy()
    both[: 2 * hidden] += bias[width : width + 2 * hidden]
    return both


def _peepholes(ctx: KernelContext, p: Array | None, d: int, hidden: int) -> tuple[Array, Array, Array] | None:
    if p is None:
        return None
    if p.ndim != 2 or p.shape[1] != 3 * hidden:
        raise InvalidArgument(
            f"P has shape {list(p.shape)}; its second axis needs 3 · {hidden} entries.", where=ctx.node.location
        )
    wide = widened(ctx.xp, p)[d]
    return wide[:hidden], wide[hidden : 2 * hidden], wide[2 * hidden :]


def check_shapes(
    ctx: KernelContext,
    layer: Layer,
    x: Array,
    weights: tuple[int, ...],
    recurrence: tuple[int, ...],
    b: Array | None,
) -> None:
    """Compare the shapes of input, weights ``(directions, input, gates · hidden)``, recurrence weights and bias.

    Raises:
        InvalidArgument: They do not belong together.
    """
    directions, gates = len(layer.reverse), GATES[layer.kind]
    hidden = layer.hidden or recurrence[1]
    problems = []
    if x.ndim != 3:
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
        raise InvalidArgument(f"{layer.kind}'s inputs do not fit together.", where=ctx.node.location, why=problems)


def run_layer(
    ctx: KernelContext,
    layer: Layer,
    cells: Sequence[Cell],
    project: Callable[[Array, int], Array],
    x: Array,
    lengths: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
) -> tuple[Array, ...]:
    """Run all directions over a whole sequence.

    Args:
        ctx: Context of the node.
        layer: Its attributes.
        cells: One cell a direction.
        project: ``(rows, input)`` and a direction → ``(rows, gates · hidden)``, biases added.
        x: ``(time, batch, input)``, or batch first.
        lengths: int32 ``(batch,)`` steps of each entry, on the device, or None.
        initial_h, initial_c: ``(directions, batch, hidden)``, or batch first; zeros where None.

    Returns:
        Y, Y_h and, for LSTM, Y_c, in the layout asked for.
    """
    xp = ctx.xp
    if layer.batch_first:
        x = xp.ascontiguousarray(xp.swapaxes(x, 0, 1))
        initial_h, initial_c = (None if s is None else xp.swapaxes(s, 0, 1) for s in (initial_h, initial_c))
    steps, batch = x.shape[:2]
    directions, hidden = len(cells), cells[0].hidden
    for name, state in (("initial_h", initial_h), ("initial_c", initial_c)):
        if state is not None and tuple(state.shape) != (directions, batch, hidden):
            raise InvalidArgument(
                f"{name} has shape {list(state.shape)} (batch second) instead of {[directions, batch, hidden]}.",
                where=ctx.node.location,
            )
    if lengths is not None and tuple(lengths.shape) != (batch,):
        raise InvalidArgument(
            f"sequence_lens has shape {list(lengths.shape)} instead of {[batch]}.", where=ctx.node.location
        )
    ctx.check_allocation((steps, directions, batch, hidden), x.dtype)
    y = xp.zeros((steps, directions, batch, hidden), x.dtype)
    finals: tuple[list[Array], list[Array]] = ([], [])
    flat = x.reshape(steps * batch, -1)
    for d, cell in enumerate(cells):
        projected = project(flat, d).reshape(steps, batch, -1)
        h = xp.zeros((batch, hidden), x.dtype) if initial_h is None else initial_h[d]
        c = xp.zeros((batch, hidden), x.dtype) if initial_c is None else initial_c[d]
        h, c = _run_direction(cell, _STEPS[layer.kind], projected, layer.reverse[d], lengths, h, c, y[:, d])
        finals[0].append(h)
        finals[1].append(c)
    states = [xp.stack(final) for final in finals[: 2 if layer.kind == "LSTM" else 1]]
    if not layer.batch_first:
        return y, *states
    return xp.ascontiguousarray(xp.transpose(y, (2, 0, 1, 3))), *(
        xp.ascontiguousarray(xp.swapaxes(state, 0, 1)) for state in states
    )


def _run_direction(
    cell: Cell,
    step: Callable[..., tuple[Array, Array]],
    projected: Array,
    reverse: bool,
    lengths: Array | None,
    h: Array,
    c: Array,
    y: Array,
) -> tuple[Array, Array]:
    """The recurrence. Entries whose sequence is over keep their state, and their outputs stay zero.

    Running backwards, an entry's own last step comes first in *its* sequence; the steps after it are skipped, which is
    the same as starting there.
    """
    xp = cell.xp
    steps = projected.shape[0]
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    if lengths is None:
        for t in order:
            h, c = step(cell, projected[t], h, c)
            y[t] = h
        return h, c
    for t in order:
        alive = (lengths > t)[:, None]
        new_h, new_c = step(cell, projected[t], h, c)
        h, c = xp.where(alive, new_h, h), xp.where(alive, new_c, c)
        y[t] = xp.where(alive, new_h, xp.zeros_like(new_h))
    return h, c


KERNELS = [
    KernelDef(
        kind,
        partial(recurrent, kind),
        since=7,
        until=22,
        outputs=3 if kind == "LSTM" else 2,
        implementation="ort_py_array.recurrent:recurrent",
    )
    for kind in _STEPS
]
