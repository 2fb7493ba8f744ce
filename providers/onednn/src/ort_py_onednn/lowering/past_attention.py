"""Attention to a past: one step whose plan serves any number of past keys.

What grows has the most elements that the plan allows for; the run says how many there are (`execution.growth`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.past_attention import PastAttention, has_past_attention
from ort_py_onednn.binding.past_table import Sizes
from ort_py_onednn.binding.primitive import Unimplemented
from ort_py_onednn.execution.plan import Place
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.parts import slab
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["grouped_attention", "past_attention"]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The operands of an attention to a past.

    Attributes:
        query, key, value: What is new, ``(batch, rows, heads · size)`` or split into heads already.
        past: Keys and values, or nothing.
        heads, groups: Heads of queries and of keys in a row.
        angles: Cosines and sines of positions, where queries and new keys are to be turned.
        neighbours: Whether a pair that is turned is two neighbours.
        counted: Whether a run says how many keys there are of each entry, and the past is a buffer.
    """

    query: Value
    key: Value
    value: Value
    past: Sequence[Value]
    heads: int
    groups: int
    angles: Sequence[Value] = ()
    neighbours: bool = False
    counted: bool = False


def past_attention(planner: Planner, operation: Operation) -> None:
    """MultiHeadAttention of com.microsoft or Attention of ONNX, with a past or a present.

    Raises:
        Unimplemented: There is no code for it here.
    """
    inputs = (*operation.inputs, *(None,) * 8)
    added, first = (3, 4) if operation.kind == "Attention" else (5, 6)
    attributes = operation.attributes
    heads, groups = (
        attributes.get("num_heads", 0) or attributes.get(name, 0) for name in ("q_num_heads", "kv_num_heads")
    )
    query, key, value = (planner.value(name) for name in inputs[:3])
    past = [planner.value(name) for name in inputs[first : first + 2] if name]
    parts = _Parts(query, key, value, past, heads, groups)
    scale = attributes.get("scale")
    if operation.kind != "Attention":
        scale = scale or None
    _attend(planner, operation, parts, scale, inputs[added], causal=bool(attributes.get("unidirectional", 0)))


def grouped_attention(planner: Planner, operation: Operation) -> None:
    """GroupQueryAttention of com.microsoft, whose past may be a buffer that is longer than what is filled.

    Raises:
        Unimplemented: There is no code for it here.
    """
    if not planner.counts:
        raise Unimplemented("attention to a past whose numbers of keys no run says")
    attributes, inputs = operation.attributes, (*operation.inputs, *(None,) * 9)
    heads, groups = attributes["num_heads"], attributes["kv_num_heads"]
    query = planner.value(inputs[0])
    if inputs[1]:
        key, value = (planner.value(name) for name in inputs[1:3])
    else:
        size = query.dims[2] // (heads + 2 * groups)
        key = slab(planner, query, 2, heads * size, groups * size)
        value = slab(planner, query, 2, (heads + groups) * size, groups * size)
        query = slab(planner, query, 2, 0, heads * size)
    angles: Sequence[Value] = ()
    if attributes.get("do_rotary", 0):
        angles = [planner.plain(planner.converted(planner.value(name), F32)) for name in inputs[7:9]]
    past = [planner.value(name) for name in inputs[3:5]]
    neighbours = bool(attributes.get("rotary_interleaved", 0))
    parts = _Parts(query, key, value, past, heads, groups, angles, neighbours, counted=True)
    scale, window = attributes.get("scale") or None, max(0, attributes.get("local_window_size", -1))
    _attend(planner, operation, parts, scale, causal=bool(attributes.get("causal", 1)), window=window)


