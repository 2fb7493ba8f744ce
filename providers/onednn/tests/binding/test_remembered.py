"""Primitives and layouts that were made before."""

from __future__ import annotations

import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.openmp import threads
from ort_py_onednn.binding.primitive import Function, Operand, Unimplemented


def test_the_same_is_made_once() -> None:
    """Layouts are compared by what they say: one that a primitive chose is as good as one that was asked for."""
    plain = Desc.plain((8, 16))
    first = primitives.matmul(plain, Desc.any((16, 32)), None, Desc.plain((8, 32)))
    assert primitives.matmul(Desc.strided((8, 16), (16, 1)), Desc.any((16, 32)), None, Desc.plain((8, 32))) is first
    chosen = next(desc for code, desc in first.arguments.items() if desc.dims == (8, 16))
    assert primitives.matmul(chosen, Desc.any((16, 32)), None, Desc.plain((8, 32))) is first


@pytest.mark.parametrize("what", ["dims", "dtype", "posts", "operand", "threads"])
def test_what_differs_is_another(what: str) -> None:
    """Sizes, types, what is done with the result and the number of threads all count."""
    a, b, c = Desc.plain((8, 16)), Desc.any((16, 32)), Desc.plain((8, 32))
    source, weights = Desc.plain((8, 16), Element.U8), Desc.plain((16, 32), Element.S8)  # of every processor
    relu = (Function(Eltwise.RELU), Operand(Binary.ADD, Desc.plain((1, 32))))
    with threads(engine().library, 1):
        first = primitives.matmul(a, b, None, c, relu)
    other = {
        "dims": lambda: primitives.matmul(Desc.plain((9, 16)), b, None, Desc.plain((9, 32)), relu),
        "dtype": lambda: primitives.matmul(source, weights, None, c, relu),
        "posts": lambda: primitives.matmul(a, b, None, c, (Function(Eltwise.TANH), relu[1])),
        "operand": lambda: primitives.matmul(a, b, None, c, (relu[0], Operand(Binary.ADD, Desc.plain((8, 32))))),
        "threads": lambda: primitives.matmul(a, b, None, c, relu),
    }
    with threads(engine().library, 2 if what == "threads" else 1):
        assert other[what]() is not first or not engine().library.threaded


def test_plain_layouts_have_the_usual_strides() -> None:
    """However they came about: recurrent layers of oneDNN take those of dimensions of 1 for the distance of rows."""
    assert Desc.strided((1, 1, 8), (40, 5, 1)).strides == (8, 8, 1)
    turned = Desc.plain((8, 1, 1)).permuted((1, 2, 0))
    assert turned is not None
    assert turned.strides == (8, 8, 1)
    row = Desc.plain((5, 1, 8)).part((1, 1, 8), (0, 0, 0))
    assert row is not None
    assert row.strides == (8, 8, 1)


def test_layouts_that_differ_in_strides_without_meaning_have_primitives_of_their_own() -> None:
    """They are the same layout, but a primitive that was made for one may read what the other says."""
    one, other = Desc.strided((3, 1, 2), (1, 3, 6)), Desc.strided((3, 1, 2), (1, 6, 6))
    assert one.same(other)
    assert one.identity != other.identity


def test_what_cannot_be_had_is_said_each_time() -> None:
    for _ in range(2):
        with pytest.raises(Unimplemented, match="matmul"):
            primitives.matmul(Desc.plain((8, 16)), Desc.plain((15, 32)), None, Desc.plain((8, 32)))


def test_layouts_are_made_once_and_know_themselves() -> None:
    """Facts derived without oneDNN equal oneDNN's: for gaps, column-major order, and dimensions of 1."""
    shapes = (((4, 6), (6, 1)), ((4, 6), (1, 4)), ((4, 6), (12, 2)), ((1, 6), (6, 1)), ((3, 1, 5), (5, 7, 1)))
    for dims, strides in shapes:
        made = Desc.strided(dims, strides)
        asked = Desc.borrowed(made.handle)
        assert asked is not None
        assert (made.key, made.nbytes, made.strides) == (asked.key, asked.nbytes, asked.strides)
        assert Desc.strided(list(dims), list(strides)) is made
    assert Desc.any((4, 6)).key is None
    assert Desc.any((4, 6)).identity != Desc.any((4, 7)).identity
