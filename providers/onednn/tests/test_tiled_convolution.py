"""ConvTranspose whose windows lie side by side: the same results as onnxruntime, from a product of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.primitive import Primitive
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
def test_it_is_a_product(monkeypatch: pytest.MonkeyPatch, plans: list[Plan], channels: int) -> None:
    """One product with the activation in it, and nothing else is computed; the input has its channels innermost,
    which not every processor's convolutions write."""
    products: list[Primitive] = []
    matmul = primitives.matmul

    def noted(*arguments: Any) -> Primitive:
        products.append(matmul(*arguments))
        return products[-1]

    monkeypatch.setattr(primitives, "matmul", noted)
    feeds = {"x": _f(2, 9, 7, 24)}
    nodes = [
        node("Transpose", "x", "a", perm=[0, 3, 1, 2]),
        node("ConvTranspose", "a v b", "c", strides=[2, 2]),
        node("Relu", "c", "y"),
    ]
    data = model(nodes, feeds, {"v": _f(24, channels, 2, 2) / 4, "b": _f(channels)})
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])
    ran = [step.primitive for step in plans[0].steps if step.primitive is not None]
    assert [one for one in ran if one in products] == products[-1:]
    assert all(one in products or Argument.WEIGHTS not in one.arguments for one in ran)
    assert "Relu" not in {step.title for step in plans[0].steps}


@pytest.mark.parametrize("attributes", [{"pads": [1, 0, 0, 1]}, {"output_padding": [1, 1]}, {"dilations": [2, 2]}])
def test_other_windows_stay_convolutions(attributes: dict[str, Any]) -> None:
    """Windows that cut something off, add something or leave something between."""
    data, feeds = _network(8, (2, 2), **attributes)
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])


def test_many_channels_stay_a_convolution(plans: list[Plan]) -> None:
    data, feeds = _network(64, (2, 2))
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])
    assert "conv" in _implementations(plans[0]).split()[-1] or "strided" in _implementations(plans[0])
