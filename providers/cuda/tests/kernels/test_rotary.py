"""RotaryEmbedding of both domains in generated code, run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import KernelInputError
from ort_py_array.contrib.schemas import schemas
from ort_py_cuda.kernels.rotary import KERNELS
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.kernels.generated import check, check_with_library, run

SCHEMAS = tuple(schemas())
MS: dict[str, Any] = {"domain": "com.microsoft", "opset": 1, "schemas": SCHEMAS}


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host."""
    return host.install(monkeypatch)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return rng().standard_normal(shape, np.float32)


def positions(*shape: int) -> np.ndarray[Any, Any]:
    return rng().integers(0, 20, shape)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("dim", [0, 4])
def test_heads_apart(interleaved: int, dim: int, device: host.HostDriver) -> None:
    """``(batch, heads, length, size)``, whole heads and a part of each."""
    half = (dim or 8) // 2
    inputs = [floats(2, 3, 5, 8), floats(20, half), floats(20, half), positions(2, 5)]
    check(KERNELS, "RotaryEmbedding", inputs, interleaved=interleaved, rotary_embedding_dim=dim)
    assert device.launched


@pytest.mark.parametrize("interleaved", [0, 1])
def test_heads_together_without_positions(interleaved: int) -> None:
    """``(batch, length, heads · size)``, and a row of the caches for each place."""
    inputs = [floats(2, 5, 24), floats(2, 5, 4), floats(2, 5, 4)]
    check(KERNELS, "RotaryEmbedding", inputs, interleaved=interleaved, num_heads=3)


def test_half_precision() -> None:
    given = [floats(1, 2, 6, 8), floats(20, 4), floats(20, 4)]
    inputs = [*(one.astype(np.float16) for one in given), positions(1, 6)]
    check(KERNELS, "RotaryEmbedding", inputs, rounding=2.0)


@pytest.mark.parametrize("shape", [(2, 5, 24), (2, 3, 5, 8)])
@pytest.mark.parametrize("where", [(1,), (2, 5)])
def test_the_older_operator(shape: tuple[int, ...], where: tuple[int, ...], device: host.HostDriver) -> None:
    """com.microsoft's, with a position for each place or for the first one, which stays on the device."""
    at = positions(*where) if where != (1,) else np.array([7])
    inputs = [floats(*shape), at, floats(20, 4), floats(20, 4)]
    check_with_library(KERNELS, "RotaryEmbedding", inputs, **MS)
    assert device.launched


@pytest.mark.parametrize("at", [20, -1])
def test_a_position_outside_the_caches(at: int) -> None:
    """Is raised when the stream was waited for, with the node's name."""
    inputs = [floats(1, 1, 2, 8), floats(20, 4), floats(20, 4), np.array([[3, at]])]
    with pytest.raises(KernelInputError, match=f"Position {at} is outside the caches") as caught:
        run(KERNELS, "RotaryEmbedding", inputs)
    assert "RotaryEmbedding_under_test" in str(caught.value)
