"""The rule of `ort_py.engine.unfusing` for keeping fused nodes, with providers on the host that have a few operators.

FusedConv stands for Conv and Relu. The NumPy provider has all three; the fakes have those that they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import ort_py
from core.tests.small_models import CPU, model_bytes
from ort_py.contracts import (
    Availability,
    CompiledRegion,
    FunctionRegion,
    GraphView,
    IExecutionProvider,
    KernelDef,
    NodeSpec,
    ProviderFactory,
    RegionProvider,
    RegionView,
    SessionContext,
)
from ort_py.devices import HOST
from ort_py_array import kernel_defs

PARTS, WHOLE = ("Conv", "Relu"), ("FusedConv",)
TEXT = """g (float[1, 2, 5, 5] x) => (float[1, 2, 3, 3] y) <float[2, 2, 3, 3] w = {WEIGHTS}> {
    a = Conv(x, w) y = Relu(a)
}""".replace("WEIGHTS", ", ".join(f"{number / 10 - 1.7:.1f}" for number in range(36)))
X = np.linspace(-1, 1, 50, dtype=np.float32).reshape(1, 2, 5, 5)


class Kernels(IExecutionProvider):
    """NumPy kernels of some operators."""

    def __init__(self, name: str, operators: Collection[str]) -> None:
        self._name, self._operators = name, operators

    @property
    def name(self) -> str:
        return self._name

    def kernel_registry(self) -> Sequence[KernelDef]:
        return [one for one in kernel_defs() if one.op_type in self._operators]


class Regions(RegionProvider):
    """Regions of some operators, run by ONNX's reference."""

    def __init__(self, name: str, operators: Collection[str]) -> None:
        self._name, self._operators = name, operators

    @property
    def name(self) -> str:
        return self._name

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type in self._operators else f"no {node.op_type}"

    def compile(self, region: RegionView) -> CompiledRegion:
        evaluator = ReferenceEvaluator(onnx.load_from_string(region.to_model(standard=True)))
        names = [value.name for value in region.inputs]
        return FunctionRegion(lambda *arrays: list(evaluator.run(None, dict(zip(names, arrays, strict=True)))))


