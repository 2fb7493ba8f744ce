"""Weights of few bits with a scale a block: results are as far from the exact ones as rounding rows to 8 bits and
scales to bfloat16 explains, and no further."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from ort_py_xnnpack.execution.region import XnnpackRegion
from providers.xnnpack.tests.models import PROVIDER, model, node, open_session, run_here, run_plain

Array = np.ndarray[Any, Any]
DEPTH, COLUMNS = 256, 40


class _Product(NamedTuple):
    """A model, what it stands for, and how far XNNPACK may be off.

    Attributes:
        data: The model.
        real: The weights as they are, (columns, depth).
        read: The weights as XNNPACK's products of integers read them, before zero points.
        bias: What is added.
    """

    data: bytes
    real: Array
    read: Array
    bias: Array

    def check(self, x: Array, found: Array) -> None:
        """Compare a result with the exact one.

        Raises:
            AssertionError: It is further away than two roundings explain.
        """
        rows = x.reshape(-1, DEPTH).astype(np.float64)
        step = (np.maximum(rows.max(-1), 0) - np.minimum(rows.min(-1), 0)) / 255
        allowed = 0.51 * step[:, None] * np.abs(self.read).sum(-1)
        allowed += 2.0**-9 * np.abs(rows) @ np.abs(self.read).T + 1e-5
        exact = rows @ self.real.T + self.bias
        assert (np.abs(found.reshape(exact.shape) - exact) <= allowed).all()


def _product(
    bits: int = 4, size: int = 32, zeros: str = "", signs: str = "positive", bias: bool = False, level: int = 4
) -> _Product:
    rng = np.random.default_rng(11)
    count = DEPTH // size
    packed = rng.integers(0, 256, (COLUMNS, count, size * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.005, 0.02, (COLUMNS, count)).astype(np.float32)
    if signs == "both":
        scales *= rng.choice([-1, 1], scales.shape).astype(np.float32)
    if signs == "zero":
        scales[:, 0] = 0
    constants: dict[str, Array] = {"b": packed, "s": scales.reshape(-1)}
    integers = packed.reshape(COLUMNS, -1).astype(np.float64)
    middle = np.full((COLUMNS, count), float(1 << (bits - 1)))
    if bits == 4:
        integers = np.stack([packed & 15, packed >> 4], -1).reshape(COLUMNS, -1).astype(np.float64)
    if zeros == "packed":
        held = rng.integers(0, 256, (COLUMNS, -(-count * bits // 8))).astype(np.uint8)
        constants["z"] = held.reshape(-1)
        middle = (held if bits == 8 else np.stack([held & 15, held >> 4], -1).reshape(COLUMNS, -1)[:, :count]) * 1.0
    if zeros == "float":
        middle = rng.uniform(0, 1 << bits, (COLUMNS, count)).astype(np.float32)
        constants["z"] = middle.reshape(-1)
    if bias:
        constants["c"] = rng.standard_normal(COLUMNS).astype(np.float32)
    names = f"x b s {'z' if zeros else '-'} - {'c' if bias else '-'}".rstrip(" -")
    settings: dict[str, Any] = {"K": DEPTH, "N": COLUMNS, "bits": bits, "block_size": size, "accuracy_level": level}
    made = node("MatMulNBits", names, domain="com.microsoft", **settings)
    blocks = integers.reshape(COLUMNS, count, size)
    taken = 8 if bits == 4 else 136
    factors = scales[:, :, None].astype(np.float64)
    counted = np.where(factors < 0, ((1 << bits) - 1) - blocks, blocks) - taken
    return _Product(
        model([made], {"x": np.zeros((1, 3, DEPTH), np.float32)}, constants, dynamic=False),
        ((blocks - middle[:, :, None]) * factors).reshape(COLUMNS, DEPTH),
        (counted * np.abs(factors)).reshape(COLUMNS, DEPTH),
        constants.get("c", np.zeros(COLUMNS)),
    )


def _rows(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return rng.normal(0.3, 1, (*shape, DEPTH)).astype(np.float32)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"size": 128},
        {"zeros": "packed"},
        {"zeros": "float"},
        {"signs": "both"},
        {"signs": "zero"},
        {"bias": True},
        {"zeros": "packed", "signs": "both", "bias": True},
    ],
    ids=str,
)
def test_results(bits: int, form: dict[str, Any]) -> None:
    product = _product(bits, **form)
    x = _rows(1, 3)
    (found,) = run_here(product.data, {"x": x})
    product.check(x, found)


def test_several_threads() -> None:
    product, x = _product(), _rows(1, 3)
    (found,) = run_here(product.data, {"x": x}, threads=3)
    product.check(x, found)


def _open(product: _Product) -> bytes:
    """The same model for any number of rows."""
    import onnx

    made = onnx.load_from_string(product.data)
    for place, axis in enumerate(made.graph.input[0].type.tensor_type.shape.dim[:2]):
        axis.dim_param = f"n{place}"
    return made.SerializeToString()


def test_any_number_of_rows_with_one_description(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region is described once, when it is compiled, and reshaped for each run."""
    described: list[Any] = []
    made = XnnpackRegion._made

    def counted(self: XnnpackRegion, *arguments: Any) -> Any:
        described.append(arguments)
        return made(self, *arguments)

    monkeypatch.setattr(XnnpackRegion, "_made", counted)
    product = _product(zeros="float")
    with open_session(_open(product)) as session:
        for shape in ((1, 1), (1, 16), (3, 5), (1, 1), (2, 70)):
            x = _rows(*shape)
            product.check(x, session.run(None, {"x": x})[0])
    assert len(described) == 1


def test_rows_that_are_not_finite_are_computed_elsewhere() -> None:
    """Rounding to 8 bits would lose them."""
    product, x = _product(), _rows(1, 3)
    x[0, 1, 7] = np.nan
    with open_session(product.data) as session:
        (found,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(np.isnan(found), np.isnan(run_plain(product.data, {"x": x})[0]))
        assert "declined 1 run(s)" in session.plan


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"level": 0}, "its accuracy_level is 0"),
        ({"level": 1}, "its accuracy_level is 1"),
        ({"size": 16}, "its blocks have 16 numbers"),
    ],
    ids=str,
)
def test_a_refusal_says_why(form: dict[str, Any], reason: str) -> None:
    with open_session(_product(**form).data) as session:
        (placed,) = session.placement.nodes
        assert placed.provider != PROVIDER
        assert reason in str(placed.refusals)


def test_it_assists_with_nothing_else() -> None:
    """With `few_bits_only`, products of float32 are left to others."""
    data = model([node("MatMul", "x w")], {"x": _rows(1, 3)}, {"w": np.ones((DEPTH, 8), np.float32)})
    with open_session(data, few_bits_only=True) as session:
        (placed,) = session.placement.nodes
        assert "with which alone XNNPACK assists" in str(placed.refusals)
