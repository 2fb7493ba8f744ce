"""Code that oneDNN never frees: kept instead of made twice, and no more of it once a process has made its share."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding import lasting_code, primitive, primitives, remembered
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Primitive
from providers.onednn.tests.models import model, node, open_session, run_plain


def _convolution(width: int) -> Primitive:
    """A convolution of 3×3 for a picture of that width."""
    dims, weights = (1, 32, 8, width), (32, 32, 3, 3)
    return primitives.convolution(
        Desc.any(dims), Desc.any(weights), None, Desc.any(dims), ((1, 1), (1, 1), (1, 1), (1, 1))
    )


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> str:
    """The code that oneDNN likes best here, which is taken for lasting."""
    remembered.forget()
    best = _convolution(20).implementation
    monkeypatch.setattr(primitive, "is_lasting", lambda name: name == best)
    monkeypatch.setattr(lasting_code, "_bytes", 0)
    monkeypatch.setattr(lasting_code, "_kept", [])
    remembered.forget()
    return best


def test_what_is_generated_is_counted_once(lasting: str) -> None:
    """A description costs nothing; its code counts when it is made, and not again."""
    made = _convolution(20)
    assert (made.implementation, lasting_code._bytes) == (lasting, 0)
    made.generate()
    _convolution(20).generate()
    assert lasting_code._bytes == made.nbytes


def test_it_is_kept_where_others_are_dropped(lasting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the bound on what is remembered, it is found again; a description without code is not."""
    monkeypatch.setattr(remembered, "_RECENT_BYTES", 2 * _convolution(20).nbytes)
    made = weakref.ref(_convolution(20))
    only_described = weakref.ref(_convolution(21))
    _convolution(20).generate()
    for width in range(22, 26):
        _convolution(width)
    assert _convolution(20) is made() is not None
    assert only_described() is None


def test_there_is_an_end_of_it(lasting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a process has used its share, new convolutions are computed by other code, which is not a reference
    kernel.
    """
    monkeypatch.setattr(lasting_code, "LASTING_BYTES", 1)
    _convolution(20).generate()
    other = _convolution(21)
    if other.implementation == lasting:
        assert other.is_one_too_many  # this processor has no other code
    else:
        assert [other.lasting, other.is_one_too_many, other.is_reference] == [False] * 3


@pytest.mark.parametrize("strides", [[2, 2], [1, 1]])
def test_transposed_convolutions_end_too(monkeypatch: pytest.MonkeyPatch, strides: list[int]) -> None:
    """oneDNN has no other code for the layouts it likes, but some for plain arrays, which gives the same numbers."""
    monkeypatch.setattr(lasting_code, "LASTING_BYTES", 0)
    used = lasting_code._bytes
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((32, 16, 4, 4), np.float32)}
    nodes = [node("ConvTranspose", "x w", "a", strides=strides, pads=[1, 1, 1, 1]), node("Relu", "a", "y")]
    feeds = {"x": rng.standard_normal((1, 32, 9, 11), np.float32)}
    data = model(nodes, feeds, weights, dynamic=True)
    with open_session(data) as session:
        assert_close(session.run(None, feeds), run_plain(data, feeds))
    assert lasting_code._bytes == used


def test_names() -> None:
    """Convolutions by blocks of matrices, alone or inside a transposed one, and nothing else."""
    names = ["brgconv:avx512_core", "brgconv_1x1:avx2", "brg_conv:avx2+brgconv_strided:avx2"]
    assert all(map(lasting_code.is_lasting, names))
    assert not any(map(lasting_code.is_lasting, ["jit:avx2", "brdgmm_dw:avx512_core", "brg:avx512_core"]))
