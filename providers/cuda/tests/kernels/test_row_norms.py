"""LayerNormalization, RMSNormalization and their forms of com.microsoft in generated code, run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_array.contrib.schemas import schemas
from ort_py_cuda.kernels.row_norms import KERNELS
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.kernels.generated import check, check_with_library

SCHEMAS = tuple(schemas())
MS: dict[str, Any] = {"domain": "com.microsoft", "opset": 1, "schemas": SCHEMAS}


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host, with threads in an order of their own."""
    found = host.install(monkeypatch)
    found.seed = 13
    return found


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return rng().standard_normal(shape, np.float32)


@pytest.mark.parametrize("width", [1, 5, 64, 768, 1023, 5000, 20000])
def test_rows_of_every_length(width: int) -> None:
    """In registers of a warp, of a block, and read again."""
    check(KERNELS, "LayerNormalization", [4 + floats(3, width), floats(width), floats(width)])


def test_mean_and_deviation_are_results_too() -> None:
    check(KERNELS, "LayerNormalization", [floats(2, 5, 40), floats(40), floats(40)], outputs=3)


def test_several_axes(device: host.HostDriver) -> None:
    """Those from `axis` on, with scales of their shape."""
    check(KERNELS, "LayerNormalization", [floats(3, 4, 6), floats(4, 6)], axis=1)
    assert device.launched


def test_half_precision() -> None:
    """Statistics are formed in float32; before it is scaled, the result is rounded, as the reference does."""
    x, w, b = (one.astype(np.float16) for one in (floats(4, 96), floats(96), floats(96)))
    check(KERNELS, "LayerNormalization", [x, w, b])


@pytest.mark.parametrize("width", [16, 900, 30000])
def test_root_mean_square(width: int) -> None:
    check(KERNELS, "RMSNormalization", [1 + floats(3, width), floats(width)], epsilon=1e-3)


def test_scales_that_broadcast_otherwise_are_the_librarys(device: host.HostDriver) -> None:
    check(KERNELS, "LayerNormalization", [floats(3, 8), floats(1)])
    assert not device.launched


def test_double_precision_is_the_librarys(device: host.HostDriver) -> None:
    """Its statistics have a type of their own."""
    check_with_library(KERNELS, "LayerNormalization", [floats(3, 8).astype(np.float64), np.ones(8)])
    assert not device.launched


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("skip", [(2, 3, 40), (1, 3, 40), (3, 40)])
def test_sums(kind: str, skip: tuple[int, ...], device: host.HostDriver) -> None:
    """The summands are rows and repeated values, with a bias; the sum is a result too."""
    given = [floats(2, 3, 40), floats(*skip), floats(40), floats(40), floats(40)]
    inputs = [one.astype(kind) for one in given]
    check_with_library(KERNELS, "SkipLayerNormalization", inputs, rounding=2.0, outputs=4, epsilon=1e-5, **MS)
    assert device.launched


def test_sums_by_the_root_mean_square() -> None:
    """Without a shift; only the result and the sum are asked for."""
    inputs = [floats(2, 3, 40), floats(2, 3, 40), floats(40), floats(40)]
    check_with_library(
        KERNELS, "SkipSimplifiedLayerNormalization", inputs, outputs=4, output_mask=[True, False, False, True], **MS
    )


def test_the_simplified_form() -> None:
    """Its second result is the inverse root mean square."""
    check_with_library(
        KERNELS, "SimplifiedLayerNormalization", [floats(5, 24), floats(24)], outputs=2, opset=1, schemas=SCHEMAS
    )
