"""Steps in parts: each part is seen once, whatever its axis, and a host input of very many sizes is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_array import checks, parts
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec


class _Cutting(LocalKernelContext):
    """Splits rows into parts of the least size."""

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        for start in range(0, rows, grain):
            fn(start, min(start + grain, rows))


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch) -> _Cutting:
    """A context for which a part has a few elements."""
    monkeypatch.setattr(parts, "LARGE_PART", 8)
    return _Cutting(make_node_spec("Identity", [np.zeros(1, np.float32)]))


SHAPES = [(37,), (2, 19), (19, 2), (3, 1, 11), (1, 1, 50)]


@pytest.mark.parametrize("shape", SHAPES)
def test_operands_broadcast(ctx: _Cutting, shape: tuple[int, ...]) -> None:
    """Operands of fewer axes, and of one entry along the axis that is cut, belong to every part."""
    rng = np.random.default_rng(1)
    x, row, one = rng.random(shape), rng.random(shape[-1:]), rng.random((1,) * len(shape))

    def step(out: Any, *inputs: Any) -> None:
        out[...] = inputs[0] * inputs[1] + inputs[2]

    out = np.empty(shape)
    assert parts.by_parts(ctx, step, out, x, row, one) is out
    np.testing.assert_array_equal(out, x * row + one)


@pytest.mark.parametrize("shape", SHAPES)
def test_types_are_converted(ctx: _Cutting, shape: tuple[int, ...]) -> None:
    """Halves are widened and rounded as NumPy does it."""
    x = np.random.default_rng(2).random(shape).astype(np.float16)
    np.testing.assert_array_equal(parts.widened_by_parts(ctx, x), x.astype(np.float32))
    np.testing.assert_array_equal(parts.converted(ctx, x, np.float64), x.astype(np.float64))
    y = x.astype(np.float32) / 3
    np.testing.assert_array_equal(parts.rounded_by_parts(ctx, y, np.dtype(np.float16)), y.astype(np.float16))


@pytest.mark.parametrize("shape", SHAPES)
def test_elements_are_taken(ctx: _Cutting, shape: tuple[int, ...]) -> None:
    """Along each axis, with more places and with fewer than it has."""
    x = np.random.default_rng(3).random(shape)
    for axis, size in enumerate(shape):
        for count in (1, 40):
            indices = np.random.default_rng(4).integers(0, size, count)
            np.testing.assert_array_equal(parts.taken(ctx, x, indices, axis), np.take(x, indices, axis))


def test_very_many_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would become a Python object."""
    monkeypatch.setattr(checks, "_MOST_INTEGERS", 4)
    assert checks.host_ints(np.arange(4)) == (0, 1, 2, 3)
    with pytest.raises(InvalidArgument, match="5 numbers were given for a list of sizes or axes"):
        checks.host_ints(np.arange(5))
