"""Leftovers of other code in the processor's registers do not decide who answers a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_onednn.execution.instance import DnnlInstance
from providers.onednn.tests.models import model, node, open_session

_NAN = np.full((64, 64), np.nan, np.float32)


@pytest.fixture
def not_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """In front of oneDNN's calls, NumPy computes with vectors of NaN."""
    called = DnnlInstance.__call__

    def call(self: DnnlInstance) -> Any:
        for function in (np.add, np.multiply, np.maximum, np.matmul):
            function(_NAN, _NAN)
        np.sqrt(_NAN)
        return called(self)

    monkeypatch.setattr(DnnlInstance, "__call__", call)


def _drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.usefixtures("not_numbers")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("function", ["Relu", "Sigmoid"])
@pytest.mark.parametrize(
    ("x", "weights", "pads"),
    [
        (_drawn(1, 17, 9), _drawn(1, 17, 2), [1, 1]),
        (_drawn(1, 4, 3, 6, 3), _drawn(3, 4, 3, 2, 3), [1, 0, 1, 1, 1, 1]),
        (_drawn(2, 8, 6, 4, 3), _drawn(2, 8, 5, 1, 1), [0] * 6),
    ],
)
def test_few_channels(x: Any, weights: Any, pads: list[int], function: str, threads: int) -> None:
    """Convolutions whose channels do not fill a vector."""
    nodes = [node("Conv", "x w", "c", pads=pads), node(function, "c", "y")]
    with open_session(model(nodes, {"x": x}, {"w": weights}), threads) as session:
        for _ in range(3):
            session.run(None, {"x": x})
        assert "declined" not in session.plan


@pytest.mark.usefixtures("not_numbers")
def test_few_features() -> None:
    """A recurrent layer whose states do not fill one."""
    nodes = [node("LSTM", "x w r", "y", hidden_size=5)]
    weights = {"w": _drawn(1, 20, 9), "r": _drawn(1, 20, 5)}
    x = _drawn(1, 1, 9)
    with open_session(model(nodes, {"x": x}, weights)) as session:
        for _ in range(3):
            session.run(None, {"x": x})
        assert "declined" not in session.plan
