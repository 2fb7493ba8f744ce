"""Quantisation, and quantised operators that work element by element."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.constraints.families.reductions import reduction
from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Unchecked, Violation, replaced
from ort_py.constraints.sizes import Amount, divide, equal, product
from ort_py.dtypes import DataType


def _parameters(n: NodeScope) -> Outputs:
    """QuantizeLinear and DequantizeLinear: one scale, one per entry of an axis, or one per block along it."""
    shape, scale = n.shape(0), n.shape(1)
    block, made = n.integer("block_size"), n.integer("output_dtype")
    if made not in list(DataType):
        raise Violation(f"output_dtype is {made}")
    single = not scale or (len(scale) == 1 and scale[0] == 1)
    if n.has(2):
        if single:
            n.require(equal(product(n.shape(2)), 1), "there are {} zero points for one scale", product(n.shape(2)))
        else:
            n.require_same(2, scale, "the zero point")
    if not scale or (single and not block):
        return [shape]
    if not shape:
        raise Violation(f"a scale of {len(scale)} axes for a scalar")
    axis = n.axis(n.integer("axis", 1), len(shape))
    if block < 0:
        raise Violation(f"block_size is {block}")
    if block:
        n.require_same(1, replaced(shape, axis, divide(shape[axis] + (block - 1), block)), "the scale")
    elif len(scale) != 1:
        raise Violation(f"the scale has {len(scale)} axes instead of one")
    else:
        n.require(equal(scale[0], shape[axis]), "the scale has {} entries for an axis of {}", scale[0], shape[axis])
    return [shape]


def _dynamic(n: NodeScope) -> Outputs:
    return [n.shape(0), (), ()][: n.outputs]


def _numbers(n: NodeScope, *places: int) -> None:
    """State that inputs hold one number each."""
    for place in places:
        shape = n.optional_shape(place)
        if not shape:
            continue
        if len(shape) > 1:
            raise Violation(f"input {place} has {len(shape)} axes instead of none")
        n.require(equal(shape[0], 1), f"input {place} has {{}} elements instead of one", shape[0])


def _binary(n: NodeScope) -> Outputs:
    _numbers(n, 1, 2, 4, 5, 6, 7)
    return [n.broadcast(n.shape(0), n.shape(3))]


def _unary(n: NodeScope) -> Outputs:
    _numbers(n, 1, 2, 3, 4)
    return [n.shape(0)]


def _concat(n: NodeScope) -> Outputs:
    _numbers(n, 0, 1)
    places = range(2, len(n.inputs), 3)
    shapes = [n.shape(place) for place in places]
    if not shapes or any(len(shape) != len(shapes[0]) for shape in shapes):
        raise Violation("the inputs do not have the same number of axes")
    axis = n.axis(n.integer("axis"), len(shapes[0]))
    whole: Amount = 0
    for place, shape in zip(places, shapes, strict=True):
        _numbers(n, place + 1, place + 2)
        whole = shape[axis] + whole
        for along, (size, wanted) in enumerate(zip(shape, shapes[0], strict=True)):
            if along != axis:
                n.require(equal(size, wanted), "sizes {} and {} along axis {} cannot be joined", size, wanted, along)
    return [replaced(shapes[0], axis, whole)]


def _reduced(n: NodeScope) -> Outputs:
    if "axes" not in n.attributes and n.has(5):
        raise Unchecked("axes are an input")
    _numbers(n, 1, 2, 3, 4)
    inner = NodeScope(n.op_type, n.since_version, n.attributes, n.inputs[:1], 1, n._ledger)
    return reduction(inner)


def _softmax(n: NodeScope) -> Outputs:
    shape: Dims = n.shape(0)
    n.axis(n.integer("axis", -1), max(len(shape), 1))
    _numbers(n, 1, 2, 3, 4)
    return [shape]


TABLE: Mapping[tuple[str, str], Constraint] = {
    ("", "DequantizeLinear"): _parameters,
    ("", "DynamicQuantizeLinear"): _dynamic,
    ("", "QuantizeLinear"): _parameters,
    ("com.microsoft", "DequantizeLinear"): _parameters,
    ("com.microsoft", "QLinearAdd"): _binary,
    ("com.microsoft", "QLinearConcat"): _concat,
    ("com.microsoft", "QLinearLeakyRelu"): _unary,
    ("com.microsoft", "QLinearMul"): _binary,
    ("com.microsoft", "QLinearReduceMean"): _reduced,
    ("com.microsoft", "QLinearSigmoid"): _unary,
    ("com.microsoft", "QLinearSoftmax"): _softmax,
    ("com.microsoft", "QuantizeLinear"): _parameters,
}
