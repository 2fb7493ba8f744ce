"""Requests to build an engine of a whole model, and what the environment of a build leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from ort_py.contracts import RegionView, SessionContext
from ort_py_kit.graphs import graph_view
from ort_py_tensorrt.job_files import Request
from ort_py_tensorrt.options import options_of
from ort_py_tensorrt.precision import lowered
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.region_model import model_of
from ort_py_tensorrt.variants import RTX, Variant
from ort_py_tensorrt.wishes import Wishes, wishes_of

__all__ = ["left_behind", "region_of", "request_of", "rtx_wishes", "shapes_of"]


def rtx_wishes(variant: Variant = RTX, context: SessionContext | None = None, **given: Any) -> Wishes:
    """Read options, the defaults of the others included."""
    options = {spec.name: spec.default for spec in options_of(variant)}
    return wishes_of(variant, options | given, context or SessionContext())


def region_of(model: str | onnx.ModelProto) -> RegionView:
    """Return a whole model as one region."""
    graph = graph_view(model)
    return graph.region(range(len(graph.nodes)))


def shapes_of(region: RegionView, size: int) -> list[tuple[int, ...]]:
    """Return shapes of the inputs, with one number for each size that the model leaves open."""
    return [tuple(one if isinstance(one, int) else size for one in value.shape or ()) for value in region.inputs]


def request_of(model: str | onnx.ModelProto, precision: str = "float32", **given: Any) -> Request:
    """Return a request for an engine of all sizes from 2 to 8."""
    region = region_of(model)
    names = [value.name for value in region.inputs]
    profile = Profile.of(names, shapes_of(region, 2)).widened(shapes_of(region, 8))
    return Request(RTX.provider, lowered(model_of(region), precision), profile, rtx_wishes(**given).build)


def left_behind(folder: Path) -> list[str]:
    """Return the names of what builds left in the folder of temporary files."""
    return sorted(one.name for one in folder.iterdir() if one.name.startswith("ort-py-tensorrt-"))
