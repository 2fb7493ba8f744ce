"""Fusion: what is drawn into one operation, and what must stay by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.constants import Binary, Eltwise
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.execution.region import DnnlRegion
from ort_py_onednn.graph.functions import constant_operand, linear, merged
from ort_py_onednn.graph.operation import Combine, Operation
from providers.onednn.tests.models import model, node, open_session, run_plain

RNG = np.random.default_rng(7)
X = RNG.standard_normal((1, 8, 6, 6), np.float32)
W = RNG.standard_normal((8, 8, 3, 3), np.float32)


def _n(number: float | list[float]) -> np.ndarray[Any, Any]:
    return np.array(number, np.float32)


@pytest.fixture
def regions(monkeypatch: pytest.MonkeyPatch) -> list[DnnlRegion]:
    """Every region that is compiled."""
    found: list[DnnlRegion] = []
    original = DnnlRegion.__init__

    def remember(self: DnnlRegion, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        found.append(self)

    monkeypatch.setattr(DnnlRegion, "__init__", remember)
    return found


def _operations(
    regions: list[DnnlRegion], nodes: Sequence[NodeProto], outputs: Sequence[str] = ("y",), opset: int = 20
) -> tuple[Operation, ...]:
    """Operations of a model of nodes over X and W; its results are compared too."""
    constants: dict[str, np.ndarray[Any, Any]] = {"w": W, "three": _n(3), "six": _n(6), "sixes": _n([6]), "zero": _n(0)}
    used = {name for one in nodes for name in one.input}
    data = model(
        nodes, {"x": X}, {name: array for name, array in constants.items() if name in used}, outputs, opset=opset
    )
    with open_session(data) as session:
        for actual, wanted in zip(session.run(None, {"x": X}), run_plain(data, {"x": X}), strict=True):
            assert_close(actual, wanted)
    (region,) = regions
    return region.operations


def _algorithms(operation: Operation) -> list[int]:
    return [post.algorithm for post in operation.posts]


CONV = node("Conv", "x w", "c", pads=[1, 1, 1, 1])


def test_an_activation_goes_into_the_convolution(regions: list[DnnlRegion]) -> None:
    (only,) = _operations(regions, [CONV, node("Relu", "c", "y")])
    assert only.kind == "Conv"
    assert _algorithms(only) == [Eltwise.RELU]


def test_an_activation_of_a_value_that_others_read_stays(regions: list[DnnlRegion]) -> None:
    """The value before it is wanted."""
    found = _operations(regions, [CONV, node("Relu", "c", "y")], ["y", "c"])
    assert [one.kind for one in found] == ["Conv", "eltwise"]


@pytest.mark.parametrize(
    ("gate", "wanted"),
    [
        ([node("Sigmoid", "c", "g")], [Eltwise.SWISH]),
        ([node("HardSigmoid", "c", "g", alpha=1 / 6, beta=0.5)], [Eltwise.HARDSWISH]),
    ],
)
def test_a_gate_goes_in(regions: list[DnnlRegion], gate: list[NodeProto], wanted: list[int]) -> None:
    """x · σ(x) and its hard form are one function of the convolution's result."""
    (only,) = _operations(regions, [CONV, *gate, node("Mul", "c g", "y")])
    assert _algorithms(only) == wanted


RELU6 = [CONV, node("Add", "c three", "s"), node("Clip", "s zero six", "k"), node("Mul", "c k", "m")]


@pytest.mark.parametrize("divisor", ["six", "sixes"])
@pytest.mark.parametrize("opset", [13, 20])
def test_relu6_of_a_shifted_value_is_a_hard_swish(regions: list[DnnlRegion], opset: int, divisor: str) -> None:
    """x · clip(x + 3, 0, 6) / 6, as exporters write it; since opset 14 the core fuses it."""
    (only,) = _operations(regions, [*RELU6, node("Div", f"m {divisor}", "y")], opset=opset)
    assert _algorithms(only) == [Eltwise.HARDSWISH]


