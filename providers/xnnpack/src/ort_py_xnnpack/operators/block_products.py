"""Products with weights of 4 and 8 bits that have a scale a block: MatMulNBits at the level that allows 8-bit rows.

XNNPACK rounds each row of the first factor to integers of 8 bits, with a scale and a zero point of its own, and
multiplies them with 4-bit integers whose zero point is 8 and whose scales are bfloat16 numbers above zero. Other
weights are brought into that form. Where a scale is negative, the numbers of its block are counted from the other end.
Numbers of 8 bits are two of 4 bits, the scales of the upper ones being 16 times as large. What then remains of zero
points is a product of the sums of blocks, which is computed in float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.lazy_dataclass import dataclass
from ort_py_xnnpack.binding.constants import ADD, INFINITY, NO_VALUE, Reduction
from ort_py_xnnpack.operators.operator import Constants, Operator, attribute, constant, rank

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = ["OPERATORS"]

Array = np.ndarray[Any, Any]

_LEVEL = 4
"""Accuracy level from which rows may be rounded to 8 bits."""
_SHORTEST = 32
_MIDDLE = 8
"""The number of 4 bits that stands for 0."""
_SMALLEST, _LARGEST = 2.0**-126, 2.0**120
"""Scales between which a bfloat16 number, and 16 times as much, is neither subnormal nor infinite."""
_MOST_AXES = 5


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Weights in XNNPACK's form, of which products are added.

    Attributes:
        parts: Numbers of 4 bits, two in a byte, the first in its lower half (columns, K / 2), and their scales, upper
            halves of float32 numbers (columns, blocks).
        rest: What the sum of a block is multiplied with, (columns, blocks); None where all are 0.
    """

    parts: tuple[tuple[Array, Array], ...]
    rest: Array | None


def _check(node: NodeSpec, graph: Constants) -> str | None:
    level = int(attribute(node, "accuracy_level", 0))
    if level < _LEVEL:
        return f"its accuracy_level is {level}; XNNPACK rounds rows to 8 bits, which is allowed from {_LEVEL} on"
    bits, size = int(attribute(node, "bits", 4)), int(node.attributes["block_size"])
    if bits not in {4, 8}:
        return f"its weights have {bits} bits; 4 and 8 are supported"
    if size % _SHORTEST or int(node.attributes["K"]) % size:
        return f"its blocks have {size} numbers; XNNPACK takes multiples of {_SHORTEST} of which K is a multiple"
    if not 2 <= rank(node) <= _MOST_AXES:
        return f"its first factor has {rank(node)} axes; 2 to {_MOST_AXES} are supported"
    if len(node.inputs) > 4 and node.inputs[4] is not None:
        return "its rows are reordered"
    if attribute(node, "weight_prepacked", 0):
        return "its weights are packed for another runtime"
    scales = constant(node, graph, 2)
    if scales is None or scales.dtype != np.float32:
        return "its scales are not float32"
    if not float(np.abs(scales).max(initial=0)) < _LARGEST:  # NaN is not either
        return "one of its scales is too large, or not a number"
    zeros = constant(node, graph, 3)
    return None if zeros is None or zeros.dtype in (np.uint8, np.float32) else f"its zero points are {zeros.dtype}"


def _halves(packed: Array) -> Array:
    """Numbers of 4 bits, two in each byte."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)


def _arranged(held: Array, scales: Array, zeros: Array | None, columns: int, bits: int) -> _Blocks:
    """Weights of a node in XNNPACK's form."""
    packed, scale = held.reshape(columns, -1), scales.reshape(columns, -1)
    count = scale.shape[1]
    middle = np.full(scale.shape, 1 << (bits - 1), np.float32)
    if zeros is not None and zeros.dtype == np.uint8:
        numbers = zeros.reshape(columns, -1)
        middle = (numbers if bits == 8 else _halves(numbers)[:, :count]).astype(np.float32)
    elif zeros is not None:
        middle = zeros.reshape(scale.shape)
    # What XNNPACK takes for 0: 8, and in 8 bits 16 * 8 + 8.
    taken = _MIDDLE if bits == 4 else _MIDDLE * 17
    rest = scale * (taken - middle)
    reverse, none = scale < 0, np.abs(scale) < _SMALLEST
    if reverse.any() or none.any():
        blocks = packed.reshape(columns, count, -1)
        blocks = np.where(reverse[:, :, None], ~blocks, blocks)
        packed = np.where(none[:, :, None], np.uint8(_MIDDLE * 17), blocks).reshape(columns, -1)
        # The largest number less what is taken for 0 is less than that by this much.
        less = np.float32(2 * taken - ((1 << bits) - 1))
        rest = np.where(none, 0, np.where(reverse, rest - scale * less, rest)).astype(np.float32)
        scale = np.where(none, np.float32(1), np.abs(scale))
    bits_of = np.ascontiguousarray(scale).view(np.uint32)
    rounded = ((bits_of + 0x7FFF + (bits_of >> 16 & 1)) >> 16).astype(np.uint16)
    found = rest if rest.any() else None
    if bits == 4:
        return _Blocks(((packed, rounded),), found)
    lower, upper = packed & 15, packed >> 4
    pairs = [part[:, 0::2] | part[:, 1::2] << 4 for part in (upper, lower)]
    return _Blocks(((pairs[0], rounded + np.uint16(4 << 7)), (pairs[1], rounded)), found)


def _lower(builder: Builder, node: NodeSpec) -> None:
    x, held, scales, zeros, _, bias = (*node.inputs, None, None, None)[:6]
    depth, columns, size = (int(node.attributes[name]) for name in ("K", "N", "block_size"))
    shape = builder.shape(x)[:-1]
    known = (held, scales, zeros)
    constants = [None if value is None else builder.constant(value) for value in known]
    assert constants[0] is not None
    assert constants[1] is not None
    made = _arranged(constants[0], constants[1], constants[2], columns, int(attribute(node, "bits", 4)))
    source = builder.read(x)
    builder.watch(source)
    rows = builder.in_8_bits(source)
    factors = [
        (rows, builder.blocks(known, f"part {place}", *part, (columns, depth), size))
        for place, part in enumerate(made.parts)
    ]
    if made.rest is not None:
        rest, count = made.rest, depth // size
        apart, sums = builder.between((*shape, count, size)), builder.between((*shape, count))
        builder.define("split_dim", len(shape), 2, [count, size], source, apart, 0)
        builder.define("static_reduce_v2", int(Reduction.SUM), 1, [len(shape) + 1], apart, sums, 0)
        factors.append((sums, builder.weight(held, f"rest of {size}", lambda _: rest, also=(scales, zeros))))
    added = NO_VALUE if bias is None else builder.weight(bias, "bias", lambda array: array.reshape(-1))
    total = None
    for place, (left, right) in enumerate(factors):
        is_last = place == len(factors) - 1

        def target(last: bool = is_last) -> int:
            whole = (*shape, columns)
            return builder.write(node.outputs[0], whole) if last else builder.between(whole)

        product = target() if total is None else builder.between((*shape, columns))
        builder.define("fully_connected", -INFINITY, INFINITY, left, right, added, product, 0)
        added = NO_VALUE
        if total is None:
            total = product
            continue
        more = target()
        builder.binary(ADD, total, product, more)
        total = more


OPERATORS = {
    "MatMulNBits": Operator(_lower, _check, looked_at=frozenset({1, 2, 3, 4, 5}), heavy=True),
}