class Factory(ProviderFactory):
    """Makes one of them."""

    def __init__(self, name: str, kind: type[Kernels] | type[Regions], operators: Collection[str]) -> None:
        self._name, self._kind, self._operators = f"{name}ExecutionProvider", kind, operators

    @property
    def name(self) -> str:
        return self._name

    @property
    def automatic(self) -> bool:
        return False

    def probe(self) -> Availability:
        return Availability(True, devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return self._kind(self._name, self._operators)


Has = Mapping[str, Collection[str]]
Placed = list[tuple[str, str]]


@pytest.fixture(params=[Kernels, Regions])
def placed(request: pytest.FixtureRequest, register: Callable[[ProviderFactory], None]) -> Callable[..., Placed]:
    """Registers providers with operators by name, and tells who runs what in a session that names some of them."""

    def place(has: Has, *named: str) -> Placed:
        for name, operators in has.items():
            register(Factory(name, request.param, operators))
        options = ort_py.SessionOptions()
        options.cost_model, options.cache_dir, options.pin_cpu = "always", "off", True
        names = [*(f"{name}ExecutionProvider" for name in named if name != "CPU"), *CPU]
        with ort_py.InferenceSession(model_bytes(TEXT), options, providers=names) as session:
            (y,) = session.run(None, {"x": X})
            found = [(node.provider.removesuffix("ExecutionProvider"), node.op_type) for node in session.placement]
        (expected,) = list(ReferenceEvaluator(onnx.load_from_string(model_bytes(TEXT))).run(None, {"x": X}))
        np.testing.assert_allclose(y, np.asarray(expected), rtol=1e-4, atol=1e-5)
        return sorted(found)

    return place


def test_a_named_provider_keeps_its_parts(placed: Callable[..., Placed]) -> None:
    """It has never heard of the fusion; the CPU provider has."""
    assert placed({"A": PARTS}, "A") == [("A", "Conv"), ("A", "Relu")]


def test_a_named_provider_keeps_the_whole(placed: Callable[..., Placed]) -> None:
    assert placed({"A": (*PARTS, *WHOLE)}, "A") == [("A", "FusedConv")]


def test_the_whole_alone_is_kept(placed: Callable[..., Placed]) -> None:
    """It has the fused operator only, and gets it."""
    assert placed({"A": WHOLE}, "A") == [("A", "FusedConv")]


def test_some_of_the_parts_are_not_enough(placed: Callable[..., Placed]) -> None:
    """No provider runs all parts, so the provider with the fused node gets it."""
    assert placed({"A": ("Conv",)}, "A") == [("CPU", "FusedConv")]


def test_the_first_that_runs_the_parts_decides(placed: Callable[..., Placed]) -> None:
    """The second one named has the fused operator, and is not asked."""
    assert placed({"A": PARTS, "B": (*PARTS, *WHOLE)}, "A", "B") == [("A", "Conv"), ("A", "Relu")]


def test_the_second_gets_what_the_first_cannot_run(placed: Callable[..., Placed]) -> None:
    """The first has a part only; the second is the first that runs them all, and has the fused operator."""
    assert placed({"A": ("Relu",), "B": (*PARTS, *WHOLE)}, "A", "B") == [("B", "FusedConv")]


def test_the_second_keeps_its_parts_too(placed: Callable[..., Placed]) -> None:
    """Neither of those named has the fused operator."""
    assert placed({"A": (), "B": PARTS}, "A", "B") == [("B", "Conv"), ("B", "Relu")]


def test_who_was_not_named_does_not_count(placed: Callable[..., Placed]) -> None:
    """A session for the CPU provider's role takes the fused node, whoever else is installed."""
    assert placed({"A": PARTS}, "CPU") == [("CPU", "FusedConv")]


def test_the_note_names_the_operator(register: Callable[[ProviderFactory], None]) -> None:
    """The load report says what was written out."""
    register(Factory("A", Kernels, PARTS))
    options = ort_py.SessionOptions()
    options.cache_dir = "off"
    with ort_py.InferenceSession(model_bytes(TEXT), options, providers=["AExecutionProvider", *CPU]) as session:
        report = session.load_report.optimisation
    assert report is not None
    assert any("1 of FusedConv" in line for line in report.notes)


def test_the_cache_knows_who_was_named(register: Callable[[ProviderFactory], None], tmp_path: Any) -> None:
    """A model prepared for a provider that was named is not taken where the same provider fills a role."""

    class StandIn(Factory):
        @property
        def stands_in_for(self) -> str | None:
            return "CPUExecutionProvider"

        @property
        def automatic(self) -> bool:
            return True

        @property
        def default_rank(self) -> int:
            return 99

    register(StandIn("A", Kernels, PARTS))

    def operators(*names: str) -> list[str]:
        options = ort_py.SessionOptions()
        options.cache_dir = str(tmp_path)
        with ort_py.InferenceSession(model_bytes(TEXT), options, providers=list(names)) as session:
            return sorted(node.op_type for node in session.placement)

    assert operators("AExecutionProvider", *CPU) == ["Conv", "Relu"]
    assert operators(*CPU) == ["FusedConv"]
    assert operators("AExecutionProvider", *CPU) == ["Conv", "Relu"]


def test_a_node_that_is_kept_keeps_its_opset(register: Callable[[ProviderFactory], None]) -> None:
    """GroupNormalization of opset 21 stands for nodes of opset 18, where the operator scales by group."""
    text = """g (float[N, 4, K] x) => (float[N, 4, K] y) <
        int64[3] s = {0, 2, -1}, float[2] o = {1, 1}, float[2] z = {0, 0}, float[4, 1] a = {1, 2, 3, 4}
    > {
        r = Reshape(x, s) i = InstanceNormalization(r, o, z) t = Shape(x) q = Reshape(i, t) m = Mul(q, a) y = Add(m, a)
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}').SerializeToString()
    register(Factory("A", Regions, ("Mul", "Add")))
    options = ort_py.SessionOptions()
    options.cache_dir, options.pin_cpu = "off", True
    x = np.random.default_rng(0).standard_normal((2, 4, 9)).astype(np.float32)
    with ort_py.InferenceSession(model, options, providers=["AExecutionProvider", *CPU]) as session:
        assert [node.op_type for node in session.placement] == ["GroupNormalization"]
        (y,) = session.run(None, {"x": x})
    rows = x.reshape(2, 2, -1)
    normal = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    factors = np.arange(1, 5, dtype=np.float32)[:, None]
    np.testing.assert_allclose(y, normal.reshape(x.shape) * factors + factors, rtol=1e-4, atol=1e-4)
