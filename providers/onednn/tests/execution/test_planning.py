"""Planning of a region as its process sees it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from ort_py_onednn.execution.region import DnnlRegion
from providers.onednn.tests.models import model, node, open_session


def test_no_garbage_is_collected_while_a_region_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is made stays with the plan."""
    feeds = {"x": np.ones((64, 8), np.float32)}
    data = model([node("MatMul", "x w", "y")], feeds, {"w": np.ones((8, 8), np.float32)}, dynamic=True)
    states: list[bool] = []
    walked = DnnlRegion._walked

    def observed(self: DnnlRegion, *arguments: object) -> object:
        states.append(gc.isenabled())
        return walked(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(DnnlRegion, "_walked", observed)
    open_session(data).run(None, feeds)
    assert states == [False]
    assert gc.isenabled()
