"""Attention to a past: one step whose plan serves any number of past keys.

What grows has the most elements that the plan allows for; the run says how many there are (`execution.growth`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py_onednn.binding.constants import F32, Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.past_attention import PastAttention, has_past_attention
from ort_py_onednn.binding.past_table import Sizes
from ort_py_onednn.binding.primitive import Unimplemented
from ort_py_onednn.execution.plan import Place
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["past_attention"]


def past_attention(planner: Planner, operation: Operation) -> None:
    """com.microsoft MultiHeadAttention of queries, keys and values of three dimensions, with a past or a present.

    Raises:
        Unimplemented: There is no code for it here.
    """
    if planner.factor_type != F32 or not has_past_attention(planner.library):
        raise Unimplemented("attention to a past, but of float32 with AVX2,")
    names = (*operation.inputs, *(None,) * 8)[:8]
    outputs = (*operation.outputs, "", "")[:3]
    heads = operation.attributes["num_heads"]
    query, key, value = (_rows(planner, planner.value(name)) for name in names[:3])
    past = [planner.value(name) for name in names[6:8] if name]
    batch, rows, wide = query.dims
    size, each = wide // heads, value.dims[2] // heads
    most = past[0].dims[2] if past else 0
    given = {Argument.SRC: query, Argument.SRC_1: key, Argument.SRC_2: value}
    given |= dict(zip((Argument.WEIGHTS, Argument.WEIGHTS_1), past, strict=False))
    steps = {"query": _steps(query, size), "key": _steps(key, size), "value": _steps(value, each)}
    steps["bias"] = (0, 0, 0)
    if names[5]:
        given[Argument.BIAS], steps["bias"] = _bias(planner, names[5], most + rows)
    result = planner.new(Desc.plain((batch, rows, heads * each)))
    steps["result"] = _steps(result, each)
    given[Argument.DST] = result
    for code, columns in ((Argument.DST_1, size), (Argument.DST_2, each)):
        given[code] = planner.new(Desc.plain((batch, heads, most + rows, columns)))
    scale = operation.attributes.get("scale", 0.0) or 1 / math.sqrt(size)
    causal = bool(operation.attributes.get("unidirectional", 0))
    sizes = Sizes(batch, heads, heads, rows, size, each, most, steps, scale, causal)
    arguments = {code: one.desc for code, one in given.items()}
    made = planner.make_heavy(
        lambda: PastAttention(planner.library, arguments, sizes, planner.count),
        float(batch * rows * (most + rows) * wide),
    )
    planner.emit(made, given)
    for name, code in zip(outputs[1:], (Argument.DST_1, Argument.DST_2), strict=True):
        if name:
            planner.bind(name, given[code])
    planner.bind(outputs[0], planner.apply(result, operation.posts))


def _rows(planner: Planner, value: Value) -> Value:
    """New queries, keys or values as they lie, if each row's numbers lie side by side; else a copy."""
    desc = value.desc
    strides = desc.key is not None and not desc.blocks[0] and desc.strides[2] == 1 and value.weight is None
    inside = not desc.has_offset or (value.buffer is not None and value.buffer.place is Place.ARENA)
    return value if strides and inside else planner.plain(value)


def _steps(value: Value, size: int) -> tuple[int, int, int]:
    """Numbers from an entry of the batch, a head of so many columns, and a row to the next."""
    batch, row, _ = value.desc.strides
    return batch, size, row


def _bias(planner: Planner, name: str, keys: int) -> tuple[Value, tuple[int, int, int]]:
    """What is added to scores, and how often its last axis lies between an entry, a head and a row and the next."""
    bias = planner.plain(planner.ranked(planner.value(name), 4))
    dims: Sequence[int] = bias.dims
    if dims[3] != keys:
        raise Unimplemented(f"a bias of {dims[3]} columns for {keys} keys")
    steps = dims[1] * dims[2], dims[2], 1
    batch, head, row = (step if dim > 1 else 0 for dim, step in zip(dims, steps, strict=False))
    return bias, (batch, head, row)
