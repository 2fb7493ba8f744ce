"""Products of matrices, and their quantised forms."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Unchecked, Violation
from ort_py.constraints.sizes import Amount, any_of, divide, equal, product


def multiplied(n: NodeScope, left: Dims, right: Dims) -> Dims:
    """NumPy's matmul; the shape of the product.

    Raises:
        Violation: The shapes do not fit.
    """
    if not left or not right:
        raise Violation("a scalar cannot be multiplied as a matrix")
    rows: Dims = left[-2:-1] if len(left) > 1 else ()
    columns: Dims = right[-1:] if len(right) > 1 else ()
    inner: Amount = right[-2] if len(right) > 1 else right[0]
    n.require(equal(left[-1], inner), "{} columns meet {} rows", left[-1], inner)
    lead = n.broadcast(left[:-2], right[:-2])
    n.spend(product((*lead, *rows, left[-1], *columns)))
    return (*lead, *rows, *columns)


def _matmul(n: NodeScope) -> Outputs:
    return [multiplied(n, n.shape(0), n.shape(1))]


def _turned(shape: Dims, turn: bool) -> Dims:
    return (*shape[:-2], shape[-1], shape[-2]) if turn and len(shape) > 1 else shape


def _gemm(n: NodeScope, a: int = 0, b: int = 1, c: int = 2) -> Outputs:
    left, right = n.require_rank(a, 2, 2), n.require_rank(b, 2, 2)
    out = multiplied(n, _turned(left, bool(n.integer("transA"))), _turned(right, bool(n.integer("transB"))))
    if n.has(c):
        n.spreads_to(c, out, "C")
    return [out]


def _fused_matmul(n: NodeScope) -> Outputs:
    if n.integer("transBatchA") or n.integer("transBatchB"):
        raise Unchecked("batches are transposed")
    left, right = n.shape(0), n.shape(1)
    return [multiplied(n, _turned(left, bool(n.integer("transA"))), _turned(right, bool(n.integer("transB"))))]


def _vector(n: NodeScope, place: int, *counts: Amount) -> None:
    """A parameter of one number, or of as many as the first count; with more axes, of as many as the others."""
    shape = n.optional_shape(place)
    if shape:
        size = product(shape)
        fitting = counts[:1] if len(shape) == 1 else counts
        fits = any_of(equal(size, 1), *(equal(size, count) for count in fitting))
        n.require(fits, f"input {place} has {{}} entries, which fit neither rows nor columns", size)


def _integer_matmul(n: NodeScope) -> Outputs:
    out = multiplied(n, n.shape(0), n.shape(1))
    left, right = n.shape(0), n.shape(1)
    _vector(n, 2, left[-2] if len(left) > 1 else 1, product(left[:-1]))
    _vector(n, 3, right[-1], product((*right[:-2], right[-1])))
    return [out]


def _quantized_matmul(n: NodeScope) -> Outputs:
    left, right = n.shape(0), n.shape(3)
    out = multiplied(n, left, right)
    rows = (left[-2] if len(left) > 1 else 1, product(left[:-1]))
    columns = (right[-1], product((*right[:-2], right[-1])))
    for place, counts in ((1, rows), (4, columns), (6, rows)):
        _vector(n, place, *counts)
        _vector(n, place + 1, *counts)
    return [out]


def _to_float(n: NodeScope) -> Outputs:
    left, right = n.shape(0), n.shape(1)
    out = multiplied(n, left, right)
    _vector(n, 2, product(left[:-1]))
    _vector(n, 3, right[-1])
    _vector(n, 4, product(left[:-1]))
    _vector(n, 5, right[-1])
    if n.has(6):
        n.spreads_to(6, out, "the bias")
    return [out]


def _dynamic(n: NodeScope) -> Outputs:
    right = n.shape(1)
    out = multiplied(n, n.shape(0), right)
    _vector(n, 2, right[-1])
    _vector(n, 3, right[-1])
    if n.has(4):
        n.spreads_to(4, out, "the bias")
    return [out]


def _quantized_gemm(n: NodeScope) -> Outputs:
    left, right = n.require_rank(0, 2, 2), n.require_rank(3, 2, 2)
    out = multiplied(n, _turned(left, bool(n.integer("transA"))), _turned(right, bool(n.integer("transB"))))
    _vector(n, 1)
    _vector(n, 2)
    _vector(n, 4, out[-1])
    _vector(n, 5, out[-1])
    if n.has(6):
        n.spreads_to(6, out, "C")
    _vector(n, 7)
    _vector(n, 8)
    return [out]


def _few_bits(n: NodeScope) -> Outputs:
    columns, inner = n.integer("N"), n.integer("K")
    bits, block = n.integer("bits", 4), n.integer("block_size")
    if columns < 1 or inner < 1 or block < 1 or not 1 <= bits <= 8:
        raise Violation(f"N, K, bits and block_size are {columns}, {inner}, {bits} and {block}")
    left, weight = n.require_rank(0, 1), n.shape(1)
    n.require(equal(left[-1], inner), "the input has {} columns instead of {}", left[-1], inner)
    blocks = -(-inner // block)
    wanted = columns * blocks * -(-block * bits // 8)
    n.require(equal(product(weight), wanted), "the weights have {} bytes instead of {}", product(weight), wanted)
    scales = product(n.shape(2))
    n.require(equal(scales, columns * blocks), "there are {} scales instead of {}", scales, columns * blocks)
    if n.has(3):
        packed, points = columns * -(-blocks * bits // 8), product(n.shape(3))
        fits = any_of(equal(points, packed), equal(points, columns * blocks))
        n.require(fits, "there are {} zero points; {} packed ones or {} are needed", points, packed, columns * blocks)
    if n.has(5):
        n.require_same(5, (columns,), "the bias")
    out = (*left[:-1], columns)
    n.spend(product((*out, inner)))
    return [out]


def _einsum(n: NodeScope) -> Outputs:
    equation = n.text("equation").replace(" ", "")
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(n.inputs):
        raise Violation(f"the equation '{equation}' has {len(terms)} operands, the node {len(n.inputs)}")
    if "..." in equation or not arrow:
        raise Unchecked("the equation leaves letters out")
    sizes: dict[str, Amount] = {}
    for place, term in enumerate(terms):
        shape = n.shape(place)
        if len(term) != len(shape):
            raise Violation(f"'{term}' does not name the {len(shape)} axes of operand {place}")
        for letter, size in zip(term, shape, strict=True):
            known = sizes.setdefault(letter, size)
            fits = any_of(equal(known, size), equal(known, 1), equal(size, 1))
            n.require(fits, f"'{letter}' stands for axes of {{}} and {{}} elements", known, size)
            if isinstance(known, int) and known == 1:
                sizes[letter] = size
    missing = [letter for letter in output if letter not in sizes]
    if missing:
        raise Violation(f"'{missing[0]}' of the result names no axis of an operand")
    if len(terms) <= 2:  # more are multiplied two at a time, in an order that the kernel chooses
        n.spend(product(tuple(sizes.values())))
    return [tuple(sizes[letter] for letter in output)]


def _bias_split(n: NodeScope) -> Outputs:
    shape = n.require_rank(0, 3, 3)
    return [(shape[0], shape[1], divide(shape[2], 2))]


TABLE: Mapping[tuple[str, str], Constraint] = {
    ("", "Einsum"): _einsum,
    ("", "Gemm"): _gemm,
    ("", "MatMul"): _matmul,
    ("", "MatMulInteger"): _integer_matmul,
    ("", "QLinearMatMul"): _quantized_matmul,
    ("com.microsoft", "BiasSplitGelu"): _bias_split,
    ("com.microsoft", "DynamicQuantizeMatMul"): _dynamic,
    ("com.microsoft", "FusedGemm"): _gemm,
    ("com.microsoft", "FusedMatMul"): _fused_matmul,
    ("com.microsoft", "MatMulIntegerToFloat"): _to_float,
    ("com.microsoft", "MatMulNBits"): _few_bits,
    ("com.microsoft", "QGemm"): _quantized_gemm,
}
