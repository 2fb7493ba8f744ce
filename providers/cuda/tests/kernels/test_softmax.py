"""Softmax and LogSoftmax in generated code, run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_cuda.kernels.softmax import KERNELS
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.kernels.generated import check, run


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host, with threads in an order of their own."""
    found = host.install(monkeypatch)
    found.seed = 11
    return found


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return 3 * rng().standard_normal(shape, np.float32)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("width", [1, 7, 32, 100, 1000, 4096, 40000])
def test_rows_of_every_length(op_type: str, width: int) -> None:
    """In registers of a warp, of a block, and read twice."""
    check(KERNELS, op_type, [floats(3, width)])


@pytest.mark.parametrize("kind", ["float16", "float64"])
@pytest.mark.parametrize("width", [24, 3000, 40000])
def test_other_types(kind: str, width: int) -> None:
    """Half precision is computed in float32; the reference rounds at each step."""
    check(KERNELS, "Softmax", [floats(2, width).astype(kind)], rounding=4.0 if kind == "float16" else 1.0)


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_other_axes(op_type: str, axis: int) -> None:
    check(KERNELS, op_type, [floats(3, 5, 4)], axis=axis)


def test_flattened_axes_of_older_versions() -> None:
    """All from `axis` on are one."""
    found = run(KERNELS, "Softmax", [floats(2, 3, 4)], opset=11, axis=1)
    np.testing.assert_allclose(found[0].sum(axis=(1, 2)), 1, rtol=1e-5)


@pytest.mark.parametrize("width", [8, 40000])
@pytest.mark.parametrize("axis", [0, 1])
def test_special_values(width: int, axis: int) -> None:
    """Masked elements are 0; a row of nothing else, of a NaN or of an infinity is NaN."""
    x = floats(6, width)
    x[0, : width // 2] = -np.inf
    x[1] = -np.inf
    x[2, 3] = np.nan
    x[3, 4] = np.inf
    x[4, 0] = -np.inf
    check(KERNELS, "Softmax", [x if axis else x.T[:8].copy()], axis=axis)


def test_arrays_that_do_not_begin_on_16_bytes() -> None:
    """Packs are as wide as the address allows."""
    whole = host.on_host(floats(2 * 64 + 3))
    moved = whole[3:].reshape(2, 64)
    from ort_py_cuda.kernels.softmax import softmax_into

    y = host.xp.empty((2, 64), np.float32)
    softmax_into(moved, y, 2, 64, 1, log=False)
    powers = np.exp(np.asarray(moved, np.float64))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_an_axis_that_does_not_exist() -> None:
    with pytest.raises(InvalidArgument, match="Axis 2 is out of range for rank 2"):
        run(KERNELS, "Softmax", [floats(2, 3)], axis=2)


def test_empty_arrays(device: host.HostDriver) -> None:
    assert run(KERNELS, "Softmax", [floats(0, 4)])[0].shape == (0, 4)
    assert not device.launched
