"""Weights behind DequantizeLinear become floating-point constants for providers that compute with those alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators
from ort_py.contracts import GraphView, IExecutionProvider
from ort_py.graph.ir import Model
from ort_py.transforms.elimination.unused import EliminateDeadCode
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.quantization.dequantized_weights import DequantizeWeights
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.fake_provider import FakeBehaviour, FakeProvider
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model
from ort_py_kit.tolerances import assert_close

QUANTISED = """g (float[2, 2] x) => (float[2, 3] y)
    <int8[2, 3] w = {1, -2, 3, -4, 5, 127}, float[3] s = {0.5, 0.25, 2}, int8[3] z = {0, 1, -1}> {
    weight = DequantizeLinear <axis = 1> (w, s, z)
    y = MatMul (x, weight)
}"""
X = np.array([[1, -2], [0.5, 3]], np.float32)


def _run(
    text: str, *, wishes: bool = True, claimed: Collection[str] = ("DequantizeLinear", "MatMul"), room: int = 1000
) -> tuple[Model, OptimisationReport]:
    """Optimise for a provider that claims the nodes of some operators, with so many bytes for constants."""
    provider = FakeProvider(behaviour=FakeBehaviour(dequantizes_constants=wishes))

    def runners(view: GraphView, names: Collection[str]) -> Mapping[str, IExecutionProvider]:
        return {node.name: provider for node in view.nodes if node.op_type in claimed}

    model = typed_model(text)
    rules = [DequantizeWeights(runners), EliminateDeadCode()]
    return model, run_transforms(model, rules, 99, ReferenceContext(room), check=True)


def test_weights_become_floating_point() -> None:
    """Scales and zero points of columns included; the integers are gone."""
    model, report = _run(QUANTISED)
    assert operators(model) == {"MatMul": 1}
    (weight,) = model.graph.initializers.values()
    assert weight.weight is not None
    np.testing.assert_array_equal(weight.weight.array(), np.array([[0.5, -0.75, 8], [-2, 1, 256]], np.float32))
    assert_close(reference_run(model, {"x": X})[0], reference_run(model_from_text(QUANTISED), {"x": X})[0])
    assert next(one for one in report.passes if one.name == "ConstantFoldingDQ").changes == 1


def test_in_nested_graphs_too() -> None:
    """Weights of a branch are constants like any other."""
    model, _ = _run(
        """g (bool c, float[2] x) => (float[2] y) <int8[2] w = {1, 2}, float s = {0.5}> {
        y = If (c) <
            then_branch = a () => (float[2] p) { d = DequantizeLinear (w, s) p = Mul (x, d) },
            else_branch = b () => (float[2] q) { q = Neg (x) }
        >
    }"""
    )
    assert operators(model)["DequantizeLinear"] == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (QUANTISED.replace("(float[2, 3] y)", "(float[2, 3] y, float[2, 3] weight)"), "the graph returns its result"),
        (QUANTISED.replace("int8[2, 3] w = {1, -2, 3, -4, 5, 127},", "").replace("x) =>", "x, int8[2, 3] w) =>"), ""),
    ],
    ids=["returned", "fed"],
)
def test_what_is_no_weight_stays(text: str, reason: str) -> None:
    """A result that the caller wants, and integers that the caller feeds."""
    model, report = _run(text)
    assert operators(model)["DequantizeLinear"] == 1
    assert reason in notes(report)


def test_who_computes_in_integers_keeps_them() -> None:
    """The provider's wish decides, and that it would run the node."""
    assert operators(_run(QUANTISED, wishes=False)[0])["DequantizeLinear"] == 1
    assert operators(_run(QUANTISED, claimed=("MatMul",))[0])["DequantizeLinear"] == 1


def test_no_more_than_the_limits_allow() -> None:
    """Floating-point weights are four times as large."""
    model, report = _run(QUANTISED, room=23)
    assert operators(model)["DequantizeLinear"] == 1
    assert "its result has 24 bytes, more than constants may grow by" in notes(report)
