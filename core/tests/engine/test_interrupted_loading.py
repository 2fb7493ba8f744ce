"""Ctrl-C and cancellation while a session is created."""

from __future__ import annotations

import gc
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py as ort
from ort_py.engine.assembly import Assembler


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Exceptions that Python would print as "Exception ignored in"."""
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    return iter([seen])


def _model() -> bytes:
    """A chain of products whose weights no other test has."""
    generator = np.random.default_rng(1907)
    nodes, weights, name = [], [], "x"
    for level in range(20):
        weights.append(numpy_helper.from_array(generator.random((32, 32), np.float32), f"w{level}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{level}"], [f"a{level}"]))
        nodes.append(helper.make_node("Relu", [f"a{level}"], [f"b{level}"]))
        name = f"b{level}"
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("x", TensorProto.FLOAT, ["n", 32])], [info(name, TensorProto.FLOAT, None)], weights
    )
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    )


@pytest.mark.parametrize("place", ["ort_py.engine.engine.Engine.install", "ort_py.api.session.RunQueue"])
def test_an_interrupted_last_step_is_released_without_a_word(
    place: str, monkeypatch: pytest.MonkeyPatch, unraisable: Iterator[list[Any]]
) -> None:
    """An interrupted session releases its engine, also where it lacks what `close` looks for."""
    (seen,) = unraisable

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        ort.InferenceSession(_model())
    gc.collect()
    assert seen == []


@pytest.mark.parametrize("place", ["ort_py.engine.partitioning.partition", "ort_py.engine.assembly.build_plan"])
@pytest.mark.parametrize("level", [0, 99])
def test_placing_and_planning_belong_to_loading(place: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading that is cancelled, or takes too long, when transforms are done ends all the same."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel(level)
    genuine = pkgutil.resolve_name(place)

    def cancelling(*arguments: Any) -> Any:
        options.set_load_cancellation_flag(True)
        return genuine(*arguments)

    monkeypatch.setattr(place, cancelling)
    with pytest.raises(ort.ModelLoadCanceled):
        ort.InferenceSession(_model(), options)


def test_compiling_does_not_belong_to_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers for devices take minutes; the clock stands still while they run."""
    options = ort.SessionOptions()
    genuine = Assembler._compile

    def cancelling(*arguments: Any) -> Any:
        options.set_load_cancellation_flag(True)
        compiled = genuine(*arguments)
        options.set_load_cancellation_flag(False)
        return compiled

    monkeypatch.setattr(Assembler, "_compile", cancelling)
    x = np.zeros((2, 32), np.float32)
    np.testing.assert_array_equal(ort.InferenceSession(_model(), options).run(None, {"x": x})[0], x)
