"""Descriptors and primitives: layouts that are the same, what a primitive wants, what cannot be had."""

from __future__ import annotations

import pytest

from ort_py.errors import EPFail
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Algorithm, Argument, Binary, Element, Eltwise, Status
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.library import open_library
from ort_py_onednn.binding.openmp import threads
from ort_py_onednn.binding.primitive import Function, Primitive, Unimplemented
from ort_py_onednn.binding.status import check
from ort_py_onednn.lowering.planner import Planner


def test_strides_of_a_dimension_of_one_mean_nothing() -> None:
    """Two ways to write one layout are the same layout."""
    assert Desc.strided((1, 4), (99, 1)).same(Desc.plain((1, 4)))
    assert Desc.strided((1, 4), (99, 1)).is_plain


def test_plain_layouts_have_the_usual_strides() -> None:
    """However they were made, for of others oneDNN has reference code only where functions of two arguments end in
    bytes: 800 times slower."""
    turned = Desc.plain((24, 1, 512)).permuted((1, 0, 2))
    assert turned is not None
    usual = Desc.plain((1, 24, 512))
    assert turned.strides == Desc.strided((1, 24, 512), (512, 512, 1)).strides == usual.strides
    one, bytes_ = Desc.plain((1, 1, 1)), Desc.plain((1, 24, 512), Element.U8)
    assert not primitives.binary(Binary.DIV, turned, one, bytes_).is_reference


def test_layouts_that_differ() -> None:
    """A transposed matrix is another layout, and no plain one."""
    turned = Desc.strided((3, 4), (1, 3))
    assert not turned.same(Desc.plain((3, 4)))
    assert not turned.is_plain
    assert turned.is_dense
    found = turned.permuted((1, 0))
    assert found is not None
    assert found.is_plain
    assert found.dims == (4, 3)


def test_channels_last_is_seen() -> None:
    """The innermost dimension is the channel, unless there is but one pixel."""
    assert Desc.channels_last((1, 8, 4, 4)).is_channels_last
    assert not Desc.plain((1, 8, 4, 4)).is_channels_last
    assert not Desc.channels_last((1, 8, 1, 1)).is_channels_last


def test_a_part_has_gaps() -> None:
    """Half of the columns of a matrix: a view, not dense."""
    part = Desc.plain((4, 6)).part((4, 3), (0, 3))
    assert part is not None
    assert not part.is_dense
    assert not part.is_plain


def test_a_primitive_says_all_it_wants() -> None:
    """The scratchpad too, where it needs one: to leave it out would crash."""
    desc = Desc.plain((1, 16, 8, 8))
    ones = (1, 1)
    made = primitives.convolution(
        Desc.any(desc.dims), Desc.any((16, 16, 3, 3)), None, Desc.any(desc.dims), (ones, ones, ones, ones)
    )
    assert {Argument.SRC, Argument.WEIGHTS, Argument.DST} <= set(made.arguments)
    assert made.implementation


def test_what_oneDNN_has_not_is_unimplemented() -> None:  # noqa: N802 - the library's name
    """Not an error of ours: the caller tries another way."""
    with pytest.raises(Unimplemented):
        primitives.matmul(Desc.plain((2, 3)), Desc.plain((4, 5)), None, Desc.plain((2, 5)))


def test_a_binding_is_checked() -> None:
    """A missing argument and one of another layout are refused before anything runs."""
    planner = Planner(open_library(), {}, {}, 1, {}, Primitive.generate)
    planner.feed("x", 0, (4, 4))
    desc = Desc.plain((4, 4))
    made = planner.make(lambda: primitives.eltwise(Function(Eltwise.RELU), desc, desc), desc)
    with pytest.raises(EPFail, match="wants argument 17"):
        planner.emit(made, {Argument.SRC: planner.value("x")})
    with pytest.raises(EPFail, match="wants argument 1 "):
        planner.emit(made, {Argument.SRC: planner.new(Desc.strided((4, 4), (1, 4)))})


@pytest.mark.parametrize("status", [2, 3, 5, 77])
def test_a_status_is_an_exception_with_its_name(status: int) -> None:
    name = Status(status).name.lower() if status < 11 else "unknown"
    with pytest.raises(EPFail, match=rf"oneDNN's f failed for x: status {status} \({name}\)"):
        check(status, "f", "x")


def test_success_is_silent() -> None:
    """And memory that is short is a MemoryError."""
    check(0, "f")
    with pytest.raises(MemoryError):
        check(1, "f")


def test_the_number_of_threads_comes_back() -> None:
    """It is the calling thread's, and set for a block."""
    library = open_library()
    before = library.c.omp_get_max_threads()
    with threads(library, before + 1):
        assert library.c.omp_get_max_threads() == before + 1
    assert library.c.omp_get_max_threads() == before


def test_operations_are_counted() -> None:
    """Elements, times what is added up or compared for each of the result's."""
    x, y = Desc.plain((2, 3, 9, 9)), Desc.plain((2, 3, 7, 5))
    geometry = ((1, 1), (1, 1), (0, 0), (0, 0))
    pooled = primitives.pooling(Algorithm.POOLING_MAX, x, y, (3, 5), geometry)
    assert pooled.operations == 2 * 3 * 7 * 5 * 15
    product = primitives.matmul(Desc.plain((4, 6)), Desc.plain((6, 5)), None, Desc.plain((4, 5)))
    assert product.operations == 4 * 6 * 5
    response = primitives.local_response(x, x, 99, 1.0, 0.75, 1.0)
    assert response.operations == 2 * 3 * 9 * 9 * 3
    softmax = primitives.softmax(Desc.plain((8, 6)), Desc.plain((8, 6)), 1)
    assert softmax.operations == 48


@pytest.mark.parametrize(
    ("implementation", "call", "operations", "expected"),
    [
        ("ref:any", "softmax", 1 << 23, True),
        ("ref:any", "softmax", 1 << 21, False),
        ("simple_nchw:any", "pooling", 1 << 28, True),
        ("simple_nchw:any", "pooling", 1 << 26, False),
        ("jit:avx2", "pooling", 1 << 33, True),
        ("jit:avx2", "pooling", 1 << 31, False),
        ("brgemm:avx2", "matmul", 1 << 40, False),
    ],
)
def test_what_takes_long_depends_on_the_code(implementation: str, call: str, operations: int, expected: bool) -> None:
    """Products are counted elsewhere, against what the processor can do."""
    made = object.__new__(Primitive)
    made.implementation, made.operations, made._call = implementation, operations, call
    assert made.takes_long is expected
