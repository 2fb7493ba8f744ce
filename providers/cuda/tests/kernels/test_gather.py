"""Gather, GatherElements and GatherND in generated code, run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument, KernelInputError
from ort_py_cuda.kernels.gather import KERNELS
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.kernels.generated import check, run

KINDS = ("float32", "float16", "int8", "int64", "bool", "float64", "complex128")


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host."""
    return host.install(monkeypatch)


def numbers(*shape: int, kind: str = "float32") -> np.ndarray[Any, Any]:
    return rng().integers(0, 100, shape).astype(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inner", [1, 3, 16])
def test_elements_of_every_width(kind: str, inner: int, device: host.HostDriver) -> None:
    """Moved in units of 1 to 16 bytes."""
    x = numbers(7, inner, kind=kind)
    i = rng().integers(-7, 7, (2, 3))
    np.testing.assert_array_equal(run(KERNELS, "Gather", [x, i])[0], x[i])
    assert device.launched


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_axes_and_types_of_indices(axis: int, kind: str) -> None:
    """Negative indices count from the end."""
    check(KERNELS, "Gather", [numbers(4, 5, 6), rng().integers(-4, 4, (3,)).astype(kind)], axis=axis)


def test_a_single_constant_index_is_a_view(device: host.HostDriver) -> None:
    check(KERNELS, "Gather", [numbers(4, 5), np.array(2)], constants=(1,))
    assert not device.launched


@pytest.mark.parametrize("index", [5, -6])
def test_an_index_out_of_range(index: int) -> None:
    """Is raised when the stream was waited for; the next run is not concerned."""
    x = numbers(5, 2)
    with pytest.raises(KernelInputError, match=f"Index {index} is out of range for axis of size 5"):
        run(KERNELS, "Gather", [x, np.array([0, index])])
    np.testing.assert_array_equal(run(KERNELS, "Gather", [x, np.array([0, 4])])[0], x[[0, 4]])


def test_an_empty_axis() -> None:
    with pytest.raises(KernelInputError, match="Index 0 is out of range for axis of size 0"):
        run(KERNELS, "Gather", [numbers(0, 2), np.array([0, 0])])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_single_elements(axis: int) -> None:
    """The index's own place in the other axes, where it may be shorter."""
    shape = [3, 4, 5]
    shape[axis] = 6
    check(KERNELS, "GatherElements", [numbers(3, 4, 5), rng().integers(-3, 3, shape)], axis=axis)


def test_shorter_indices() -> None:
    """They leave out the ends of other axes."""
    x, i = numbers(4, 5), rng().integers(0, 5, (2, 3))
    np.testing.assert_array_equal(
        run(KERNELS, "GatherElements", [x, i], axis=1)[0], np.take_along_axis(x[:2], i, axis=1)
    )


def test_single_elements_out_of_range() -> None:
    with pytest.raises(KernelInputError, match="Index 9 is out of range"):
        run(KERNELS, "GatherElements", [numbers(3, 4), np.full((3, 4), 9)])


def test_indices_that_do_not_fit() -> None:
    with pytest.raises(InvalidArgument, match="The indices do not fit the data beside axis 0"):
        run(KERNELS, "GatherElements", [numbers(3, 4), np.zeros((3, 5), np.int64)])


@pytest.mark.parametrize(
    ("data", "indices", "batch_dims"),
    [((4, 5, 6), (3, 2), 0), ((4, 5, 6), (2, 3, 3), 0), ((4, 5, 6), (4, 2), 1), ((2, 3, 4, 5), (2, 3, 2, 1), 2)],
)
def test_tuples(data: tuple[int, ...], indices: tuple[int, ...], batch_dims: int) -> None:
    i = rng().integers(-2 if batch_dims == 0 else 0, 3, indices)
    check(KERNELS, "GatherND", [numbers(*data), i], batch_dims=batch_dims)


def test_tuples_out_of_range() -> None:
    """With the index and the size of its axis."""
    with pytest.raises(KernelInputError, match="Index -6 is out of range for axis of size 5"):
        run(KERNELS, "GatherND", [numbers(4, 5), np.array([[0, 0], [1, -6]])])