def test_relu6_that_is_divided_by_another_number_stays_divided(regions: list[DnnlRegion]) -> None:
    """It is HardSwish six times, and a quotient is not a product."""
    (only,) = _operations(regions, [*RELU6, node("Div", "m three", "y")], opset=13)
    assert _algorithms(only) == [Eltwise.HARDSWISH, Eltwise.LINEAR, Binary.DIV]


def test_a_residual_goes_into_the_later_convolution(regions: list[DnnlRegion]) -> None:
    """It runs where the sum stood, and reads what the other made."""
    nodes = [
        CONV,
        node("Conv", "x w", "d", pads=[2, 2, 2, 2], dilations=[2, 2]),
        node("Add", "c d", "s"),
        node("Relu", "s", "y"),
    ]
    found = _operations(regions, nodes)
    assert [one.kind for one in found] == ["Conv", "Conv"]
    assert isinstance(found[-1].posts[0], Combine)
    assert _algorithms(found[-1]) == [Binary.ADD, Eltwise.RELU]


def test_a_residual_that_is_read_again_is_not_written_over(regions: list[DnnlRegion]) -> None:
    """The sum reads it, and so does what comes later: the results are compared above."""
    nodes = [
        node("Relu", "x", "r"),
        node("Conv", "r w", "c", pads=[1, 1, 1, 1]),
        node("Add", "c r", "s"),
        node("Conv", "s w", "d", pads=[1, 1, 1, 1]),
        node("Add", "d r", "y"),
    ]
    assert [one.kind for one in _operations(regions, nodes)] == ["eltwise", "Conv", "Conv"]


def test_a_residual_that_is_the_input_is_not_written_over(regions: list[DnnlRegion]) -> None:
    """A convolution reads all of its input for each result."""
    nodes = [node("Relu", "x", "r"), node("Conv", "r w", "c", pads=[1, 1, 1, 1]), node("Add", "c r", "y")]
    assert len(_operations(regions, nodes)) == 2


def test_an_operand_that_is_larger_does_not_go_in(regions: list[DnnlRegion]) -> None:
    """A gate of one number per channel times the picture: the product is the picture's, not the gate's."""
    nodes = [
        node("GlobalAveragePool", "x", "p"),
        node("Conv", "p w1", "g"),
        node("Mul", "x g", "y"),
    ]
    data = model(nodes, {"x": X}, {"w1": W[:, :, :1, :1].copy()})
    with open_session(data) as session:
        assert_close(session.run(None, {"x": X}), run_plain(data, {"x": X}))
    (region,) = regions
    assert [one.kind for one in region.operations] == ["GlobalAveragePool", "Conv", "binary"]


def test_neighbouring_linear_functions_are_one() -> None:
    """And those that do nothing are none; what else may be merged is in `test_functions`."""
    assert merged([linear(2.0, 1.0), linear(3.0)], freely=True) == [linear(6.0, 3.0)]
    assert merged([linear(6.0), linear(1 / 6)], freely=True) == []
    relu = Function(Eltwise.RELU)
    assert merged([linear(2.0), relu, linear(0.5)]) == [linear(2.0), relu, linear(0.5)]


@pytest.mark.parametrize("algorithm", list(Binary)[:6])
@pytest.mark.parametrize("first", [True, False])
def test_a_number_makes_a_function_of_one_argument(algorithm: Binary, first: bool) -> None:
    """For all six functions of two arguments, on either side; infinities and a division by zero are left alone."""
    assert constant_operand(algorithm, 4.0, first=first) is not None
    assert constant_operand(algorithm, np.inf, first=first) is None
    if algorithm is Binary.DIV and not first:
        assert constant_operand(algorithm, 0.0, first=False) is None


def test_fused_operators_are_written_out() -> None:
    """Operators that the core's optimiser fuses are supported completely: no part is left to another provider."""
    data = model([CONV, node("Relu", "c", "y")], {"x": X}, {"w": W})
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    with ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]) as session:
        assert {one.provider for one in session.placement.nodes} == {"DnnlExecutionProvider"}
