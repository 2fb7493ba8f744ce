"""One model at two optimisation levels: what both compute, and whether it is the same.

`scripts/search_differences.py` searches with it, and writes what it finds where `FOUND` says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser

import ort_py
from ort_py.testing.random_graphs import narrowest_type, random_feed
from ort_py.testing.tolerances import tolerance_of

__all__ = ["FOUND", "difference", "read"]

FOUND = Path(__file__).parent / "models"
"""Models on which levels differed once, as text."""


def results(model: onnx.ModelProto, level: ort_py.GraphOptimizationLevel) -> list[Any]:
    """All outputs of a model at a level."""
    options = ort_py.SessionOptions()
    options.graph_optimization_level = level
    options.cache_dir = "off"
    with ort_py.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]) as session:
        return list(session.run(None, {"x": random_feed()}))


def difference(model: onnx.ModelProto) -> str:
    """How the outputs at ORT_ENABLE_ALL differ from those at ORT_DISABLE_ALL; ``""`` where they do not."""
    plain = results(model, ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL)
    try:
        optimised = results(model, ort_py.GraphOptimizationLevel.ORT_ENABLE_ALL)
        for info, left, right in zip(model.graph.output, optimised, plain, strict=True):
            if left.dtype != right.dtype or left.shape != right.shape:
                return f"{info.name} is {left.dtype}{left.shape} and was {right.dtype}{right.shape}"
            if left.dtype.kind == "f":
                # A double is no better than the float it was computed from.
                relative, absolute = tolerance_of(narrowest_type(model))
                np.testing.assert_allclose(left, right, rtol=relative, atol=absolute, err_msg=info.name)
            else:
                np.testing.assert_array_equal(left, right, err_msg=info.name)
    except (AssertionError, ort_py.OrtPyError) as error:
        return str(error)
    return ""


def read(path: Path) -> onnx.ModelProto:
    """A model that was found."""
    return onnx.parser.parse_model(path.read_text(encoding="utf-8"))
