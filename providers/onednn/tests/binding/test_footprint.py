"""Estimated memory of primitives, against what the C library allocates while they are made."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable

import pytest

from ort_py_onednn.binding import primitives, remembered
from ort_py_onednn.binding.constants import Binary, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function, Operand, Primitive

_COUNT = 24


class _Statistics(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _allocated() -> int:
    tell = ctypes.CDLL(None).mallinfo2
    tell.restype = _Statistics
    found = tell()
    return int(found.uordblks + found.hblkhd)


def _posts(desc: Desc) -> tuple[Function | Operand, ...]:
    """Operations that models apply to results: a bias or residual, and a function."""
    return Operand(Binary.ADD, desc), Function(Eltwise.LINEAR, 2.0, 1.0)


def _convolution(number: int) -> Primitive:
    picture, weights = Desc.any((1, 32, 8, 20 + number)), Desc.any((32, 32, 3, 3))
    ones = (1, 1)
    return primitives.convolution(picture, weights, None, picture, (ones, ones, ones, ones), (Function(Eltwise.RELU),))


def _product(number: int) -> Primitive:
    rows = 30 + number
    target = Desc.plain((rows, 96))
    return primitives.matmul(Desc.plain((rows, 64)), Desc.any((64, 96)), None, target, _posts(target))


def _sum(number: int) -> Primitive:
    desc = Desc.plain((3, 40 + number))
    return primitives.binary(Binary.ADD, desc, desc, desc, _posts(desc))


def _function(number: int) -> Primitive:
    desc = Desc.plain((3, 40 + number))
    return primitives.eltwise(Function(Eltwise.TANH), desc, desc)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="only glibc from 2.33 on tells how much is allocated",
)
@pytest.mark.parametrize("make", [_convolution, _product, _sum, _function])
def test_estimates_are_near(make: Callable[[int], Primitive]) -> None:
    """Estimates are within 2.5 times of what is allocated: bounds in bytes mean what they say."""
    remembered.forget()
    make(_COUNT).generate()  # what the library sets up once
    before = _allocated()
    made = [make(number) for number in range(_COUNT)]
    for one in made:
        one.generate()
    taken = (_allocated() - before) / _COUNT
    estimated = sum(one.nbytes for one in made) / _COUNT
    assert taken / 2.5 < estimated < 2.5 * taken, f"{made[0].implementation}: {taken:.0f} bytes, not {estimated:.0f}"
