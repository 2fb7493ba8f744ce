"""Core ML itself. These tests have not been run yet: no machine with macOS was at hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from ort_py_kit.tolerances import assert_close
from providers.coreml.tests.cases import CASES
from providers.coreml.tests.models import model, node, open_session, run_here

pytestmark = pytest.mark.skipif(sys.platform != "darwin", reason="Core ML runs on macOS only")


@pytest.mark.parametrize("name", [name for name in CASES if name.split()[1] in {"Add", "Conv", "LSTM", "MatMul"}])
def test_operators(name: str) -> None:
    case = CASES[name]
    data = case.model()
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, case.feeds())
    assert_close(run_here(data, case.feeds(), MLComputeUnits="CPUOnly"), list(expected), context=name)


def test_a_compiled_model_is_kept(tmp_path: Path) -> None:
    """The second session finds it, and both compute the same."""
    weights: dict[str, Any] = {"w": np.eye(64, dtype=np.float32)}
    feeds = {"x": np.arange(128, dtype=np.float32).reshape(2, 64)}
    data = model([node("MatMul", "x w")], feeds, weights)
    found = []
    for _ in range(2):
        with open_session(data, ModelCacheDirectory=str(tmp_path), MLComputeUnits="CPUOnly") as session:
            found.append(session.run(None, feeds)[0])
        assert len(list(tmp_path.glob("*.mlmodelc"))) == 1
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], feeds["x"], rtol=1e-5)
