"""A recurrent layer over whole sequences: directions, layouts, lengths and initial states around the steps of a cell.

Comes after `recurrent_cells` and `recurrent_standard`; `recurrent` and `contrib` bring the products, which is where the
float and the quantised forms differ. Knows nothing of weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py_array.recurrent_cells import Cell, gru, lstm, rnn
from ort_py_array.recurrent_standard import STANDARD

__all__ = ["STEPS", "run_layer"]

STEPS: dict[str, Callable[..., tuple[Array, Array]]] = {"RNN": rnn, "GRU": gru, "LSTM": lstm}


def run_layer(
    ctx: KernelContext,
    kind: str,
    batch_first: bool,
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
        kind: ``RNN``, ``GRU`` or ``LSTM``.
        batch_first: Layout 1.
        cells: One cell a direction.
        project: ``(rows, input)`` and a direction → ``(rows, gates · hidden)``, biases added.
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
    directions, hidden = len(cells), cells[0].hidden
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
    ctx.check_allocation((steps, directions, batch, hidden), x.dtype)
    y = xp.zeros((steps, directions, batch, hidden), x.dtype)
    finals: tuple[list[Array], list[Array]] = ([], [])
    flat = x.reshape(steps * batch, -1)
    for d, cell in enumerate(cells):
        projected = project(flat, d).reshape(steps, batch, -1)
        h = xp.zeros((batch, hidden), x.dtype) if initial_h is None else initial_h[d]
        c = xp.zeros((batch, hidden), x.dtype) if initial_c is None else initial_c[d]
        h, c = _run_direction(kind, cell, projected, lengths, h, c, y[:, d])
        finals[0].append(h)
        finals[1].append(c)
    states = [xp.stack(final) for final in finals[: 2 if kind == "LSTM" else 1]]
    if not batch_first:
        return y, *states
    return xp.ascontiguousarray(xp.transpose(y, (2, 0, 1, 3))), *(
        xp.ascontiguousarray(xp.swapaxes(state, 0, 1)) for state in states
    )


def _run_direction(
    kind: str, cell: Cell, projected: Array, lengths: Array | None, h: Array, c: Array, y: Array
) -> tuple[Array, Array]:
    """The recurrence. Entries whose sequence is over keep their state, and their outputs stay zero.

    Running backwards, an entry's own last step comes first in *its* sequence; the steps after it are skipped, which is
    the same as starting there.
    """
    xp = cell.xp
    steps = projected.shape[0]
    order = range(steps - 1, -1, -1) if cell.reverse else range(steps)
    if lengths is None and cell.standard and kind in STANDARD:
        return STANDARD[kind](cell, projected, order, h, c, y)
    step = STEPS[kind]
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
