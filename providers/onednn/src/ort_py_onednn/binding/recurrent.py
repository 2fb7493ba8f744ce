"""Recurrent layers: a whole sequence in one primitive.

A `Cell` says which kind; layers are (time, batch, channels), states (1, directions, batch, channels), weights (1,
directions, inputs, gates, channels). The layouts of weights are oneDNN's to choose. Gates come in oneDNN's order:
i, f, c, o for an LSTM; update, reset, candidate for a GRU.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import FORWARD_INFERENCE, Argument, Query
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.binding.remembered import remembered
from ort_py_onednn.binding.status import Unimplemented

__all__ = ["Cell", "Direction", "RecurrentArgument", "recurrent"]


class Direction(IntEnum):
    """The direction in which the sequence is processed."""

    FORWARD = 1
    REVERSE = 2
    BOTH = 3
    """Two layers; their results are joined along the channels."""


class RecurrentArgument:
    """Codes of what recurrent primitives are given beyond the first source, weights, bias and result."""

    SRC_STATE = 2
    SRC_CELL = 3
    DST_STATE = 18
    DST_CELL = 19
    WEIGHTS_STATE = 34
    WEIGHTS_PEEPHOLE = 35


@dataclass(frozen=True, slots=True)
class Cell:
    """A kind of recurrent layer.

    Attributes:
        name: ``"lstm"``, ``"gru"``, ``"lbr_gru"`` (linear before reset) or ``"vanilla_rnn"``.
        activation: One of `Eltwise`: the function of a ``"vanilla_rnn"``.
        alpha: Its parameter.
    """

    name: str
    activation: int = 0
    alpha: float = 0.0


_EVERY = (
    *(Argument.SRC, RecurrentArgument.SRC_STATE, RecurrentArgument.SRC_CELL),
    *(Argument.WEIGHTS, RecurrentArgument.WEIGHTS_STATE, RecurrentArgument.WEIGHTS_PEEPHOLE, Argument.BIAS),
    *(Argument.DST, RecurrentArgument.DST_STATE, RecurrentArgument.DST_CELL),
)


@remembered
def recurrent(cell: Cell, direction: Direction, layouts: Sequence[tuple[int, Desc]]) -> Primitive:
    """A layer.

    Args:
        cell: Its kind.
        direction: How it walks the sequence.
        layouts: (code, layout) of each argument; what is left out is absent, a state then begins with zeroes.

    Raises:
        Unimplemented: An argument is empty: oneDNN 3.2 divides by its sizes, which ends the process.
    """
    e = engine()
    descs = dict(layouts)
    if any(0 in desc.dims for desc in descs.values()):
        raise Unimplemented("a recurrent layer of nothing")
    given = {code: descs[code].handle if code in descs else ffi.NULL for code in _EVERY}
    layer = (given[Argument.SRC], given[RecurrentArgument.SRC_STATE])
    weights = (given[Argument.WEIGHTS], given[RecurrentArgument.WEIGHTS_STATE])
    result = (given[Argument.BIAS], given[Argument.DST], given[RecurrentArgument.DST_STATE])
    arguments: tuple[Any, ...]
    if cell.name == "lstm":
        peephole = given[RecurrentArgument.WEIGHTS_PEEPHOLE]
        cells = given[RecurrentArgument.SRC_CELL], given[RecurrentArgument.DST_CELL]
        arguments = (direction, *layer, cells[0], *weights, peephole, ffi.NULL, *result, cells[1], 0)
    elif cell.name == "vanilla_rnn":
        arguments = (cell.activation, direction, *layer, *weights, *result, 0, cell.alpha, 0.0)
    else:
        arguments = (direction, *layer, *weights, *result, 0)
    call = getattr(e.c, f"dnnl_{cell.name}_forward_primitive_desc_create")

    def create(pd: Any, attr: Any) -> int:
        return int(call(pd, e.handle, FORWARD_INFERENCE, *arguments, attr))

    return Primitive(cell.name, create, {code: (Query.EXEC_ARG_MD, code) for code in descs}, ())
