"""Products of float8 in sessions: which nodes the provider takes, captured or not, and why it leaves others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.contracts import FunctionRegion, RegionView
from ort_py_cuda import float8, libraries
from providers.cuda.tests.capture.capturing import CapturingModule
from providers.cuda.tests.stand_in.machine import Machine

from .models import product


def _session(made: Any, **options: Any) -> ort_py.InferenceSession:
    settings = ort_py.SessionOptions()
    settings.cost_model = "always"
    settings.pin_cpu = True
    settings.cache_dir = "off"
    providers: list[Any] = [("CUDAExecutionProvider", options), "CPUExecutionProvider"]
    return ort_py.InferenceSession(made.SerializeToString(), settings, providers, enable_fallback=0)


@pytest.fixture
def compiled(use_machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> list[RegionView]:
    """Regions compiled on a machine that multiplies float8. The stand-in runs no machine code, so results are zeros."""
    found: list[RegionView] = []

    def compile_region(region: RegionView, xp: Any) -> FunctionRegion:
        found.append(region)
        return FunctionRegion(lambda x: [xp.zeros((*x.shape[:-1], 10), x.dtype)])

    use_machine(Machine(capability=90), CapturingModule)
    monkeypatch.setattr("ort_py_cuda.capture.runs.host_work", lambda graph, driver: None)
    monkeypatch.setattr(libraries, "load", lambda name: None)
    monkeypatch.setattr(float8, "compile_region", compile_region)
    return found


@pytest.mark.parametrize("graphs", [False, True])
def test_whole_products_are_taken(compiled: list[RegionView], graphs: bool) -> None:
    """Float8 weights come through the core's transforms, and the region is compiled as one; inside of a graph too."""
    made = product(last="v = MatMul (xd, wd) y = Relu (v)")
    with _session(made, enable_cuda_graph=graphs) as session:
        assert {node.provider for node in session.placement.nodes} == {"CUDAExecutionProvider"}
        assert [node.op_type for node in compiled[0].nodes if "Linear" not in node.op_type] == ["MatMul"]
        assert len(compiled[0].nodes) == 4
        for _ in range(3):
            (y,) = session.run(None, {"x": np.ones((3, 20), np.float32)})
            assert y.shape == (3, 10)


def test_older_hardware_says_why(use_machine: Callable[[Machine], Any]) -> None:
    """The conversions run on the processor, the product on the GPU."""
    use_machine(Machine(capability=80))
    with _session(product()) as session:
        shown = {node.op_type: (node.provider, str(node)) for node in session.placement.nodes}
    assert shown["MatMul"][0] == "CUDAExecutionProvider"
    assert shown["QuantizeLinear"][0] == "CPUExecutionProvider"
    assert "products of float8 need compute capability 8.9" in shown["QuantizeLinear"][1]
