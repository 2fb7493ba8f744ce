"""Kernels of a session with a time limit: where calls are cut, and what becomes of constants and given arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.tests.driving import HostProvider
from ort_py.contracts import KernelDef
from ort_py.errors import LimitError
from ort_py.kernels.binding import BoundKernel, bind_kernel
from ort_py.kernels.services import KernelServices
from ort_py.limits import Limits, checking_time
from ort_py_kit.kernel_runner import make_node_spec

pytestmark = pytest.mark.quick

TIMED = KernelServices(timed=True)
X = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)


class Recorder:
    """A kernel that notes the shapes of its first input."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, x: Any, *others: Any) -> Any:
        self.shapes.append(x.shape)
        return self.function(x, *others)


def bound(
    kernel: Recorder, op_type: str, inputs: list[Any], services: KernelServices = TIMED, **options: Any
) -> BoundKernel:
    """The kernel, bound to a node of an operator."""
    attributes, constants = options.pop("attributes", {}), options.pop("constants", {})
    spec = make_node_spec(op_type, inputs, attributes=attributes)
    return bind_kernel(spec, KernelDef(op_type, lambda _ctx: kernel, **options), HostProvider([]), services, constants)


def nobody(ahead: float = 0.0) -> None:
    """A check that lets everything pass."""


def test_an_element_wise_call_is_cut() -> None:
    """The blocks make up the result of one call."""
    kernel = Recorder(np.sqrt)
    with checking_time(nobody):
        result = bound(kernel, "Sqrt", [X]).call(X)
    np.testing.assert_array_equal(result, np.sqrt(X))
    assert len(kernel.shapes) > 1
    assert sum(rows for rows, _ in kernel.shapes) == 1024


def test_without_a_limit_nothing_is_cut() -> None:
    kernel = Recorder(np.sqrt)
    bound(kernel, "Sqrt", [X], KernelServices()).call(X)
    assert kernel.shapes == [X.shape]


def test_the_call_ends_between_blocks() -> None:
    """The clock is looked at before each block; the rest is not begun."""
    kernel = Recorder(np.sqrt)

    def over(ahead: float = 0.0) -> None:
        if kernel.shapes:
            raise LimitError("over")

    with checking_time(over), pytest.raises(LimitError):
        bound(kernel, "Sqrt", [X]).call(X)
    assert len(kernel.shapes) == 1


def test_operands_broadcast() -> None:
    """Every block gets the entry of an operand that has one along the cut axis."""
    kernel, column, row = Recorder(np.add), X[:, :1].copy(), X[:1].copy()
    with checking_time(nobody):
        result = bound(kernel, "Add", [column, row]).call(column, row)
    np.testing.assert_array_equal(result, column + row)
    assert len(kernel.shapes) > 1


def test_a_constant_is_never_cut() -> None:
    """The kernel may have prepared its content."""
    kernel = Recorder(np.add)
    with checking_time(nobody):
        bound(kernel, "Add", [X, X], constants={1: X}).call(X, X)
    assert kernel.shapes == [X.shape]


def test_a_given_array_is_written_to() -> None:
    kernel, out = Recorder(np.sqrt), np.zeros_like(X)
    into = bound(kernel, "Sqrt", [X], out=True).into
    assert into is not None
    with checking_time(nobody):
        assert into(X, out) is out
    np.testing.assert_array_equal(out, np.sqrt(X))
    assert len(kernel.shapes) > 1


def test_the_reduced_axis_stays_whole() -> None:
    """Rows are reduced in blocks of rows, though the rows are longer."""
    kernel, wide = Recorder(lambda x: x.max(axis=1)), X.reshape(512, 2048)
    attributes = {"axes": (1,), "keepdims": 0}
    with checking_time(nobody):
        result = bound(kernel, "ReduceMax", [wide], attributes=attributes).call(wide)
    np.testing.assert_array_equal(result, wide.max(axis=1))
    assert len(kernel.shapes) > 1
    assert {columns for _, columns in kernel.shapes} == {2048}


def test_the_limit_of_one_allocation_holds_for_the_whole() -> None:
    """Blocks do not hide how large the result is."""
    kernel = Recorder(lambda x: x.astype(np.float64))
    services = KernelServices(Limits(single_allocation_bytes=5 << 20), timed=True)
    with checking_time(nobody), pytest.raises(LimitError, match="allocation"):
        bound(kernel, "Cast", [X], services, attributes={"to": 11}).call(X)
    assert len(kernel.shapes) == 1


def test_a_kernel_that_wants_contiguous_inputs_gets_them() -> None:
    """Blocks of an axis that is not the first are copied for it."""
    seen: list[bool] = []

    def function(x: Any) -> Any:
        seen.append(x.flags.c_contiguous)
        return np.sqrt(x)

    flat = X.reshape(2, -1)
    with checking_time(nobody):
        result = bound(Recorder(function), "Sqrt", [flat]).call(flat)
    np.testing.assert_array_equal(result, np.sqrt(flat))
    assert len(seen) > 1
    assert all(seen)
