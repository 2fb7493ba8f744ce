"""Recurrent layers: RNN, GRU, LSTM and the quantised LSTM."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Violation
from ort_py.constraints.sizes import Amount, equal, product

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def _layer(n: NodeScope, kind: str, *, turned: bool = False) -> Outputs:
    """X, W, R, B, sequence_lens, initial_h and, for LSTM, initial_c and P.

    Args:
        turned: Whether weights lie transposed, as those of DynamicQuantizeLSTM do.
    """
    x, w, r = n.require_rank(0, 3, 3), n.require_rank(1, 3, 3), n.require_rank(2, 3, 3)
    direction = n.text("direction", "forward")
    if direction not in _DIRECTIONS:
        raise Violation(f"direction is '{direction}'")
    directions, gates, first = _DIRECTIONS[direction], _GATES[kind], bool(n.integer("layout"))
    batch, steps = (x[0], x[1]) if first else (x[1], x[0])
    rows, columns = (2, 1) if turned else (1, 2)
    given = n.attributes.get("hidden_size")
    hidden: Amount = r[columns] if not given else int(given)
    if isinstance(hidden, int) and hidden < 1:
        raise Violation(f"hidden_size is {hidden}")
    for what, shape, inner in (("W", w, x[2]), ("R", r, hidden)):
        n.require(equal(shape[0], directions), what + " has {} directions instead of {}", shape[0], directions)
        n.require(
            equal(shape[rows], hidden * gates),
            what + " has {} rows of gates instead of {}",
            shape[rows],
            hidden * gates,
        )
        n.require(equal(shape[columns], inner), what + " is made for {} features, not for {}", shape[columns], inner)
    if n.has(3):
        n.require_same(3, (directions, hidden * (2 * gates)), "B")
    if n.has(4):
        n.require_same(4, (batch,), "sequence_lens")
        n.require_elements(n.tensor(4), 0, steps, "a length of a sequence")
    state: Dims = (batch, directions, hidden) if first else (directions, batch, hidden)
    for place in (5, 6) if kind == "LSTM" else (5,):
        if n.has(place):
            n.require_same(place, state, f"input {place}, an initial state,")
    if kind == "LSTM" and n.has(7):
        n.require_same(7, (directions, hidden * 3), "P")
    n.spend(product((steps, batch, *w)))
    n.spend(product((steps, batch, *r)))
    whole: Dims = (batch, steps, directions, hidden) if first else (steps, directions, batch, hidden)
    return [whole, state, state][: max(n.outputs, 1)]


TABLE: Mapping[tuple[str, str], Constraint] = {
    **{("", kind): partial(_layer, kind=kind) for kind in _GATES},
    ("com.microsoft", "DynamicQuantizeLSTM"): partial(_layer, kind="LSTM", turned=True),
}
