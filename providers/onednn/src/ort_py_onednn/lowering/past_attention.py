"""Attention to a past: one step whose plan serves any number of past keys.

What grows has the most elements that the plan allows for; the run says how many there are (`execution.growth`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.past_attention import PastAttention, has_past_attention
from ort_py_onednn.binding.past_table import Sizes
from ort_py_onednn.binding.primitive import Unimplemented
from ort_py_onednn.execution.plan import Place
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["past_attention"]


def past_attention(planner: Planner, operation: Operation) -> None:
    """MultiHeadAttention of com.microsoft or Attention of ONNX, with a past or a present.

    Raises:
        Unimplemented: There is no code for it here.
    """
    if planner.factor_type != F32 or not has_past_attention(planner.library):
        raise Unimplemented("attention to a past, but of float32 with AVX2,")
    inputs = (*operation.inputs, *(None,) * 8)
    added, first = (3, 4) if operation.kind == "Attention" else (5, 6)
    attributes, outputs = operation.attributes, (*operation.outputs, "", "")[:3]
    counts = [attributes.get("num_heads", 0) or attributes.get(name, 0) for name in ("q_num_heads", "kv_num_heads")]
    query, key, value = (_rows(planner, planner.value(name)) for name in inputs[:3])
    past = [planner.value(name) for name in inputs[first : first + 2] if name]
    batch, heads, rows, size = _dims(query, counts[0])
    _, groups, added_rows, each = _dims(value, counts[1])
    if added_rows != rows:  # the code takes new keys and values for those of the queries, and would read behind them
        raise Unimplemented(f"attention of {rows} queries to {added_rows} new keys and a past")
    most = past[0].dims[2] if past else 0
    given = {Argument.SRC: query, Argument.SRC_1: key, Argument.SRC_2: value}
    given |= dict(zip((Argument.WEIGHTS, Argument.WEIGHTS_1), past, strict=False))
    steps = {"query": _steps(query, size), "key": _steps(key, size), "value": _steps(value, each), "bias": (0, 0, 0)}
    boolean = False
    bias = inputs[added]
    if bias:
        given[Argument.BIAS], steps["bias"] = _bias(planner, bias, most + rows)
        boolean = given[Argument.BIAS].dtype == Element.U8
    packed = len(query.dims) == 3
    result = planner.new(Desc.plain((batch, rows, heads * each) if packed else (batch, heads, rows, each)))
    steps["result"] = _steps(result, each)
    given[Argument.DST] = result
    for code, columns in ((Argument.DST_1, size), (Argument.DST_2, each)):
        given[code] = planner.new(Desc.plain((batch, groups, most + rows, columns)))
    scale = attributes.get("scale")
    if scale is None or (operation.kind != "Attention" and not scale):
        scale = 1 / math.sqrt(size)
    causal = bool(attributes.get("unidirectional", 0))
    sizes = Sizes(batch, heads, groups, rows, size, each, most, steps, scale, causal, boolean)
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
