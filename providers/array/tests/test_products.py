"""Large products are cut into parts; what comes out is the product, whatever was cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_py_array.products import product


class Context:
    """The parts of a kernel's context that products use; counts the parts and runs them last first."""

    xp: Any = np

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.parts = 0

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        """Split rows like the engine."""
        self.parts = max(1, min(self.threads, rows // max(1, grain)))
        for part in reversed(range(self.parts)):
            fn(rows * part // self.parts, rows * (part + 1) // self.parts)


SHAPES = [
    ((512, 512), (512, 512)),
    ((300, 200), (200, 333)),
    ((13, 1200), (1200, 1301)),
    ((1, 4096), (4096, 4096)),
    ((4096, 4096), (4096, 1)),
    ((8, 100, 128), (8, 128, 120)),
    ((1, 12, 128, 64), (1, 12, 64, 128)),
    ((100, 128), (8, 128, 120)),
    ((8, 100, 128), (128, 120)),
    ((2, 1, 300, 100), (3, 100, 300)),
    ((8, 1, 64, 256), (1, 9, 256, 64)),
    ((1, 700, 300), (1, 300, 100)),
    ((2, 3000), (3000, 3000)),
]


@pytest.mark.parametrize("threads", [2, 3, 16])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_a_product_in_parts(left: tuple[int, ...], right: tuple[int, ...], threads: int) -> None:
    """Rows, columns and leading axes, broadcast ones too; also into a given array."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(left).astype(np.float32), rng.standard_normal(right).astype(np.float32)
    ctx: Any = Context(threads)
    y = product(ctx, a, b)
    assert ctx.parts > 1
    np.testing.assert_allclose(y, a @ b, rtol=1e-4, atol=1e-3)
    out = np.full_like(y, np.nan)
    assert product(ctx, a, b, out) is out
    np.testing.assert_array_equal(out, y)


def test_integers_and_transposed_operands() -> None:
    """Exact sums, and views whose rows lie apart."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (700, 300)).astype(np.int32), rng.integers(-9, 9, (500, 300)).astype(np.int32)
    ctx: Any = Context(3)
    np.testing.assert_array_equal(product(ctx, a, b.T), a @ b.T)
    np.testing.assert_array_equal(product(ctx, b, a.T), b @ a.T)


@pytest.mark.parametrize(
    ("left", "right"), [((64, 64), (64, 64)), ((5000, 3000), (3000,)), ((3000,), (3000, 5000)), ((0, 3), (3, 4))]
)
def test_small_products_and_vectors_stay_whole(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """They go to the array module as they are."""
    ctx: Any = Context(4)
    y = product(ctx, np.ones(left, np.float32), np.ones(right, np.float32))
    assert ctx.parts == 0
    np.testing.assert_array_equal(y, np.ones(left, np.float32) @ np.ones(right, np.float32))


@pytest.mark.parametrize(("left", "right"), [((300, 200), (300, 200)), ((3, 300, 200), (2, 200, 300))])
def test_operands_that_do_not_fit_are_refused(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """The array module refuses them."""
    ctx: Any = Context(2)
    with pytest.raises(ValueError, match=r"mismatch|broadcast"):
        product(ctx, np.ones(left, np.float32), np.ones(right, np.float32))
