"""Sessions with fused nodes: whoever has the operator runs it, else the function it carries; the log; switches."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py
from core.tests.small_models import CPU, model_bytes
from ort_py.contracts import (
    IExecutionProvider,
    KernelContext,
    KernelDef,
    Level,
    Match,
    NodeTemplate,
    Op,
    PatternRule,
    ProviderFactory,
    SessionContext,
    Transform,
    TransformContext,
    kernel,
    kernel_defs,
)
from ort_py_kit.fake_provider import FakeFactory

NAME = "FusingExecutionProvider"
TEXT = """g (float[2, 3] x) => (float[2, 3] y) <float two = {2}> {
    ["positive"] a = Relu(x) ["scaled"] b = Mul(a, two) y = Neg(b)
}"""
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


class FuseScaledRelu(PatternRule):
    """Relu and a Mul with 2 become an operator that ONNX does not have."""

    name = "ScaledReluFusion"
    level = Level.EXTENDED
    patterns = (Op("Mul", Op("Relu", "x"), 2.0),)
    carries_function = True

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        return NodeTemplate("ScaledRelu", (match.name("x"),), (match.result,), domain="org.example")


@kernel("ScaledRelu", domain="org.example")
def scaled_relu(ctx: KernelContext, x: Any) -> Any:
    """org.example.ScaledRelu-1."""
    return ctx.xp.maximum(x, 0) * 2


class Fusing(IExecutionProvider):
    """Requests the fusion, with or without a kernel for it."""

    def __init__(self, *, able: bool) -> None:
        self._able = able

    @property
    def name(self) -> str:
        return NAME

    def kernel_registry(self) -> Sequence[KernelDef]:
        return kernel_defs(sys.modules[__name__]) if self._able else []

    def transforms(self) -> Sequence[Transform]:
        return [FuseScaledRelu()]


class Factory(FakeFactory):
    """Makes the provider."""

    def __init__(self, *, able: bool) -> None:
        super().__init__(NAME)
        self._able = able

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return Fusing(able=self._able)


@pytest.fixture(params=[True, False], ids=["able", "unable"])
def able(request: pytest.FixtureRequest, register: Callable[[ProviderFactory], None]) -> bool:
    """Whether the provider that wants the fusion also runs the new operator."""
    register(Factory(able=request.param))
    return bool(request.param)


def session(options: ort_py.SessionOptions | None = None, **arguments: Any) -> ort_py.InferenceSession:
    """A session of the model with the provider in front."""
    return ort_py.InferenceSession(model_bytes(TEXT), options, providers=[NAME, *CPU], **arguments)


def test_whoever_has_the_operator_runs_it(able: bool) -> None:
    """Else the function's nodes are placed one by one; the result is the same."""
    with session() as made:
        (y,) = made.run(None, {"x": X})
        operators = sorted(node.op_type for node in made.placement)
    np.testing.assert_array_equal(y, -2 * np.maximum(X, 0))
    assert operators == (["Neg", "ScaledRelu"] if able else ["Mul", "Neg", "Relu"])


def test_the_written_model_is_for_any_runtime(able: bool, tmp_path: Path) -> None:
    """An unknown node becomes a call of a model-local function; a node that came back names its origin."""
    import onnxruntime

    options = ort_py.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    with session(options):
        pass
    proto = onnx.load(options.optimized_model_filepath)
    onnx.checker.check_model(proto)
    assert [function.name for function in proto.functions] == (["ScaledRelu"] if able else [])
    (y,) = onnxruntime.InferenceSession(options.optimized_model_filepath, providers=CPU).run(None, {"x": X})
    np.testing.assert_array_equal(y, -2 * np.maximum(X, 0))
    entries = {entry.key: entry.value for entry in proto.graph.node[0].metadata_props}
    assert json.loads(entries["ort_py.sources"]) == ["positive", "scaled"]


def test_the_basic_level_fuses_nothing(able: bool) -> None:
    """A transform of a higher level does not run."""
    options = ort_py.SessionOptions()
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with session(options) as made:
        assert sorted(node.op_type for node in made.placement) == ["Mul", "Neg", "Relu"]


def test_the_log_names_the_rewrite(able: bool) -> None:
    """In the load report, as data and as the notes of the stage."""
    with session() as made:
        report = made.load_report.optimisation
        notes = next(stage.notes for stage in made.load_report.stages if stage.stage == "optimise")
    (rewrite,) = report["ScaledReluFusion"].rewrites
    assert str(rewrite) == "positive, scaled -> ScaledReluFusion/b"
    assert any(line.startswith("ScaledReluFusion: 1 changes, 3 -> 2 nodes") for line in notes)


@pytest.mark.parametrize("by", ["option", "argument"])
def test_it_is_switched_off_by_name(able: bool, by: str) -> None:
    """By the session option, and by onnxruntime's argument."""
    options = ort_py.SessionOptions()
    if by == "option":
        options.disabled_transforms = ["ScaledReluFusion"]
    with session(options, **({"disabled_optimizers": ["ScaledReluFusion"]} if by == "argument" else {})) as made:
        assert sorted(node.op_type for node in made.placement) == ["Mul", "Neg", "Relu"]
        assert made.load_report.optimisation.disabled == ("ScaledReluFusion",)


def test_a_name_that_is_nearly_one_is_refused(able: bool) -> None:
    """With the one that is meant."""
    with pytest.raises(ort_py.InvalidArgument, match="Did you mean 'ScaledReluFusion'"):
        session(disabled_optimizers=["ScaledReluFuson"])


def test_a_name_like_none_is_told(able: bool, caplog: pytest.LogCaptureFixture) -> None:
    """In the log and in the report; onnxruntime accepts it without a word."""
    with caplog.at_level(logging.WARNING, "ort_py.session"), session(disabled_optimizers=["Nope"]) as made:
        assert "there is no graph transform called 'Nope'" in str(made.load_report.optimisation)
    assert "there is no graph transform called 'Nope'" in caplog.text


_CONVOLUTION = """g (float[1, 2, 5, 5] x) => (float[1, 2, 3, 3] y) <float[2, 2, 3, 3] w = {WEIGHTS}> {
    a = Conv(x, w) y = ACTIVATION(a)
}""".replace("WEIGHTS", ", ".join(["0.5"] * 36))


@pytest.mark.parametrize(
    ("activation", "runners"), [("Relu", {"FakeExecutionProvider"}), ("Sigmoid", {"CPUExecutionProvider"})]
)
def test_a_device_keeps_what_it_runs_unfused(
    activation: str, runners: set[str], register: Callable[[ProviderFactory], None]
) -> None:
    """Only the CPU provider has FusedConv. The device has Conv and Relu, so they stay there; it lacks Sigmoid."""
    register(FakeFactory("FakeExecutionProvider"))
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.cache_dir = "off"
    model = model_bytes(_CONVOLUTION.replace("ACTIVATION", activation))
    with ort_py.InferenceSession(model, options, providers=["FakeExecutionProvider", *CPU]) as session:
        assert {node.provider for node in session.placement.nodes} == runners
        fused = [node.op_type for node in session.placement.nodes] == ["FusedConv"]
        assert fused == (activation == "Sigmoid")
        report = session.load_report.optimisation
    assert report is not None
    assert any("1 of FusedConv" in line for line in report.notes) == (activation == "Relu")
