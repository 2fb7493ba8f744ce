"""Groups that pay for a call to oneDNN: their estimates, and the consequences for placement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

import ort_py as ort
from providers.onednn.tests.models import PROVIDER, model, node


def _providers(nodes: list[NodeProto], x: np.ndarray[Any, Any], constants: dict[str, Any] | None = None) -> set[str]:
    """Providers of the nodes in a session that requests the CPU, without optimisation."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model(nodes, {"x": x}, constants)
    with ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]) as session:
        return {found.provider for found in session.placement.nodes}


def _chain(*operators: str) -> list[NodeProto]:
    names = ["x", *(f"v{place}" for place in range(len(operators) - 1)), "y"]
    return [node(kind, names[place], names[place + 1]) for place, kind in enumerate(operators)]


SMALL, LARGE = np.ones((1, 64), np.float32), np.ones((128, 128), np.float32)


@pytest.mark.parametrize("operators", [["Softmax"], ["Gelu"], ["HardSwish"], ["Relu", "Exp", "Tanh", "Sigmoid", "Abs"]])
def test_what_numpy_does_in_many_calls_pays(operators: list[str]) -> None:
    """One operator that is many calls of NumPy, or a chain of cheap ones, even for a few numbers."""
    assert _providers(_chain(*operators), SMALL) == {PROVIDER}


@pytest.mark.parametrize("operators", [["Relu"], ["Exp", "Tanh"], ["Abs", "Transpose"]])
def test_a_call_or_two_do_not_pay(operators: list[str]) -> None:
    """A region's entry costs as much as three small calls of NumPy."""
    assert _providers(_chain(*operators), SMALL) == {"CPUExecutionProvider"}


def test_elements_count() -> None:
    """An operation that does not pay for a few elements pays for many."""
    assert _providers(_chain("Relu"), LARGE) == {PROVIDER}


def test_views_never_pay() -> None:
    """However many: a region would copy what NumPy only looks at otherwise."""
    assert _providers(_chain(*["Transpose"] * 9), LARGE) == {"CPUExecutionProvider"}


def test_borders_count() -> None:
    """Each array that crosses a region's border costs: what pays on one array does not on three."""
    pays = ("Sigmoid", "Clip", "Abs")
    assert _providers(_chain(*pays), SMALL) == {PROVIDER}
    spread = [node("Sin", "x", f"s{place}") for place in range(3)]
    made = [node(kind, f"s{place}", f"y{place}") for place, kind in enumerate(pays)]
    joined = [node("Sin", f"y{place}", f"t{place}") for place in range(3)]
    assert _providers([*spread, *made, *joined, node("Sum", "t0 t1 t2", "y")], SMALL) == {"CPUExecutionProvider"}


def test_the_reason_has_both_figures() -> None:
    """So that a reader sees how far off it was."""
    with ort.InferenceSession(model(_chain("Relu"), {"x": SMALL}), providers=["CPUExecutionProvider"]) as session:
        ((who, why),) = session.placement.nodes[0].refusals
        assert who == PROVIDER
        assert "too little work for a call to oneDNN" in why
        assert "its group of 1 takes about 0.6 µs elsewhere, 2.4 µs here" in why
