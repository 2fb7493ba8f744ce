"""Nodes that may be in compiled regions although the core cannot check them before a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import ort_py
from core.tests.given_provider import GivenFactory
from core.tests.small_models import model_bytes
from ort_py.contracts import (
    CompiledRegion,
    FunctionRegion,
    GraphView,
    NodeSpec,
    ProviderFactory,
    RegionProvider,
    RegionView,
)

NAME = "CompilingExecutionProvider"
MODEL = "g (float[] x) => (float[] y) { y = Softmax(x) }"
"""The rank of the input is unknown, so the table of constraints cannot decide whether the axis exists."""


class _Compiling(RegionProvider):
    """Compiles everything."""

    def __init__(self, checks: bool) -> None:
        self._checks = checks

    @property
    def name(self) -> str:
        return NAME

    @property
    def checks_inputs(self) -> bool:
        return self._checks

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None

    def compile(self, region: RegionView) -> CompiledRegion:
        def run(*inputs: Any) -> Sequence[Any]:
            raise AssertionError("no test runs a region")

        return FunctionRegion(run)


@pytest.mark.parametrize(
    ("checks", "limits", "expected"),
    [
        (True, ort_py.Limits(), NAME),
        (True, ort_py.Limits.untrusted(), "CPUExecutionProvider"),
        (True, ort_py.Limits(unchecked_regions=False), "CPUExecutionProvider"),
        (False, ort_py.Limits(), "CPUExecutionProvider"),
    ],
    ids=["provider checks", "untrusted", "switched off", "provider does not check"],
)
def test_a_node_that_cannot_be_checked(
    register: Callable[[ProviderFactory], None], checks: bool, limits: ort_py.Limits, expected: str
) -> None:
    """It stays in a region only if the provider checks its inputs and the limits rely on that."""
    register(GivenFactory(_Compiling(checks)))
    options = ort_py.SessionOptions()
    options.cache_dir = "off"
    options.cost_model = "always"
    options.limits = limits
    session = ort_py.InferenceSession(model_bytes(MODEL), options, providers=[NAME, "CPUExecutionProvider"])
    (node,) = session.placement.nodes
    assert node.provider == expected
    if expected != NAME:
        assert "cannot be checked before a region runs it" in dict(node.refusals)[NAME]
