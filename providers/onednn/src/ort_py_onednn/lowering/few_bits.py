"""MatMulNBits with panels of few bits in machine code: of one row, and of several where oneDNN has nothing better.

That is the case where rows may be rounded, and where the CPU has no exact products of bytes. `block_quantized` has the
other products of several rows, and those of one row where there is no such code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from ort_py_onednn.binding.constants import F32, Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.features import has_exact_integers
from ort_py_onednn.binding.few_bits import FewBitsProduct, has_few_bits, panels_of
from ort_py_onednn.binding.few_bits_rows import FewBitsRows, RoundedRows
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.primitive import PostOp
from ort_py_onednn.execution.few_bits_panels import panels, weights_of
from ort_py_onednn.execution.plan import Buffer, Place
from ort_py_onednn.graph.operation import Operation, Post
from ort_py_onednn.lowering.planner import Planner, Value
from ort_py_onednn.lowering.products import bias_of, flattened

__all__ = ["few_bits_product"]

_BYTES = 8

_ROUNDING = 4
"""How many multiply-adds of a product take as long as rounding a number."""


def few_bits_product(planner: Planner, operation: Operation, source: Value, posts: Sequence[Post]) -> Value | None:
    """The product and what is done with it; None where there is no code for it.

    Args:
        planner: The planner.
        operation: The operation, whose second and third inputs are constants: (blocks, size, N) int8, (blocks, 1, N).
        source: The rows, plain, of float32.
        posts: What is done with the product.
    """
    weights, scales = (planner.value(name) for name in operation.inputs[1:3])
    count, size, columns = weights.dims
    dims = count, size, columns
    rows = math.prod(source.shape[:-1])
    bits, coarse = int(operation.attributes["bits"]), bool(operation.attributes["coarse"])
    every = coarse or not has_exact_integers()  # whether all numbers of rows are computed here
    # Panels of 8 bits beside the form for many rows would take as much memory again.
    held_twice = bits == _BYTES and not planner.alone
    if not has_few_bits(planner.library, bits, size) or (not every and (rows > 1 or held_twice)):
        return None
    shape, flat = (*source.shape[:-1], columns), (rows, columns)
    bias, posts = bias_of(planner, columns, posts, shape)
    first, rest = flattened(planner, posts, flat, shape) if shape != flat else (list(posts), [])
    held = _panels(weights, scales, dims, bits)
    biased = bias is not None

    def build(chain: Sequence[PostOp]) -> OwnCode:
        if rows == 1:
            return FewBitsProduct(planner.library, bits, dims, coarse=coarse, biased=biased, posts=chain)
        return FewBitsRows(
            planner.library,
            bits,
            rows,
            dims,
            rounded=coarse,
            biased=biased,
            posts=chain,
            threads=planner.count,
        )

    def values(made: OwnCode) -> Mapping[int, Value]:
        given = {Argument.SRC: planner.reshaped(source, (rows, count * size)), Argument.WEIGHTS: held}
        if Argument.SRC_1 in made.arguments:
            given[Argument.SRC_1] = _rounded(planner, given[Argument.SRC], bits, (rows, count, size))
        if bias is not None:
            given[Argument.BIAS] = planner.plain(planner.converted(planner.reshaped(bias, (1, columns)), F32))
        return given

    found = planner.with_posts(build, values, Desc.plain(flat), flat, first, float(rows * math.prod(dims)))
    return planner.apply(planner.reshaped(found, shape), rest)


def _rounded(planner: Planner, source: Value, bits: int, dims: tuple[int, int, int]) -> Value:
    """Rows as bytes, which products of the same rows share.

    Args:
        planner: The planner.
        source: The rows, plain, of float32.
        bits: Of a weight.
        dims: The rows, the blocks of each, and the size of a block.
    """
    rows, count, size = dims
    known = planner.forms.get((planner.buffer_of(source), f"{bits} {dims}"))
    if known is not None:
        return known
    made = planner.make_heavy(
        lambda: RoundedRows(planner.library, bits, rows, count, size), float(_ROUNDING * math.prod(dims))
    )
    found = planner.new(made.arguments[Argument.DST])
    planner.emit(made, {Argument.SRC: source, Argument.DST: found})
    planner.forms[planner.buffer_of(source), f"{bits} {dims}"] = found
    return found


def _panels(weights: Value, scales: Value, dims: tuple[int, int, int], bits: int) -> Value:
    """The constants in panels."""
    assert weights.weight is not None, "weights are constants"
    assert scales.weight is not None, "scales are constants"
    desc = panels_of(bits, dims)
    data = weights.weight.arranged(
        desc.nbytes,
        f"oneDNN provider: panels of {bits} bits of {dims}",
        scales.weight,
        partial(panels, bits=bits),
        partial(weights_of, dims=dims, bits=bits),
    )
    return Value(desc, Buffer(Place.CONSTANT, desc.nbytes, data=data), desc.dims)
