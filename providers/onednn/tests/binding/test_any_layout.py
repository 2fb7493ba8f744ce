"""Functions of any strided layouts: gaps, axes in any order, and any stride for a dimension of 1; against NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ort_py.errors import EPFail
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import Algorithm, Argument, Binary, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.primitive import Function, Primitive, Unimplemented
from ort_py_onednn.binding.status import check

_UNTOUCHED = np.float32(777)
_BEHIND = 40
"""Elements behind a tensor, in which nothing may be written."""


@dataclass
class _Tensor:
    """A layout and memory for it."""

    desc: Desc
    memory: np.ndarray[Any, Any]
    array: np.ndarray[Any, Any]

    @classmethod
    def drawn(cls, rng: random.Random, dims: tuple[int, ...]) -> _Tensor:
        """Any order of the axes, perhaps with gaps, and with numbers of its own."""
        order, strides, size = list(range(len(dims))), [0] * len(dims), 1
        rng.shuffle(order)
        gaps = rng.random() < 0.4
        for axis in order:
            strides[axis] = size
            size = size * dims[axis] + (rng.randint(1, 5) if gaps and rng.random() < 0.3 else 0)
        strides = [
            rng.choice([1, 7, size, 2 * size]) if dim == 1 and rng.random() < 0.6 else stride
            for dim, stride in zip(dims, strides, strict=True)
        ]
        memory = np.random.default_rng(rng.randrange(2**31)).standard_normal(size + _BEHIND).astype(np.float32)
        steps = [0 if dim == 1 else 4 * stride for dim, stride in zip(dims, strides, strict=True)]
        return cls(Desc.strided(dims, strides), memory, np.lib.stride_tricks.as_strided(memory, dims, steps))


def _run(primitive: Primitive, tensors: Mapping[int, _Tensor]) -> None:
    c, given = engine().c, {place: (one.desc, one.memory) for place, one in tensors.items()}
    scratch = primitive.arguments.get(Argument.SCRATCHPAD)
    if scratch is not None:
        given[Argument.SCRATCHPAD] = scratch, np.zeros(scratch.nbytes + 64, np.uint8)
    arguments, made = ffi.new("dnnl_exec_arg_t[]", len(given)), []
    for index, (place, (desc, memory)) in enumerate(given.items()):
        handle = ffi.new("void **")
        check(c.dnnl_memory_create(handle, desc.handle, engine().handle, ffi.from_buffer(memory)), "dnnl_memory_create")
        made.append(handle[0])
        arguments[index].arg, arguments[index].memory = int(place), handle[0]
    status = c.dnnl_primitive_execute(primitive.handle, engine().stream, len(given), arguments)
    for handle in made:
        c.dnnl_memory_destroy(handle)
    check(status, "dnnl_primitive_execute")


Case = tuple[Callable[[], Primitive], dict[int, _Tensor], _Tensor, np.ndarray[Any, Any]]
"""How the primitive is made, its inputs, its result, and what that should be."""


def _of_one(rng: random.Random, x: _Tensor) -> Case:
    """Exp, a copy, a Softmax, a maximum or a sum."""
    dims, axis = x.desc.dims, rng.randrange(len(x.desc.dims))
    reduced = (*dims[:axis], 1, *dims[axis + 1 :])
    kind = rng.choice(["exp", "copy", "softmax", "max", "sum"])
    y = _Tensor.drawn(rng, reduced if kind in {"max", "sum"} else dims)
    powers = np.exp(x.array - x.array.max(axis, keepdims=True))
    make, expected = {
        "exp": (lambda: primitives.eltwise(Function(Eltwise.EXP), x.desc, y.desc), np.exp(x.array)),
        "copy": (lambda: primitives.reorder(x.desc, y.desc), x.array),
        "softmax": (lambda: primitives.softmax(x.desc, y.desc, axis), powers / powers.sum(axis, keepdims=True)),
        "max": (
            lambda: primitives.reduction(Algorithm.REDUCTION_MAX, x.desc, y.desc),
            x.array.max(axis, keepdims=True),
        ),
        "sum": (
            lambda: primitives.reduction(Algorithm.REDUCTION_SUM, x.desc, y.desc),
            x.array.sum(axis, keepdims=True),
        ),
    }[kind]
    return make, {Argument.SRC: x}, y, expected


def _of_two(rng: random.Random, x: _Tensor) -> Case:
    """A difference or a slope, of which the second operand broadcasts; or both joined."""
    dims = x.desc.dims
    narrow = _Tensor.drawn(rng, tuple(1 if rng.random() < 0.5 else dim for dim in dims))
    kind = rng.choice(["sub", "prelu", "concat"])
    if kind == "sub":
        y = _Tensor.drawn(rng, dims)
        make = lambda: primitives.binary(Binary.SUB, x.desc, narrow.desc, y.desc)  # noqa: E731
        return make, {Argument.SRC: x, Argument.SRC_1: narrow}, y, x.array - narrow.array
    if kind == "prelu":
        y = _Tensor.drawn(rng, dims)
        expected = np.where(x.array > 0, x.array, x.array * narrow.array)
        make = lambda: primitives.prelu(x.desc, narrow.desc, y.desc)  # noqa: E731
        return make, {Argument.SRC: x, Argument.WEIGHTS: narrow}, y, expected
    axis = rng.randrange(len(dims))
    other = _Tensor.drawn(rng, (*dims[:axis], rng.choice([1, 3, 8]), *dims[axis + 1 :]))
    y = _Tensor.drawn(rng, (*dims[:axis], dims[axis] + other.desc.dims[axis], *dims[axis + 1 :]))
    make = lambda: primitives.concatenation([x.desc, other.desc], y.desc, axis)  # noqa: E731
    inputs = {Argument.MULTIPLE_SRC: x, Argument.MULTIPLE_SRC + 1: other}
    return make, inputs, y, np.concatenate([x.array, other.array], axis)


@pytest.mark.parametrize("draw", [_of_one, _of_two])
@pytest.mark.parametrize("seed", range(4))
def test_functions_read_and_write_where_their_layouts_say(
    seed: int, draw: Callable[[random.Random, _Tensor], Case]
) -> None:
    """Every element is right, and nothing beside the result is written. What oneDNN refuses is no result."""
    rng, computed = random.Random(seed), 0
    for _ in range(150):
        dims = tuple(rng.choice([1, 1, 2, 3, 5, 8, 16, 17]) for _ in range(rng.randint(1, 5)))
        make, inputs, y, expected = draw(rng, _Tensor.drawn(rng, dims))
        try:
            primitive = make()
        except (Unimplemented, EPFail):
            continue
        y.memory[:] = _UNTOUCHED
        _run(primitive, {**inputs, Argument.DST: y})
        where = f"{primitive.implementation} {[(one.desc.dims, one.desc.strides) for one in (*inputs.values(), y)]}"
        np.testing.assert_allclose(y.array, expected, rtol=1e-4, atol=1e-5, err_msg=where)
        y.array[...] = _UNTOUCHED
        assert (y.memory == _UNTOUCHED).all(), where
        computed += 1
    assert computed > 75
