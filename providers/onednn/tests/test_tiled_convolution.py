"""ConvTranspose whose windows lie side by side: the same results as onnxruntime, from a product of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.testing.tolerances import assert_close
from ort_py_onednn.execution import region
from ort_py_onednn.execution.plan import Plan
from providers.onednn.tests.models import model, node, run_here, run_plain

RNG = np.random.default_rng(2)


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


def _network(channels: int, kernel: tuple[int, int], *, bias: bool = True, **attributes: Any) -> tuple[bytes, Any]:
    """A convolution, whose result has its channels innermost, and the transpose behind it with an activation."""
    feeds = {"x": _f(2, 16, 9, 7)}
    constants = {"w": _f(24, 16, 3, 3) / 8, "v": _f(24, channels, *kernel) / 4, "b": _f(channels)}
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("ConvTranspose", "a v b" if bias else "a v", "c", strides=list(kernel), **attributes),
        node("Relu", "c", "y"),
    ]
    if not bias:
        del constants["b"]
    return model(nodes, feeds, constants), feeds


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Every plan that is made."""
    found: list[Plan] = []
    original = region.DnnlRegion._planned

    def planned(self: region.DnnlRegion, *arguments: Any) -> Plan:
        found.append(original(self, *arguments))
        return found[-1]

    monkeypatch.setattr(region.DnnlRegion, "_planned", planned)
    return found


def _implementations(plan: Plan) -> str:
    return " ".join(step.primitive.implementation for step in plan.steps if step.primitive is not None)


@pytest.mark.parametrize("channels", [1, 3, 8, 24])
@pytest.mark.parametrize("kernel", [(2, 2), (2, 4), (3, 1)])
@pytest.mark.parametrize("bias", [False, True])
def test_results_are_those_of_the_definition(channels: int, kernel: tuple[int, int], bias: bool) -> None:
    """For few and many channels, square tiles and others, with a bias and without."""
    data, feeds = _network(channels, kernel, bias=bias)
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])


@pytest.mark.parametrize("channels", [1, 24])
def test_it_is_a_product(plans: list[Plan], channels: int) -> None:
    """No convolution against its stride is left, and the activation is in the product."""
    data, feeds = _network(channels, (2, 2))
    run_here(data, feeds)
    assert "strided" not in _implementations(plans[0])
    assert "brg:" in _implementations(plans[0])


@pytest.mark.parametrize("attributes", [{"pads": [1, 0, 0, 1]}, {"output_padding": [1, 1]}, {"dilations": [2, 2]}])
def test_other_windows_stay_convolutions(attributes: dict[str, Any]) -> None:
    """Where something is cut off, added or left between."""
    data, feeds = _network(8, (2, 2), **attributes)
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])


def test_many_channels_stay_a_convolution(plans: list[Plan]) -> None:
    """It is as fast."""
    data, feeds = _network(64, (2, 2))
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])
    assert "conv" in _implementations(plans[0]).split()[-1] or "strided" in _implementations(plans[0])
