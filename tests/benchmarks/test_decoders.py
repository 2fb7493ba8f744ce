"""The layer of `benchmarks.decoders` whose past and present share a buffer does the same in both runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.decoders import SHARED, shared_layer, shared_layer_feeds
from benchmarks.runtime_child import Bound, open_session


@pytest.mark.parametrize("length", [64, 1024])
def test_runs_in_shared_buffers_agree(tmp_path: Path, length: int) -> None:
    model, feeds = tmp_path / "model.onnx", shared_layer_feeds(length)
    onnx.save(shared_layer(), model)
    wanted = open_session("onnxruntime", str(model), 1).run(None, feeds)
    for runtime in ("onnxruntime", "ort_py"):
        bound = Bound(open_session(runtime, str(model), 1), feeds, SHARED)
        for _ in range(3):
            output, *states = bound.run(None, feeds)
        np.testing.assert_allclose(output, wanted[0], rtol=1e-5, atol=1e-6)
        for found, other in zip(states, wanted[1:], strict=True):
            np.testing.assert_allclose(found[:, :, :17], other[:, :, :17], rtol=1e-5, atol=1e-6)
        assert bound.outputs[1] is bound.given["past_key"]
