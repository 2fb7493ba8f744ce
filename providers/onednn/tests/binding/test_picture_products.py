"""Products as pointwise convolutions: the numbers of a product for any sizes, and nothing is read beside its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import Argument, Binary, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.picture_products import FASTER, picture_product, weights_seen
from ort_py_onednn.binding.primitive import Accumulate, Function, Operand, PostOp, Primitive, Unimplemented
from ort_py_onednn.binding.status import check

_CODE = (*FASTER.values(), "brgconv_1x1:avx512_core", "x64:gemm:jit", "gemm:any", "gemm:ref", "ref:any")
"""The code that products use, and what processors without it have in its place."""

_UNTOUCHED = 777.0
_FENCE = 32
"""Elements around a tensor: not a number around operands, and not written around results."""

Array = np.ndarray[Any, Any]


def _made(rows: int, depth: int, columns: int, posts: Sequence[PostOp] = (), *, bias: bool = True) -> Primitive:
    vector = Desc.plain((1, columns)) if bias else None
    for name in _CODE:
        try:
            return picture_product(
                Desc.plain((rows, depth)),
                Desc.any((columns, depth, 1, 1)),
                vector,
                Desc.plain((rows, columns)),
                name,
                posts,
            )
        except Unimplemented:
            continue
    raise AssertionError("oneDNN has a pointwise convolution on every processor")


def _fenced(array: Array, around: float) -> Array:
    memory = np.full(array.size + 2 * _FENCE, around, np.float32)
    memory[_FENCE : _FENCE + array.size] = array.reshape(-1)
    return memory


def _executed(primitive: Primitive, given: dict[int, tuple[Desc, Array, int]]) -> None:
    """Run on memory, each argument with the bytes in front of its first element."""
    e = engine()
    scratch = primitive.arguments.get(Argument.SCRATCHPAD)
    if scratch is not None:
        given = {**given, Argument.SCRATCHPAD: (scratch, np.zeros(scratch.nbytes + 64, np.uint8), 0)}
    arguments, held = ffi.new("dnnl_exec_arg_t[]", len(given)), []
    for index, (code, (desc, memory, offset)) in enumerate(given.items()):
        handle = ffi.new("void **")
        address = ffi.cast("char *", ffi.from_buffer(memory)) + offset
        check(e.c.dnnl_memory_create(handle, desc.handle, e.handle, address), "dnnl_memory_create")
        held.append(ffi.gc(handle[0], e.c.dnnl_memory_destroy))
        arguments[index].arg, arguments[index].memory = code, handle[0]
    check(e.c.dnnl_primitive_execute(primitive.handle, e.stream, len(given), arguments), "dnnl_primitive_execute")


def _product(primitive: Primitive, a: Array, b: Array, bias: Array | None, into: Array, **operands: Array) -> Array:
    """The result; `into` is what the destination holds before."""
    wanted = primitive.arguments[Argument.WEIGHTS]
    packed = np.zeros(wanted.nbytes // 4 + 64, np.float32)
    seen = weights_seen(Desc.strided(b.shape, [step // 4 for step in b.strides]))
    order = primitives.reorder(seen, wanted)
    _executed(order, {Argument.SRC: (seen, b.T if b.flags.f_contiguous else b, 0), Argument.DST: (wanted, packed, 0)})
    target, skip = _fenced(into, _UNTOUCHED), 4 * _FENCE
    given = {
        Argument.SRC: (primitive.arguments[Argument.SRC], _fenced(a, math.nan), skip),
        Argument.WEIGHTS: (wanted, packed, 0),
        Argument.DST: (primitive.arguments[Argument.DST], target, skip),
    }
    if bias is not None:
        given[Argument.BIAS] = primitive.arguments[Argument.BIAS], _fenced(bias, math.nan), skip
    for name, operand in operands.items():
        code = Argument.post_op(int(name.removeprefix("post")))
        given[code] = primitive.arguments[code], _fenced(operand, math.nan), skip
    _executed(primitive, given)
    inner = target[_FENCE:-_FENCE]
    assert (target[:_FENCE] == _UNTOUCHED).all()
    assert (target[-_FENCE:] == _UNTOUCHED).all()
    return inner.reshape(into.shape)


def _drawn(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(np.float32)


SIZES = [
    (1, 256, 768),
    (1, 13, 5),
    (2, 8, 8),
    (3, 7, 1),
    (5, 1, 9),
    (16, 33, 130),
    (197, 64, 24),
    (70, 513, 17),
    (1, 1, 1),
]


@pytest.mark.parametrize(("rows", "depth", "columns"), SIZES)
def test_products_of_any_size(rows: int, depth: int, columns: int) -> None:
    """A row, sizes that fill no vector, and memory around the operands that is not a number."""
    a, b, bias = _drawn(rows, depth), _drawn(depth, columns), _drawn(columns)
    found = _product(_made(rows, depth, columns), a, b, bias, np.zeros((rows, columns), np.float32))
    expected = a.astype(np.float64) @ b.astype(np.float64) + bias
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * math.sqrt(depth))
    turned = np.asfortranarray(b)
    again = _product(_made(rows, depth, columns), a, turned, bias, np.zeros((rows, columns), np.float32))
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("depth", [5, 8, 13])
def test_a_row_that_is_not_a_number_stays_alone(depth: int) -> None:
    """NaN and infinities in one row do not reach the rows beside it."""
    a, b = _drawn(4, depth), _drawn(depth, 11)
    a[1], a[2] = math.nan, math.inf
    found = _product(_made(4, depth, 11, bias=False), a, np.abs(b) + 1, None, np.zeros((4, 11), np.float32))
    assert np.isnan(found[1]).all()
    assert np.isposinf(found[2]).all()
    np.testing.assert_allclose(found[[0, 3]], a[[0, 3]] @ (np.abs(b) + 1), rtol=1e-4, atol=1e-4)


def test_what_is_done_with_a_product() -> None:
    """A sum into the destination, a vector of columns, a matrix, a number and a function, in this order."""
    rows, depth, columns = 6, 12, 20
    dims = rows, columns
    posts = (
        Accumulate(),
        Operand(Binary.MUL, Desc.plain((1, columns))),
        Operand(Binary.ADD, Desc.any(dims)),
        Operand(Binary.MUL, Desc.plain((1, 1))),
        Function(Eltwise.TANH),
    )
    made = _made(rows, depth, columns, posts)
    a, b, bias, into, factor, matrix, number = (
        _drawn(*shape) for shape in ((rows, depth), (depth, columns), (columns,), dims, (1, columns), dims, (1, 1))
    )
    found = _product(made, a, b, bias, into, post1=factor, post2=matrix, post3=number)
    wide = (a.astype(np.float64) @ b + bias + into) * factor + matrix
    np.testing.assert_allclose(found, np.tanh(wide * number), rtol=1e-4, atol=1e-5)


def test_a_vector_of_rows_is_left_to_others() -> None:
    """Numbers that change from pixel to pixel stay out, since oneDNN's code for them was not measured."""
    with pytest.raises(Unimplemented):
        picture_product(
            Desc.plain((6, 12)),
            Desc.any((20, 12, 1, 1)),
            None,
            Desc.plain((6, 20)),
            "ref:any",
            (Operand(Binary.MUL, Desc.plain((6, 1))),),
        )
