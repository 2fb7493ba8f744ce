"""Weights that NumPy copies into blocks lie where oneDNN's own copy puts them."""

import numpy as np
import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.execution import copied_layouts
from ort_py_onednn.execution.copied_layouts import copy_elements
from ort_py_onednn.execution.large_pages import aligned
from ort_py_onednn.execution.packed_weights import _run_once


def _layout_of(outputs: int, inputs: int, kernel: int, group: int) -> tuple[tuple[int, ...], Desc]:
    """Dimensions of weights, and the layout that a convolution chooses for them."""
    part = (outputs // group, inputs // group, kernel, kernel)
    dims = (group, *part) if group > 1 else part
    geometry = (1, 1), (1, 1), (0, 0), (0, 0)
    size = 12 - kernel + 1
    made = primitives.convolution(
        Desc.any((1, inputs, 12, 12)), Desc.any(dims), None, Desc.any((1, outputs, size, size)), geometry
    )
    return dims, made.arguments[Argument.WEIGHTS]


def _filled(desc: Desc) -> np.ndarray:
    made = aligned(desc.nbytes)
    made[:] = 0xA5
    return made


@pytest.mark.parametrize(
    "shape", [(16, 3, 3, 1), (32, 16, 1, 1), (17, 9, 5, 1), (48, 48, 3, 48), (20, 40, 3, 4), (5, 7, 1, 1), (1, 1, 2, 1)]
)
def test_elements_lie_where_a_convolution_reads_them(shape: tuple[int, int, int, int]) -> None:
    dims, target = _layout_of(*shape)
    array = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    source, data = Desc.plain(dims), array.reshape(-1).view(np.uint8)
    expected, found = _filled(target), _filled(target)
    _run_once(primitives.reorder(source, target), {Argument.SRC: data, Argument.DST: expected})
    assert copy_elements(source, data, target, found)
    np.testing.assert_array_equal(found, expected)


def test_arrays_are_read_as_their_strides_say() -> None:
    dims, target = _layout_of(16, 8, 3, 1)
    array = np.random.default_rng(1).standard_normal((8, 16, 3, 3)).astype(np.float32)
    source = Desc.strided(dims, (9, 144, 3, 1))
    expected, found = _filled(target), _filled(target)
    data = array.reshape(-1).view(np.uint8)
    swapped = np.ascontiguousarray(array.transpose(1, 0, 2, 3)).reshape(-1).view(np.uint8)
    _run_once(primitives.reorder(Desc.plain(dims), target), {Argument.SRC: swapped, Argument.DST: expected})
    assert copy_elements(source, data, target, found)
    np.testing.assert_array_equal(found, expected)


def test_bits_of_numbers_that_are_none_stay() -> None:
    bits = np.arange(0x7F800001, 0x7F800001 + 64, dtype=np.uint32)
    target = Desc.strided((8, 8), (1, 8))
    found = _filled(target)
    assert copy_elements(Desc.plain((8, 8)), bits.view(np.uint8), target, found)
    np.testing.assert_array_equal(found.view(np.uint32), bits.reshape(8, 8).T.reshape(-1))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Desc.plain((4, 4)), Desc.strided((4, 4), (1, 4), Element.BF16)),
        (Desc.plain((4, 4)), Desc.any((4, 4))),
        (Desc.plain((4, 4)), Desc.strided((4, 4), (8, 1))),
        (Desc.blocked((1, 8, 2, 2)), Desc.plain((1, 8, 2, 2))),
    ],
    ids=["another type", "a secret", "gaps", "blocks"],
)
def test_other_layouts_are_left_to_onednn(source: Desc, target: Desc) -> None:
    found = np.full(256, 0xA5, np.uint8)
    assert not copy_elements(source, np.zeros(256, np.uint8), target, found)
    assert (found == 0xA5).all()


def test_large_weights_are_left_to_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_layouts, "_MOST", 15)
    assert not copy_elements(
        Desc.plain((4, 4)), np.zeros(64, np.uint8), Desc.strided((4, 4), (1, 4)), np.zeros(64, np.uint8)
    )
