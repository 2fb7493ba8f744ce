"""Numbers as float8: every form, every kind of number, as ONNX's QuantizeLinear has them; and NVIDIA's compiler."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py_cuda import libraries
from ort_py_cuda.float8.bytes import columns_of, rows_kernel, rows_of
from providers.cuda.tests.architectures import ARCHITECTURES
from providers.cuda.tests.emulation.host import install, on_host, xp

from .models import FORMS

_NAMES = {form: np.dtype(dtype).name for form, dtype in FORMS.items()}
_LARGEST = {"float8e4m3fn": 448.0, "float8e5m2": 57344.0}


def _saturated(form: str, quotient: Any) -> Any:
    """The result that ONNX defines, computed with `ml_dtypes`."""
    with np.errstate(all="ignore"):
        wide = quotient.astype(np.float32)
        return np.clip(wide, -_LARGEST[form], _LARGEST[form]).astype(FORMS[form])


def _bytes(form: str, x: Any, scale: float = 1.0, rounded: str = "") -> Any:
    found = rows_of(xp, on_host(x), on_host(np.array([scale], np.float32)), _NAMES[form], rounded or x.dtype.name)
    return np.asarray(found)[:, : x.shape[-1]].view(FORMS[form])


def _same(found: Any, wanted: Any) -> None:
    """Equal bytes, but for which NaN it is."""
    nans = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), nans)
    np.testing.assert_array_equal(found.view(np.uint8)[~nans], wanted.view(np.uint8)[~nans])


@pytest.mark.parametrize("form", FORMS)
def test_every_number_and_what_lies_between(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """All float8 numbers, the middles of neighbours and their next floats, both signs; zeros, infinities, NaN."""
    install(monkeypatch)
    numbers = np.arange(256, dtype=np.uint8).view(FORMS[form]).astype(np.float32)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    exact = np.concatenate([numbers, middles])
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 449, 464, 61439, 70000])
    x = np.concatenate([exact, np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf), special]).astype(np.float32)
    _same(_bytes(form, x[None]), _saturated(form, x[None]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_quotients_of_narrow_numbers_are_rounded_to_their_type(
    monkeypatch: pytest.MonkeyPatch, form: str, dtype: Any
) -> None:
    """The model divides this way, unless it is set to divide in float32."""
    install(monkeypatch)
    x = (200 * np.random.default_rng(1).standard_normal((7, 40))).astype(dtype)
    scale = np.asarray(0.3).astype(dtype)
    quotient = x.astype(np.float32) / np.float32(scale)
    _same(_bytes(form, x, float(scale)), _saturated(form, quotient.astype(dtype)))
    _same(_bytes(form, x, float(scale), "float32"), _saturated(form, quotient))


@pytest.mark.parametrize("k", [1, 15, 16, 20, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_are_filled_up_with_zeros(monkeypatch: pytest.MonkeyPatch, dtype: Any, k: int) -> None:
    """Whole units of 16, of rows that can be read in packs and of others, in one piece or not."""
    install(monkeypatch)
    x = np.random.default_rng(k).standard_normal((2, 3, 2 * k)).astype(dtype)[..., ::2]
    rows = np.asarray(rows_of(xp, on_host(x), on_host(np.ones(1, np.float32)), "float8_e4m3fn", x.dtype.name))
    assert rows.shape == (6, -(-k // 16) * 16)
    assert not rows[:, k:].any()
    _same(rows[:, :k].view(ml_dtypes.float8_e4m3fn), x.reshape(6, k).astype(ml_dtypes.float8_e4m3fn))


@pytest.mark.parametrize("turned", [False, True])
def test_columns_are_filled_up_with_zeros(turned: bool) -> None:
    """A weight lies along the axis that is summed over, whichever way the model has it."""
    weight = np.random.default_rng(2).standard_normal((21, 7)).astype(np.float32).astype(ml_dtypes.float8_e5m2)
    packed = np.asarray(columns_of(xp, weight.T.copy() if turned else weight, turned))
    assert packed.shape == (16, 32)
    np.testing.assert_array_equal(packed[:7, :21], weight.T.view(np.uint8))
    assert not packed[7:].any()
    assert not packed[:, 21:].any()


@pytest.mark.skipif(libraries.find("nvrtc") is None, reason="needs NVRTC: pip install ort-py-cuda[cuda13]")
@pytest.mark.parametrize("arch", [*ARCHITECTURES, "sm_89"])
def test_kernels_compile(arch: str) -> None:
    """By NVIDIA's compiler, for each architecture."""
    for form in _NAMES.values():
        for source in ("float32", "float16", "bfloat16"):
            for aligned in (False, True):
                assert rows_kernel(form, source, source, aligned).image(arch)[:4] == b"\x7fELF"
    assert rows_kernel("float8_e4m3fn", "float16", "float32", True).image(arch)[:4] == b"\x7fELF"
