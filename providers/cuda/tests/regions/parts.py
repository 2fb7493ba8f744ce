"""Helpers for tests of regions: a model's nodes as one region, run on the host, and the reference's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from ort_py.contracts.graph_view import GraphView, RegionView
from ort_py_cuda.code import faults
from ort_py_cuda.regions import RegionContext, compile_region
from ort_py_cuda.regions.groups import node_groups
from ort_py_kit.graphs import graph_view, model_from_text, reference_run
from ort_py_kit.tolerances import tolerance_of
from providers.cuda.tests.emulation import host

__all__ = ["CONTEXT", "agree", "check", "outputs_of", "region_of", "view_of"]

CONTEXT = RegionContext(host.xp, host.xp.empty)


def view_of(text: str | onnx.ModelProto, opset: int = 21) -> GraphView:
    """A model as providers see it."""
    return graph_view(text, opset)


def region_of(text: str | onnx.ModelProto, opset: int = 21) -> RegionView:
    """All of a model's nodes as the one region that they are claimed as."""
    graph = view_of(text, opset)
    whole = tuple(range(len(graph.nodes)))
    if len(whole) > 1:
        assert node_groups(graph, whole) == [whole]
    return graph.region(whole)


def outputs_of(region: RegionView, feeds: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Results by name, and what kernels reported raised."""
    compiled = compile_region(region, CONTEXT)
    found = compiled.run(*(host.on_host(feeds[value.name]) for value in region.inputs))
    faults.raise_if_any(host.STREAM)
    return {value.name: np.asarray(array) for value, array in zip(region.outputs, found, strict=True)}


def check(text: str, feeds: Mapping[str, Any], opset: int = 21, rounding: float = 1.0) -> None:
    """A model as one region agrees with the reference.

    Args:
        text: The model.
        feeds: Its inputs.
        opset: Opset of the default domain.
        rounding: How many times the usual tolerance is allowed, where a test says why.
    """
    model = model_from_text(text, opset)
    with np.errstate(all="ignore"):
        wanted = reference_run(model, feeds)
    found = outputs_of(region_of(model, opset), feeds)
    for value, array in zip(model.graph.output, wanted, strict=True):
        agree(found[value.name], array, rounding)


def agree(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], rounding: float = 1.0) -> None:
    """Two arrays have the same type, shape and, within the type's tolerance, elements; NaN and infinities included."""
    wanted = np.asarray(wanted)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    relative, absolute = tolerance_of(wanted.dtype)
    if not relative:
        np.testing.assert_array_equal(found, wanted)
        return
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), rtol=relative * rounding, atol=absolute * rounding
    )