def _attend(
    planner: Planner,
    operation: Operation,
    parts: _Parts,
    scale: float | None,
    bias: str | None = None,
    *,
    causal: bool,
    window: int = 0,
) -> None:
    """Bind the result, and what is made of past and new keys and values."""
    if planner.factor_type != F32 or not has_past_attention(planner.library):
        raise Unimplemented("attention to a past, but of float32 with AVX2,")
    outputs = (*operation.outputs, "", "")[:3]
    query, key, value = (_rows(planner, one) for one in (parts.query, parts.key, parts.value))
    batch, heads, rows, size = _dims(query, parts.heads)
    _, groups, added_rows, each = _dims(value, parts.groups)
    if added_rows != rows:  # the code takes new keys and values for those of the queries, and would read behind them
        raise Unimplemented(f"attention of {rows} queries to {added_rows} new keys and a past")
    most = parts.past[0].dims[2] if parts.past else 0
    given = {Argument.SRC: query, Argument.SRC_1: key, Argument.SRC_2: value}
    given |= dict(zip((Argument.WEIGHTS, Argument.WEIGHTS_1), parts.past, strict=False))
    steps = {"query": _steps(query, size), "key": _steps(key, size), "value": _steps(value, each), "bias": (0, 0, 0)}
    boolean = False
    if bias:
        given[Argument.BIAS], steps["bias"] = _bias(planner, bias, most + rows)
        boolean = given[Argument.BIAS].dtype == Element.U8
    pairs, positions = _angles(parts.angles, size)
    given |= dict(zip((Argument.SCALE, Argument.SHIFT), parts.angles, strict=False))
    packed = len(query.dims) == 3
    result = planner.new(Desc.plain((batch, rows, heads * each) if packed else (batch, heads, rows, each)))
    steps["result"] = _steps(result, each)
    given[Argument.DST] = result
    present = most if parts.counted else most + rows
    for code, columns in ((Argument.DST_1, size), (Argument.DST_2, each)):
        given[code] = planner.new(Desc.plain((batch, groups, present, columns)))
    sizes = Sizes(
        batch,
        heads,
        groups,
        rows,
        size,
        each,
        most,
        steps,
        1 / math.sqrt(size) if scale is None else scale,
        causal,
        boolean,
        pairs,
        parts.neighbours,
        positions,
        parts.counted,
        window,
    )
    arguments = {code: one.desc for code, one in given.items()}
    made = planner.make_heavy(
        lambda: PastAttention(planner.library, arguments, sizes, planner.count),
        float(batch * heads * rows * (most + rows) * size),
    )
    planner.emit(made, given)
    for name, code in zip(outputs[1:], (Argument.DST_1, Argument.DST_2), strict=True):
        if name:
            planner.bind(name, given[code])
    planner.bind(outputs[0], planner.apply(result, operation.posts))


def _angles(angles: Sequence[Value], size: int) -> tuple[int, int]:
    """Pairs of numbers that are turned in a head, and positions that there are angles for; zeroes for nothing."""
    if not angles:
        return 0, 0
    positions, pairs = angles[0].dims
    if angles[1].dims != angles[0].dims or 2 * pairs > size:
        raise Unimplemented(f"tables of {angles[0].dims} cosines and {angles[1].dims} sines for heads of {size}")
    return pairs, positions


def _rows(planner: Planner, value: Value) -> Value:
    """New queries, keys or values as they lie, if the numbers of a head lie side by side; else a copy."""
    value = planner.converted(value, F32)
    desc = value.desc
    strides = desc.key is not None and not desc.blocks[0] and desc.strides[-1] == 1 and value.weight is None
    inside = not desc.has_offset or (value.buffer is not None and value.buffer.place is Place.ARENA)
    return value if strides and inside else planner.plain(value)


def _dims(value: Value, heads: int) -> tuple[int, int, int, int]:
    """Entries, heads, rows and columns of a head, of rows of several heads or of heads that are split already."""
    if len(value.dims) == 4:
        batch, heads, rows, size = value.dims
        return batch, heads, rows, size
    batch, rows, wide = value.dims
    return batch, heads, rows, wide // heads


def _steps(value: Value, size: int) -> tuple[int, int, int]:
    """Numbers from an entry of the batch, a head of so many columns, and a row to the next."""
    strides = value.desc.strides
    return (strides[0], strides[1], strides[2]) if len(strides) == 4 else (strides[0], size, strides[1])


def _bias(planner: Planner, name: str, keys: int) -> tuple[Value, tuple[int, int, int]]:
    """What is added to scores, and how often its last axis lies between an entry, a head and a row and the next."""
    bias = planner.plain(planner.ranked(planner.value(name), 4))
    dims: Sequence[int] = bias.dims
    if dims[3] != keys:
        raise Unimplemented(f"a bias of {dims[3]} columns for {keys} keys")
    steps = dims[1] * dims[2], dims[2], 1
    batch, head, row = (step if dim > 1 else 0 for dim, step in zip(dims, steps, strict=False))
    return bias, (batch, head, row)
