"""Providers that wish for another layout or a wider type: what sessions with them run, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py
from core.tests.small_models import CPU
from ort_py.contracts import (
    Capability,
    CompiledRegion,
    GraphView,
    IExecutionProvider,
    KernelLookup,
    NodeSpec,
    ProviderFactory,
    RegionProvider,
    RegionView,
    SessionContext,
)
from ort_py.dtypes import DataType
from ort_py.engine.provider_wishes import claimants
from ort_py.graph.view import ModelGraphView
from ort_py.kernels.registry import KernelRegistry
from ort_py_kit.fake_provider import FakeBehaviour, FakeFactory
from ort_py_kit.graphs import model_from_text, reference_run, typed_model
from ort_py_kit.tolerances import assert_close

NAME = "FakeExecutionProvider"
_RANDOM = np.random.default_rng(5)
X = _RANDOM.standard_normal((1, 3, 6, 6)).astype(np.float32)
_PICTURES = """g (float[1, 3, 6, 6] x) => (float[1, 2] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, w) b = Abs(a) c = Conv(b, v) d = GlobalAveragePool(c) y = Flatten(d)
}"""
_HALVES = """g (float16[1, 3, 6, 6] x) => (float16[1, 2, 4, 4] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, w) b = Abs(a) y = Conv(b, v)
}"""


def _model(text: str, dtype: type = np.float32) -> onnx.ModelProto:
    model = model_from_text(text, 17)
    for name, shape in (("w", (4, 3, 3, 3)), ("v", (2, 4, 3, 3))):
        array: Any = np.random.default_rng(6).standard_normal(shape).astype(np.float16).astype(dtype)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def _session(
    model: onnx.ModelProto,
    factory: FakeFactory,
    register: Callable[[ProviderFactory], None],
    level: ort_py.GraphOptimizationLevel = ort_py.GraphOptimizationLevel.ORT_ENABLE_ALL,
    switched_off: str = "",
) -> ort_py.InferenceSession:
    register(factory)
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.cache_dir = "off"
    options.graph_optimization_level = level
    options.disabled_transforms = [switched_off] if switched_off else []
    return ort_py.InferenceSession(model.SerializeToString(), options, providers=[NAME, *CPU])


@pytest.mark.parametrize("compiles", [False, True], ids=["kernels", "regions"])
def test_a_layout_is_changed_once_each_way(compiles: bool, register: Callable[[ProviderFactory], None]) -> None:
    """Two convolutions and a pooling run with channels last; one Transpose is left, of the input."""
    model = _model(_PICTURES)
    wanted = FakeBehaviour(channels_last=("Conv", "GlobalAveragePool"), compiles=compiles)
    with _session(model, FakeFactory(NAME, wanted), register) as session:
        assert_close(session.run(None, {"x": X})[0], reference_run(model, {"x": X})[0])
        shown = [(node.op_type, node.provider) for node in session.placement.nodes]
        report = session.load_report.optimisation
        assert report is not None
        assert report["NhwcTransformer"].changes == 3
    assert [op_type for op_type, _ in shown].count("Transpose") == 1
    assert {provider for op_type, provider in shown if op_type in ("Conv", "GlobalAveragePool")} == {NAME}


def test_a_level_below_changes_no_layout(register: Callable[[ProviderFactory], None]) -> None:
    """Up to ORT_ENABLE_EXTENDED nodes keep the layout of the model."""
    wanted = FakeBehaviour(channels_last=("Conv",))
    level = ort_py.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with _session(_model(_PICTURES), FakeFactory(NAME, wanted), register, level) as session:
        assert all(node.op_type != "Transpose" for node in session.placement.nodes)


def test_who_has_no_kernel_after_all_gets_the_standard_form(register: Callable[[ProviderFactory], None]) -> None:
    """The provider said it would rather, and does not claim what comes: results are right all the same."""
    model = _model(_PICTURES)
    wanted = FakeBehaviour(channels_last=("Conv",), lacks_channels_last=True)
    with _session(model, FakeFactory(NAME, wanted), register) as session:
        assert_close(session.run(None, {"x": X})[0], reference_run(model, {"x": X})[0])
        assert {node.domain for node in session.placement.nodes} == {""}


def test_a_narrow_region_is_widened_once(register: Callable[[ProviderFactory], None]) -> None:
    """float16 in, float16 out, one Cast at each border, and the provider computes in float32 between."""
    model = _model(_HALVES, np.float16)
    wanted = FakeBehaviour(widened_types=frozenset({DataType.FLOAT16}))
    with _session(model, FakeFactory(NAME, wanted), register) as session:
        half = X.astype(np.float16)
        wide = reference_run(_model(_HALVES.replace("float16", "float")), {"x": half.astype(np.float32)})[0]
        assert_close(session.run(None, {"x": half})[0], wide.astype(np.float16))
        report = session.load_report.optimisation
    assert report is not None
    assert report["CastFloat16Transformer"].notes == ("3 nodes compute in float32, with 2 Casts at their borders",)


def test_widening_can_be_switched_off(register: Callable[[ProviderFactory], None]) -> None:
    """By the name onnxruntime gives its own pass."""
    wanted = FakeBehaviour(widened_types=frozenset({DataType.FLOAT16}))
    model = _model(_HALVES, np.float16)
    with _session(model, FakeFactory(NAME, wanted), register, switched_off="CastFloat16Transformer") as session:
        assert all(node.op_type != "Cast" for node in session.placement.nodes)


@pytest.mark.parametrize(
    ("option", "environment", "folder", "caches"),
    [
        ("", None, None, True),
        ("", "off", None, False),
        ("off", None, None, False),
        ("named", "off", "named", True),
    ],
)
def test_a_provider_is_told_whether_and_where_to_keep_what_it_compiles(
    option: str,
    environment: str | None,
    folder: str | None,
    caches: bool,
    register: Callable[[ProviderFactory], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The session's option before the environment; the folder only where the program names one."""
    told: list[SessionContext] = []

    class Asking(FakeFactory):
        def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
            told.append(context)
            return super().create(options, context)

    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path) if environment is None else environment)
    register(Asking(NAME, FakeBehaviour()))
    wanted = ort_py.SessionOptions()
    wanted.cache_dir = str(tmp_path / option) if option == "named" else option
    ort_py.InferenceSession(_model(_PICTURES).SerializeToString(), wanted, providers=[NAME, *CPU]).close()
    ((found,),) = [told]
    assert found.cache_folder == (None if folder is None else str(tmp_path / folder))
    assert found.caches is caches


class _Claimant(RegionProvider):
    """Takes the nodes of one operator, and counts how often it is asked."""

    name = "ClaimantExecutionProvider"

    def __init__(self, op_type: str) -> None:
        self.op_type, self.asked = op_type, 0

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        self.asked += 1
        return super().get_capability(graph, kernels)

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type == self.op_type else "another operator"

    def compile(self, region: RegionView) -> CompiledRegion:
        raise NotImplementedError


def test_who_comes_behind_the_claimants_is_not_asked() -> None:
    """A transform names the nodes that matter; the provider of the others has no say in them."""
    view = ModelGraphView(typed_model("g (float[4] x) => (float[4] y) { a = Neg (x) y = Abs (a) }").graph)
    first, second = _Claimant("Neg"), _Claimant("Abs")
    negation, absolute = (node.name for node in view.nodes)
    assert claimants(view, [first, second], KernelRegistry(), [negation]) == {negation: first}
    assert (first.asked, second.asked) == (1, 0)
    assert claimants(view, [first, second], KernelRegistry(), [absolute]) == {negation: first, absolute: second}
