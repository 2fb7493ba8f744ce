"""Planning of a region as its process sees it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from ort_py_onednn.execution import region
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


@pytest.mark.parametrize(("products", "released"), [(40, 2), (20, 0)])
def test_a_plan_of_many_primitives_gives_back_the_code_that_chose_them(
    products: int, released: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each product has a shape of its own, so that none has the code of another, or of another test."""
    calls: list[str] = []
    monkeypatch.setattr(region, "release", calls.append)
    rng = np.random.default_rng(21)
    widths = [16 + place for place in range(products + 1)]
    weights = {
        f"w{place}": rng.standard_normal((widths[place], widths[place + 1])).astype(np.float32)
        for place in range(products)
    }
    names = ["x", *[f"v{place}" for place in range(products - 1)], "y"]
    nodes = [node("MatMul", f"{names[place]} w{place}", names[place + 1]) for place in range(products)]
    feeds = {"x": np.ones((products + 210, 16), np.float32)}
    open_session(model(nodes, feeds, weights, dynamic=True)).run(None, feeds)
    assert len(calls) == released
