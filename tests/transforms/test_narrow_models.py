"""Whole models in float16 and bfloat16: what they compute in float32 inside, against the float32 model."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ort_py
from tests.support.exported_models import EXPORTED, feeds_of
from tests.support.narrow_models import narrowed

_MODELS = [path for path in EXPORTED if path.stem in ("bert.dynamo18", "gpt2_past.dynamo18", "llama_past.dynamo23")]
_TYPES: dict[str, tuple[int, Any, float]] = {
    "float16": (TensorProto.FLOAT16, np.float16, 2.0**-10),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16, 2.0**-7),
}
"""For each type its number, its dtype, and the distance from 1 to the next number."""


def _results(model: onnx.ModelProto, feeds: dict[str, Any], *, widened: bool) -> tuple[list[Any], int]:
    """Outputs, and how many nodes were widened."""
    options = ort_py.SessionOptions()
    options.cache_dir = "off"
    options.disabled_transforms = [] if widened else ["CastFloat16Transformer"]
    with ort_py.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]) as session:
        report = session.load_report.optimisation
        assert report is not None
        changes = report["CastFloat16Transformer"].changes if widened else 0
        return [np.asarray(one).astype(np.float64) for one in session.run(None, feeds)], changes


@pytest.mark.parametrize("cpu_runner", ["plain"], indirect=True)  # others may compute these types as they are
@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("path", _MODELS, ids=lambda path: path.stem)
def test_widened_models_are_nearer_to_float32(path: Any, kind: str, cpu_runner: str) -> None:
    """Fewer roundings: no output is further from the float32 model's than where each node rounds, and none is far."""
    data_type, dtype, step = _TYPES[kind]
    model, feeds = onnx.load(path), feeds_of(path)
    narrow = {name: array.astype(dtype) if array.dtype == np.float32 else array for name, array in feeds.items()}
    exact, _ = _results(model, feeds, widened=True)
    wide, changes = _results(narrowed(model, data_type), narrow, widened=True)
    rounded, _ = _results(narrowed(model, data_type), narrow, widened=False)
    assert changes > 20
    for one, other, right in zip(wide, rounded, exact, strict=True):
        error, before = (float(np.abs(found - right).max()) for found in (one, other))
        assert error <= max(1.1 * before, step * float(np.abs(right).max()))
