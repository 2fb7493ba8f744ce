"""RotaryEmbedding: heads whose elements are turned in pairs, an element of the first half with one of the second.

    y = x · [cos, cos] + [second half of x, first half of x] · [-sin, sin]

so that every product is of whole rows, for which oneDNN has code. The tables on the right are made once a plan. Code of
our own does it in one call of float32, with cosines and sines as they are.
"""

from __future__ import annotations

import numpy as np

from ort_py_onednn.binding.constants import F32, Argument, Binary
from ort_py_onednn.binding.row_rotation import RowRotation, has_row_rotation
from ort_py_onednn.graph.operation import Combine, Operation
from ort_py_onednn.lowering.parts import joined, slab, spread
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["rotary_embedding"]


def rotary_embedding(planner: Planner, operation: Operation) -> None:
    """ONNX RotaryEmbedding of halves: X (N, heads, rows, size) or (N, rows, heads · size); cosines and sines a row of
    X, or a table and the position of the first row."""
    source = planner.value(operation.inputs[0])
    half = planner.value(operation.inputs[1]).dims[-1]
    shape = source.shape
    heads = planner.plain(source)
    if len(shape) == 3:
        heads = planner.reshaped(heads, (*shape[:2], shape[2] // (2 * half), 2 * half))
    own = _own(planner, operation, heads, half, packed=len(shape) == 3)
    if own is not None:
        planner.bind(operation.outputs[0], planner.reshaped(own, shape))
        return
    cosines = _table(planner, operation, 1, heads.dims, packed=len(shape) == 3)
    sines = _table(planner, operation, 2, heads.dims, packed=len(shape) == 3)
    across = joined(planner, [slab(planner, heads, 3, half, half), slab(planner, heads, 3, 0, half)], 3)
    name = f"{operation.outputs[0]}:across"
    planner.bind(name, planner.combine(Binary.MUL, across, sines))
    found = planner.combine(Binary.MUL, heads, cosines, [Combine(Binary.ADD, name)])
    planner.bind(operation.outputs[0], planner.reshaped(found, shape))


def _own(planner: Planner, operation: Operation, heads: Value, half: int, *, packed: bool) -> Value | None:
    """The heads in one call; None where there is no code for it, or the tables have other shapes than they read."""
    if heads.dtype != F32 or planner.result_type(heads) != F32 or not has_row_rotation(planner.library):
        return None
    batch, rows = heads.dims[0], heads.dims[1 if packed else 2]
    positions = operation.inputs[3] if len(operation.inputs) > 3 else None
    cosines, sines = (planner.plain(planner.converted(planner.value(name), F32)) for name in operation.inputs[1:3])
    first = planner.integers(positions)[0] if positions else 0
    outer, there, columns = cosines.dims if not positions else (1, *cosines.dims)
    within = 0 <= first <= there - rows if positions else there == rows
    if cosines.dims != sines.dims or columns != half or not within or outer not in {1, batch} or 0 in heads.dims:
        return None
    steps = (rows * half if outer > 1 else 0, half if packed else 0, 0 if packed else half)
    found = planner.new(heads.desc)
    given = {Argument.SRC: heads, Argument.SCALE: cosines, Argument.SHIFT: sines, Argument.DST: found}
    arguments = {code: value.desc for code, value in given.items()}
    made = planner.make(lambda: RowRotation(planner.library, arguments, steps, first * half), heads.desc)
    planner.emit(made, given, in_place=Argument.SRC)
    return found


def _table(planner: Planner, operation: Operation, place: int, dims: tuple[int, ...], *, packed: bool) -> Value:
    """Cosines, or sines with the sign of each half, that broadcast to heads; the layers of a model share them."""
    given = operation.inputs[place]
    assert given
    positions = operation.inputs[3] if len(operation.inputs) > 3 else None
    first = planner.integers(positions)[0] if positions else 0
    rows = dims[1] if packed else dims[2]
    name = f"{given}:rows {first} {rows} {dims[2] if packed else ''} of {'cosines' if place == 1 else 'sines'}"
    if planner.has(name):
        return planner.value(name)
    source = planner.value(given)
    if positions:
        source = planner.reshaped(slab(planner, source, 0, first, rows), (1, rows, source.dims[-1]))
    whole = joined(planner, [source, source], 2)
    if place == 2:
        half = source.dims[-1]
        signs = planner.fixed(np.repeat(np.array([-1.0, 1.0], np.float32), half).reshape(1, 1, 2 * half))
        whole = planner.combine(Binary.MUL, whole, signs)
    batch, _, size = whole.dims
    if packed:
        found = spread(planner, planner.reshaped(whole, (batch, rows, 1, size)), (batch, rows, dims[2], size))
    else:
        found = planner.reshaped(whole, (batch, 1, rows, size))
    planner.alias(name, found, given)
    return found
