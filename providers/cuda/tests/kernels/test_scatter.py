"""ScatterElements and ScatterND in generated code, run on the host."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument, KernelInputError
from ort_py_cuda import settings
from ort_py_cuda.kernels.scatter import KERNELS
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.kernels.generated import check, check_with_library, run


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host."""
    return host.install(monkeypatch)


def numbers(*shape: int, kind: str = "float32") -> np.ndarray[Any, Any]:
    return rng().integers(0, 9, shape).astype(kind)


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "uint16", "int64", "float64", "bool", "complex128"])
def test_replaced_elements(kind: str) -> None:
    """Elements have every width; each place occurs once, because the order of several updates is open."""
    i = np.array([rng().permutation(6)[:4] for _ in range(3)]) - 6
    check_with_library(KERNELS, "ScatterElements", [numbers(3, 6, kind=kind), i, numbers(3, 4, kind=kind)], axis=1)


REDUCED = ("float32", "float16", "float64", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")


@pytest.mark.parametrize("kind", REDUCED)
@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
def test_combined_elements(reduction: str, kind: str, device: host.HostDriver) -> None:
    """Several updates of one element all count."""
    x, updates = numbers(3, 5, kind=kind), numbers(6, 5, kind=kind)
    i = rng().integers(-3, 3, (6, 5))
    check_with_library(KERNELS, "ScatterElements", [x, i, updates], axis=0, reduction=reduction)
    assert device.launched


def test_not_a_number_wins() -> None:
    x, i = np.zeros((4,), np.float32), np.array([0, 0, 1, 2])
    updates = np.array([np.nan, 1, -np.inf, np.inf], np.float32)
    for reduction in ("min", "max"):
        with np.errstate(invalid="ignore"):  # what the library compares
            check_with_library(KERNELS, "ScatterElements", [x, i, updates], reduction=reduction)


def test_bfloat16_is_summed_in_float32() -> None:
    """A thousand ones are a thousand."""
    import ml_dtypes

    updates = np.ones((1000,), ml_dtypes.bfloat16)
    found = run(
        KERNELS,
        "ScatterElements",
        [np.zeros((1,), ml_dtypes.bfloat16), np.zeros((1000,), np.int64), updates],
        reduction="add",
    )
    assert float(found[0][0]) == 1000


@pytest.mark.parametrize(("reduction", "wanted"), [("add", [1 + 3 + 5, 2 + 7, 4]), ("mul", [15, 14, 4])])
def test_what_must_not_depend_on_timing_is_the_librarys(
    reduction: str, wanted: list[int], device: host.HostDriver
) -> None:
    """The library's kernel runs where the session asks for determinism."""
    inputs = [np.array([1, 2, 4], np.float32), np.array([0, 0, 1]), np.array([3, 5, 7], np.float32)]
    for operator, indices in (("ScatterElements", inputs[1]), ("ScatterND", inputs[1][:, None])):
        given = [inputs[0], indices, inputs[2]]
        call = partial(run, KERNELS, operator, given, reduction=reduction)
        found = settings.applied(settings.Settings(deterministic=True), call)
        np.testing.assert_array_equal(found[0], wanted)
    assert not device.launched


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_slices(reduction: str, kind: str) -> None:
    """Where tuples say, each as wide as the axes they leave."""
    i = np.array([[0, 1], [3, -1], [2, 2]])
    check(KERNELS, "ScatterND", [numbers(4, 5, 6, kind=kind), i, numbers(3, 6, kind=kind)], reduction=reduction)


def test_an_index_out_of_range() -> None:
    """Is raised when the stream was waited for."""
    inputs = [numbers(3), np.array([0, 3]), numbers(2)]
    with pytest.raises(KernelInputError, match="Index 3 is out of range for axis of size 3"):
        run(KERNELS, "ScatterElements", inputs)
    with pytest.raises(KernelInputError, match="Index -4 is out of range"):
        run(KERNELS, "ScatterND", [numbers(3), np.array([[-4]]), numbers(1)])


def test_updates_that_do_not_fit() -> None:
    with pytest.raises(InvalidArgument, match="Updates and indices must have one shape"):
        run(KERNELS, "ScatterElements", [numbers(3), np.array([0, 1]), numbers(3)])


def test_no_updates(device: host.HostDriver) -> None:
    x = numbers(3)
    found = run(KERNELS, "ScatterElements", [x, np.zeros((0,), np.int64), numbers(0)])
    np.testing.assert_array_equal(found[0], x)
    assert not device.launched
