"""Scales and zero points as arguments of primitives, and layouts that differ in the sums behind their data."""

from __future__ import annotations

import itertools

import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.features import has_exact_integers
from ort_py_onednn.binding.primitive import Primitive, Scaling

GEOMETRY = (1, 1), (1, 1), (1, 1), (1, 1)


def _convolution(source: Element, scaling: Scaling) -> Primitive:
    src, dst = Desc.any((1, 64, 9, 9), source), Desc.any((1, 64, 9, 9))
    return primitives.convolution(src, Desc.any((64, 64, 3, 3), Element.S8), None, dst, GEOMETRY, (), scaling)


def test_scales_are_arguments() -> None:
    """A primitive with scales and zero points wants them when it runs, of the length that was named."""
    scaling = Scaling({Argument.SRC: (0, 1), Argument.DST: (0, 1)}, {Argument.DST: (0, 1)})
    made = primitives.reorder(Desc.plain((4, 8)), Desc.plain((4, 8), Element.U8), (), scaling)
    assert made.arguments[Argument.scales(Argument.SRC)].same(Desc.plain((1,), F32))
    assert made.arguments[Argument.zero_points(Argument.DST)].same(Desc.plain((1,), Element.S32))


def test_sums_behind_the_data_tell_layouts_apart() -> None:
    """Keys of weights differ where oneDNN tells the layouts apart: sums for signed sources, and for a zero point."""
    if not has_exact_integers():
        pytest.skip("weights of this CPU's products have no sums behind them")
    zero = Scaling({}, {Argument.SRC: (0, 1)})
    signed, shifted, plain, again = (
        _convolution(source, scaling).arguments[Argument.WEIGHTS]
        for source, scaling in (
            (Element.S8, Scaling()),
            (Element.U8, zero),
            (Element.U8, Scaling()),
            (Element.S8, Scaling()),
        )
    )
    equal = engine().c.dnnl_memory_desc_equal
    for one, other in itertools.combinations((signed, shifted, plain), 2):
        assert (one.key == other.key) == bool(equal(one.handle, other.handle))
    assert shifted.key != plain.key  # every processor adds the sums of a zero point
    assert signed.key == again.key
