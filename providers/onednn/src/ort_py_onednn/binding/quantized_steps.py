"""All steps of an LSTM whose state is made bytes in each of them, in machine code for AVX2 with VNNI: one call a layer.

As calls, a step costs as much for what stands between them as for its products: sums are written and read again by each
function, and threads wait for each other at the end of each product. Here a thread takes a direction and does all of
its steps, so that two directions run at once. Weights are read in the layout that oneDNN chooses for the product.

Comes after `own_code`; `quantized_step_code` has the code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call, CallList
from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc, Key
from ort_py_onednn.binding.hazards import Hazards
from ort_py_onednn.binding.instructions import AVX2, AVX512_VNNI, AVX_VNNI
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.openmp import allowed
from ort_py_onednn.binding.own_code import OwnCode, placed, putting
from ort_py_onednn.binding.quantized_step_code import COLUMNS, MULTIPLE, TOGETHER, Word, steps_code

__all__ = ["QuantizedSteps", "has_quantized_steps"]

_GATES = 4
_DEPTH = 64
"""Numbers of each column in a block of weights."""

_PUTS: Sequence[tuple[int, tuple[int, ...]]] = (
    (Word.WEIGHTS, (Argument.WEIGHTS_1, Argument.MULTIPLE_SRC, Argument.MULTIPLE_SRC + 1)),
    (Word.STATE, (Argument.SRC_1, Argument.SRC_2, Argument.DST)),
    (Word.LAST_STATE, (Argument.DST_1, Argument.DST_2, Argument.SCRATCHPAD)),
    (Word.SCALES, (Argument.scales(Argument.WEIGHTS_1), Argument.BIAS)),
)
"""What the calls in front write, from a word on, by argument code. One behind them begins the count."""

_NEXT_CALL = CallList.place(1, 0) - CallList.place(0, 0)
"""What numbers of arguments grow by from call to call, where they are counted on."""


@functools.cache
def _address(library: Library) -> int:
    """Address of the code; 0 where there is none."""
    if not library.isa & AVX2 or not library.isa & (AVX512_VNNI | AVX_VNNI) or not putting(library):
        return 0
    return placed(library, steps_code(not library.isa & AVX512_VNNI))


def has_quantized_steps(library: Library, weights: Desc) -> bool:
    """Return whether there is code here that reads weights (directions, hidden, 4 · hidden) as they lie."""
    hidden = weights.dims[1]
    return hidden % MULTIPLE == 0 and weights.key == _key(*weights.dims) and _address(library) != 0


def _key(directions: int, hidden: int, columns: int) -> Key:
    """That of a layout of blocks: columns outside, and four numbers of each innermost."""
    padded = -(-hidden // _DEPTH) * _DEPTH
    whole, block = (directions, padded, columns), _DEPTH * COLUMNS
    steps = tuple(
        0 if size == 1 else step for size, step in zip(whole, (padded * columns, block, padded * COLUMNS), strict=True)
    )
    blocks = (_DEPTH // TOGETHER, COLUMNS, TOGETHER), (1, 2, 1)
    return (directions, hidden, columns), steps, whole, blocks, 0, math.prod(whole), Element.S8


class QuantizedSteps(OwnCode):
    """The steps of a layer, one row each.

    Its arguments are what the sequence gives to the gates for each direction (``MULTIPLE_SRC`` and the code behind it),
    states and cells before (``SRC_1``, ``SRC_2``), weights (``WEIGHTS_1``), for each column their scale, with a half in
    that of logistic functions, and their negative sum (``BIAS``), all states (``DST``), the last state and cell
    (``DST_1``, ``DST_2``), and memory for gates and bytes.

    Args:
        library: The library, which has the code.
        weights: Layout of the weights.
        reverse: Whether each direction begins at the end.
        steps: Number of steps.
    """

    __slots__ = ("_reverse", "_steps", "bound")

    hazards = Hazards(clamps=True, idle=False, overflows=False, leftovers=False, silent=False)

    def __init__(self, library: Library, weights: Desc, reverse: Sequence[bool], steps: int) -> None:
        directions, hidden, columns = weights.dims
        state, gates = Desc.plain((directions, hidden)), Desc.plain((directions, columns))
        arguments = {
            **{Argument.MULTIPLE_SRC + place: Desc.plain((steps, columns)) for place in range(directions)},
            **dict.fromkeys((Argument.SRC_1, Argument.SRC_2, Argument.DST_1, Argument.DST_2), state),
            **dict.fromkeys((Argument.scales(Argument.WEIGHTS_1), Argument.BIAS), gates),
            Argument.WEIGHTS_1: weights,
            Argument.DST: Desc.plain((steps, directions, hidden)),
            Argument.SCRATCHPAD: Desc.plain((directions, _scratch(hidden)), Element.U8),
        }
        super().__init__(library, arguments, _address(library), "own:steps:vnni", directions)
        self._reverse, self._steps = tuple(reverse), steps
        self.bound = tuple(
            (_NEXT_CALL * call + place, code)
            for call, (_, codes) in enumerate(_PUTS)
            for place, code in enumerate(codes, 1)
            if code in arguments
        )

    @property
    def reach(self) -> tuple[tuple[int, int, int, bool], ...]:
        """See `OwnCode`."""
        return tuple((code, *desc.reach, code in Argument.WRITTEN) for code, desc in self.arguments.items())

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        directions, hidden, columns = self.arguments[Argument.WEIGHTS_1].dims
        padded = -(-hidden // _DEPTH) * _DEPTH
        work = ffi.new("intptr_t[]", Word.END)
        work[Word.COUNT], work[Word.ONE], work[Word.STEPS] = directions, 1, self._steps
        work[Word.LENGTH], work[Word.GROUPS], work[Word.BLOCKS] = hidden, hidden // TOGETHER, columns // COLUMNS
        work[Word.GAP] = (padded - hidden) * COLUMNS
        work[Word.STATE_BYTES], work[Word.GATE_BYTES] = F32.nbytes * hidden, F32.nbytes * columns
        work[Word.WEIGHT_BYTES], work[Word.SCRATCH_BYTES] = padded * columns, _scratch(hidden)
        for place, reverse in enumerate(self._reverse):
            last = self._steps - 1 if reverse else 0
            by, every = F32.nbytes * columns, F32.nbytes * hidden * directions
            work[Word.FROM + place], work[Word.EVERY_FROM + place] = (
                by * last,
                every * last + F32.nbytes * hidden * place,
            )
            work[Word.BY + place], work[Word.EVERY_BY + place] = (-by, -every) if reverse else (by, every)
        for first, codes in _PUTS:
            for place, code in enumerate(codes, first):
                work[place] = addresses.get(code, 0)
        return work

    def calls(self, addresses: Mapping[int, int], threads: int) -> Sequence[Call]:
        """See `OwnCode`."""
        put, work = putting(self._library), self.work(addresses)
        made: list[Call] = []
        for first, codes in _PUTS:
            values = (*(addresses.get(code, 0) for code in codes), 0)[:3]
            made.append((put, (work + first, *values), False))
        made.append((put, (work + Word.COUNT, self._count, 0, addresses[Argument.WEIGHTS_1]), False))
        threads = allowed(threads) if self._library.threaded else 1
        if threads > 1:
            return *made, (self._library.c.GOMP_parallel, (self._code, work, threads, 0), False)
        return *made, (self._code, (work,), False)

    def run(self, arrays: Mapping[int, Any]) -> None:
        """See `OwnCode`."""
        work = self.work({code: array.ctypes.data for code, array in arrays.items()})
        ffi.cast("void (*)(void *)", self._code)(work)


def _scratch(hidden: int) -> int:
    """Bytes of gates and bytes of a direction; two directions share no line of the cache."""
    return -(-(F32.nbytes * _GATES * hidden + hidden) // 64) * 64
