"""Trained models, compiled: the same answers in another process, on the providers that they were compiled for."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ort_py
from examples.model_zoo import by_name, fetch
from tests.end_to_end.test_cached_models import NAMES
from tests.support.model_inputs import cases_of

CHILD = """
import json, pickle, sys
import numpy as np
import ort_py
from ort_py.cache import kept_forms
made = []
note = kept_forms.KeptForms.note
def noted(self, form):
    if isinstance(form.value, np.ndarray):  # a file holds arrays, and not what consists of several
        made.append(form.key)
    note(self, form)
kept_forms.KeptForms.note = noted
session = ort_py.InferenceSession(sys.argv[1])
with open(sys.argv[2], "rb") as file:
    outputs = session.run(None, pickle.load(file))
with open(sys.argv[3], "wb") as file:
    pickle.dump(outputs, file)
stages = [stage.stage for stage in session.load_report.stages]
print(json.dumps([stages, [name for name in ("onnx", "google.protobuf") if name in sys.modules], len(made)]))
"""


@pytest.mark.models
@pytest.mark.parametrize("plain", [False, True], ids=["default", "plain"])
@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_model_answers_in_another_process(name: str, plain: bool, tmp_path: Path) -> None:
    """Without onnx and protobuf, without the cache, and without packing a weight again."""
    model = by_name(name)
    feed = dict(cases_of(model)[0].runs[0])
    options = ort_py.SessionOptions()
    options.pin_cpu = plain
    with ort_py.InferenceSession(fetch(model), options, providers=["CPUExecutionProvider"]) as session:
        for argument in session.get_inputs():  # states, which later runs get from the one before
            shape = [size if isinstance(size, int) else 1 for size in argument.shape]
            feed.setdefault(argument.name, np.zeros(shape, np.float32))
        expected = session.run(None, feed)
    target, feeds, results = (tmp_path / file for file in ("m.ortpy", "feeds", "results"))
    ort_py.compile_model(fetch(model), target, options, ["CPUExecutionProvider"], inputs=feed)
    feeds.write_bytes(pickle.dumps(feed))
    command = [sys.executable, "-c", CHILD, *map(str, (target, feeds, results))]
    environment = dict(os.environ) | {"ORT_PY_CACHE": "off"}
    told = subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout
    assert json.loads(told) == [["providers", "restore", "compile", "plan"], [], 0]
    outputs = pickle.loads(results.read_bytes())  # written by our own child
    for found, wanted in zip(outputs, expected, strict=True):
        if isinstance(wanted, np.ndarray):
            # Not bit by bit: BLAS rounds differently where operands are aligned differently.
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            assert str(found) == str(wanted)


@pytest.mark.models
def test_a_damaged_trained_model_is_never_wrong(tmp_path: Path) -> None:
    """Bits flipped all over the file, packed weights included: refused, or right."""
    model = by_name("ppocr-v2-cls")
    feed = dict(cases_of(model)[0].runs[0])
    target = tmp_path / "m.ortpy"
    ort_py.compile_model(fetch(model), target, providers=["CPUExecutionProvider"], inputs=feed)
    with ort_py.InferenceSession(target) as session:
        expected = session.run(None, feed)
    content = target.read_bytes()
    generator = random.Random(3)
    outcomes = {"refused": 0, "right": 0}
    for _ in range(40):
        damaged, path = bytearray(content), tmp_path / "damaged.ortpy"
        damaged[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        path.unlink(missing_ok=True)
        path.write_bytes(damaged)
        try:
            session = ort_py.InferenceSession(path)
        except ort_py.CompiledModelError:
            outcomes["refused"] += 1
            continue
        with session:
            for found, wanted in zip(session.run(None, feed), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        outcomes["right"] += 1
    assert min(outcomes.values()) > 5
