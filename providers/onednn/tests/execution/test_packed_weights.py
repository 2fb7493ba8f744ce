"""Weights cut into parts: held once, and the original can be had again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import PackedForms
from ort_py.errors import EPFail
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.execution.packed_weights import MadeWeight, Weight, _run_once


class _Forms(PackedForms):
    """Keeps nothing, and counts the bytes that were made."""

    def __init__(self) -> None:
        self.nbytes = 0

    def packed(self, keys: Sequence[str], form: str, make: Callable[[], Any]) -> Any:
        made = make()
        self.nbytes += made.nbytes
        return made


def _layout(width: int, source: Element) -> Desc:
    """The layout that a product of bytes needs for its weights: (2, 64, width)."""
    seen, held = Desc.plain((2, 3, 64), source), Desc.any((2, 64, width), Element.S8)
    return primitives.matmul(seen, held, None, Desc.plain((2, 3, width))).arguments[Argument.WEIGHTS]


@pytest.mark.parametrize("width", [64, 192])
def test_parts_stand_in_for_the_original(width: int) -> None:
    """The array goes once its parts are packed, is made of them again, and other layouts are made of that."""
    array = np.random.default_rng(3).integers(-128, 128, (2, 64, 192)).astype(np.int8)
    source, forms = MadeWeight(array.copy()), _Forms()
    weight = Weight(source, forms)
    weight.hold()
    form, seen = _layout(width, Element.S8), Desc.plain(array.shape, Element.S8)
    parts = weight.in_parts(form, seen, _layout(width, Element.U8))
    assert len(parts) == 192 // width
    assert source._array is None
    np.testing.assert_array_equal(source.array(), array)
    assert weight.in_parts(form, seen, None) is parts
    columns = Desc.strided((2, 192, 64), (64 * 192, 1, 192), Element.S8)
    turned = weight.in_layout(Desc.plain((2, 192, 64), Element.S8), columns)
    np.testing.assert_array_equal(turned.data.view(np.int8).reshape(2, 192, 64), array.transpose(0, 2, 1))


def test_a_layout_that_cannot_be_read_keeps_the_original() -> None:
    """If a form cannot be read back, the array stays."""
    array = np.random.default_rng(4).integers(-128, 128, (2, 64, 192)).astype(np.int8)
    source = MadeWeight(array)
    weight = Weight(source, _Forms())
    weight.in_parts(_layout(192, Element.S8), Desc.plain(array.shape, Element.S8))
    assert source._array is not None


class _Kept(_Forms):
    """Has a form that an earlier process made."""

    def __init__(self, form: np.ndarray[Any, Any]) -> None:
        super().__init__()
        self.form = form

    def packed(self, keys: Sequence[str], form: str, make: Callable[[], Any]) -> Any:
        return self.form


def test_a_later_weight_is_not_made_where_its_form_is_kept() -> None:
    """A form that an earlier process made is enough."""
    made: list[int] = []

    def make() -> np.ndarray[Any, Any]:
        made.append(1)
        return np.zeros((8, 4), np.float32)

    array = np.random.default_rng(5).standard_normal((4, 8)).astype(np.float32)
    source = MadeWeight.later(make, (8, 4), "some content", np.float32)
    weight = Weight(source, _Kept(array.reshape(-1).view(np.uint8)))
    packed = weight.in_layout(Desc.strided((8, 4), (1, 8)))
    np.testing.assert_array_equal(packed.data.view(np.float32).reshape(4, 8), array)
    assert not made


def test_a_layout_that_begins_behind_its_address_has_room() -> None:
    """oneDNN gives such a layout the size 0; its bytes are counted from the address nevertheless."""
    array = np.arange(4, dtype=np.float32)
    desc = Desc.plain((32,)).part((4,), (28,))
    assert desc is not None
    packed = Weight(MadeWeight(array), _Forms()).in_layout(desc)
    np.testing.assert_array_equal(packed.data[desc.reach[0] : desc.reach[1]].view(np.float32), array)


def test_a_layout_that_reaches_outside_of_its_bytes_is_refused() -> None:
    """Nothing is written there."""
    plain = Desc.plain((32,))
    arrays = {Argument.SRC: np.zeros(128, np.uint8), Argument.DST: np.zeros(64, np.uint8)}
    with pytest.raises(EPFail, match="would reach from byte 0 to byte 128 of a place of 64 bytes"):
        _run_once(primitives.reorder(plain, plain), arrays)
