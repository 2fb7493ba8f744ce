"""x · sigmoid(x) · y in models, as language models have it between two products: few numbers are one call."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.row_gates import RowGate, has_row_gates
from providers.onednn.tests.models import model, node, run_here


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("op_type", ["Sigmoid", "QuickGelu"])
def test_gates_of_few_numbers(op_type: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate is one call wherever there is code for it."""
    made: list[int] = []
    begin = RowGate.__init__

    def noted(self: RowGate, *arguments: object) -> None:
        made.append(1)
        begin(self, *arguments)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(RowGate, "__init__", noted)
    rng = np.random.default_rng(rows)
    x, u = ((4 * rng.standard_normal((1, rows, 96))).astype(np.float32) for _ in range(2))
    packed = rng.integers(0, 256, (96, 3, 16)).astype(np.uint8)
    constants: dict[str, np.ndarray] = {"w": packed, "c": np.full(96 * 3, 0.02, np.float32)}
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(96, 96).astype(np.int64) - 8
    weights = 0.02 * numbers.T
    settings = {"domain": "com.microsoft", "K": 96, "N": 96, "bits": 4, "block_size": 32}
    gate = [node("Sigmoid", "a", "s"), node("Mul", "a s", "g")]
    alpha = 1.0
    if op_type == "QuickGelu":
        gate, alpha = [node("QuickGelu", "a", "g", domain="com.microsoft", alpha=1.5)], 1.5
    nodes = [node("MatMulNBits", "x w c", "a", **settings), node("MatMulNBits", "u w c", "b", **settings)]
    nodes += [*gate, node("Mul", "g b", "y")]
    feeds = {"x": x, "u": u}
    (found,) = run_here(model(nodes, feeds, constants), feeds)
    a, b = (one.astype(np.float64) @ weights for one in (x, u))
    assert_close(found, (a / (1 + np.exp(-alpha * a)) * b).astype(np.float32))
    assert made or not has_row_gates(engine().library)
