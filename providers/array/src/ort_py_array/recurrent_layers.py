"""A recurrent layer over whole sequences: directions, layouts, lengths and initial states around the steps of a cell.

Comes after `recurrent_cells` and `recurrent_standard`; `recurrent` and `contrib` bring the products, which is where the
float and the quantised forms differ. It does not depend on weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py_array.recurrent_cells import Cell, gru, lstm, rnn
from ort_py_array.recurrent_standard import Standard, run_standard

__all__ = ["STEPS", "run_layer"]

STEPS: dict[str, Callable[..., tuple[Array, Array]]] = {"RNN": rnn, "GRU": gru, "LSTM": lstm}


def run_layer(
    ctx: KernelContext,
    kind: str,
    batch_first: bool,
    cells: Sequence[Cell] | Standard,
    project: Callable[[Array, int], Array],
    x: Array,
    lengths: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
) -> tuple[Array, ...]:
    """Run all directions over a whole sequence.

    Args:
        ctx: Context of the node.
        kind: ``RNN``, ``GRU`` or ``LSTM``.
        batch_first: Layout 1.
        cells: One cell a direction; or the layer in its standard form, where there are no `lengths`.
        project: ``(rows, input)`` and a direction → ``(rows, gates · hidden)``, biases added, in the form of `cells`.
        x: ``(time, batch, input)``, or batch first.
        lengths: int32 ``(batch,)`` steps of each entry, on the device, or None.
        initial_h, initial_c: ``(directions, batch, hidden)``, or batch first; zeros where None.

    Returns:
        Y, Y_h and, for LSTM, Y_c, in the layout asked for.
    """
    xp = ctx.xp
    if batch_first:
        x = xp.ascontiguousarray(xp.swapaxes(x, 0, 1))
        initial_h, initial_c = (None if s is None else xp.swapaxes(s, 0, 1) for s in (initial_h, initial_c))
    steps, batch = x.shape[:2]
    directions, hidden = (
        (len(cells.reverse), cells.hidden) if isinstance(cells, Standard) else (len(cells), cells[0].hidden)
    )
    for name, state in (("initial_h", initial_h), ("initial_c", initial_c)):
        if state is not None and tuple(state.shape) != (directions, batch, hidden):
            raise InvalidArgument(
                f"{name} has shape {list(state.shape)} (batch second) instead of {[directions, batch, hidden]}.",
                where=ctx.node.location,
                fix="Check the state that was fed, and the attributes direction, hidden_size and layout.",
            )
    if lengths is not None and tuple(lengths.shape) != (batch,):
        raise InvalidArgument(
            f"sequence_lens has shape {list(lengths.shape)} instead of {[batch]}.",
            where=ctx.node.location,
            fix="Give one length for each sequence of the batch.",
        )
    if lengths is not None and lengths.size:
        low, high = xp.min(lengths).item(), xp.max(lengths).item()  # on a device, a deliberate wait
        if low < 0 or high > steps:
            raise InvalidArgument(
                f"sequence_lens has the length {low if low < 0 else high}, but the input has {steps} steps.",
                where=ctx.node.location,
                fix=f"Every length must be in [0, {steps}].",
            )
    ctx.check_allocation((steps, directions, batch, hidden), x.dtype)
    every = steps_between_looks(ctx, batch * hidden)
    flat = x.reshape(steps * batch, x.shape[2])
    if initial_h is None:
        initial_h = xp.zeros((directions, batch, hidden), x.dtype)
    if initial_c is None and kind == "LSTM":
        initial_c = xp.zeros((directions, batch, hidden), x.dtype)
    if isinstance(cells, Standard):
        projected = [_in_steps(project(flat, d), steps, batch) for d in range(directions)]
        y, states = run_standard(xp, cells, projected, initial_h, initial_c, ctx.check_time, every)
    else:
        y = xp.zeros((steps, directions, batch, hidden), x.dtype)
        finals: tuple[list[Array], list[Array]] = ([], [])
        for d, cell in enumerate(cells):
            projection = _in_steps(project(flat, d), steps, batch)
            c = initial_h[d] if initial_c is None else initial_c[d]  # only an LSTM reads it
            for final, state in zip(
                finals,
                _run_direction(kind, cell, projection, lengths, initial_h[d], c, y[:, d], ctx.check_time, every),
                strict=True,
            ):
                final.append(state)
        states = [xp.stack(final) for final in finals[: 2 if kind == "LSTM" else 1]]
    if not batch_first:
        return y, *states
    return xp.ascontiguousarray(xp.transpose(y, (2, 0, 1, 3))), *(
        xp.ascontiguousarray(xp.swapaxes(state, 0, 1)) for state in states
    )


_ELEMENTS_BETWEEN_LOOKS = 1 << 14


def steps_between_looks(ctx: KernelContext, elements: int) -> int:
    """Number of time steps between two looks at the clock, for the elements of a state; all steps without a limit."""
    return max(1, _ELEMENTS_BETWEEN_LOOKS // max(1, elements)) if ctx.is_timed else 1 << 62


def _in_steps(projected: Array, steps: int, batch: int) -> Array:
    return projected.reshape(steps, batch, projected.shape[1])


def _run_direction(
    kind: str,
    cell: Cell,
    projected: Array,
    lengths: Array | None,
    h: Array,
    c: Array,
    y: Array,
    check_time: Callable[[], None],
    every: int,
) -> tuple[Array, Array]:
    """The recurrence. Entries whose sequence is over keep their state, and their outputs stay zero.

    Running backwards, an entry's own last step comes first in *its* sequence; the steps after it are skipped, which is
    the same as starting there.
    """
    xp = cell.xp
    steps = projected.shape[0]
    order = range(steps - 1, -1, -1) if cell.reverse else range(steps)
    step = STEPS[kind]
    if lengths is None:
        for t in order:
            if t % every == 0:
                check_time()
            h, c = step(cell, projected[t], h, c)
            y[t] = h
        return h, c
    for t in order:
        if t % every == 0:
            check_time()
        alive = (lengths > t)[:, None]
        new_h, new_c = step(cell, projected[t], h, c)
        h, c = xp.where(alive, new_h, h), xp.where(alive, new_c, c)
        y[t] = xp.where(alive, new_h, xp.zeros_like(new_h))
    return h, c
