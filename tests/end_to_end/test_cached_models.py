"""Trained models from the cache: the same answers, and no onnx package in the process that restores them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_py
from examples.model_zoo import by_name, fetch
from ort_py.cache.writing import process_queue
from tests.support.model_inputs import cases_of

NAMES = (
    "ppocr-v2-cls",
    "silero-vad-v6-whisper",
    "silero-vad-op18-ifless",
    "slanet-plus",
    "light-shufflenet",
    "logreg-iris",
)
"""A convolutional network, recurrent ones, control flow, loops, old opsets, classic machine learning."""

CHILD = """
import pickle, sys
import ort_py
model, folder, plain, feeds, results = sys.argv[1:]
options = ort_py.SessionOptions()
options.cache_dir = folder
options.add_session_config_entry("session.model_cache", "1")
options.pin_cpu = plain == "True"
session = ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"])
with open(feeds, "rb") as file:
    outputs = session.run(None, pickle.load(file))
stages = [stage.stage for stage in session.load_report.stages]
loaded = [name for name in ("onnx", "google.protobuf") if name in sys.modules]
with open(results, "wb") as file:
    pickle.dump((outputs, stages, loaded), file)
"""


def options_for(folder: Path, plain: bool) -> ort_py.SessionOptions:
    """Options with a cache that keeps every model."""
    options = ort_py.SessionOptions()
    options.pin_cpu = plain
    options.cache_dir = folder
    options.add_session_config_entry("session.model_cache", "1")
    return options


def answers(session: ort_py.InferenceSession) -> dict[str, Any]:
    """A session's description of itself."""
    arguments = [session.get_inputs(), session.get_outputs(), session.get_overridable_initializers()]
    return {
        "arguments": [[(one.name, one.type, one.shape) for one in group] for group in arguments],
        "meta": session.get_modelmeta().custom_metadata_map,
        "placement": session.placement.to_json(),
        "plan": session.plan,
        "fingerprint": str(session.fingerprint),
    }


@pytest.mark.models
@pytest.mark.parametrize("plain", [False, True], ids=["default", "plain"])
@pytest.mark.parametrize("name", NAMES)
def test_a_trained_model_from_the_cache(name: str, plain: bool, tmp_path: Path) -> None:
    """Restored in another process, without onnx and protobuf; outputs as of the session that prepared it.

    With whoever stands in for the CPU provider, and with the plain one.
    """
    model = by_name(name)
    path, folder = fetch(model), tmp_path / "cache"
    feed = dict(cases_of(model)[0].runs[0])
    with ort_py.InferenceSession(path, options_for(folder, plain), providers=["CPUExecutionProvider"]) as session:
        for argument in session.get_inputs():  # states, which later runs get from the one before
            shape = [size if isinstance(size, int) else 1 for size in argument.shape]
            feed.setdefault(argument.name, np.zeros(shape, np.float32))
        expected, told = session.run(None, feed), answers(session)
        process_queue().wait()
    with ort_py.InferenceSession(path, options_for(folder, plain), providers=["CPUExecutionProvider"]) as session:
        assert answers(session) == told
    feeds, results = tmp_path / "feeds", tmp_path / "results"
    feeds.write_bytes(pickle.dumps(feed))
    command = [sys.executable, "-c", CHILD, str(path), str(folder), str(plain), str(feeds), str(results)]
    subprocess.run(command, check=True, env=dict(os.environ))
    outputs, stages, loaded = pickle.loads(results.read_bytes())  # written by our own child
    assert (stages, loaded) == (["providers", "restore", "compile", "plan"], [])
    for found, wanted in zip(outputs, expected, strict=True):
        if isinstance(wanted, np.ndarray):
            # Not bit by bit: BLAS rounds differently where operands are aligned differently.
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            assert str(found) == str(wanted)
