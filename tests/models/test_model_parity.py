"""Every trained model of the catalogue gives what onnxruntime gives, to the tolerance of its element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ort_py as ort
from examples.model_zoo import CATALOGUE, ZooModel, by_name, fetch
from ort_py_kit.tolerances import assert_close
from tests.support.model_comparison import assert_run_close, open_peer, run_case
from tests.support.model_inputs import cases_of

pytestmark = pytest.mark.models

every_model = pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)


@every_model
@pytest.mark.parametrize(
    "plain", [pytest.param(False, id="default"), pytest.param(True, id="plain", marks=pytest.mark.nightly)]
)
def test_outputs_equal_onnxruntimes(model: ZooModel, plain: bool) -> None:
    """All outputs of all runs of all cases, states carried on by each runtime for itself.

    Once with whoever stands in for the CPU provider where the tests run, once by the plain CPU provider.
    """
    path = fetch(model)
    peer = open_peer(path)
    options = ort.SessionOptions()
    options.pin_cpu = plain
    with ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]) as session:
        for case in cases_of(model):
            for step, (actual, expected) in enumerate(zip(run_case(session, case), run_case(peer, case), strict=True)):
                assert_run_close(actual, expected, model=model.name, context=f"{case.name}, run {step}")


@every_model
def test_declared_inputs_and_outputs_equal_onnxruntimes(model: ZooModel) -> None:
    """Names and types of inputs and outputs, and the shapes of inputs."""
    path = fetch(model)
    peer: Any = open_peer(path)
    with ort.InferenceSession(path, providers=["CPUExecutionProvider"]) as session:
        assert [(arg.name, arg.type, arg.shape) for arg in session.get_inputs()] == [
            (arg.name, arg.type, arg.shape) for arg in peer.get_inputs()
        ]
        assert [(arg.name, arg.type) for arg in session.get_outputs()] == [
            (arg.name, arg.type) for arg in peer.get_outputs()
        ]


def test_feeds_are_not_written_to() -> None:
    """A run leaves the caller's arrays as they were, states included."""
    model = next(model for model in CATALOGUE if model.name == "silero-vad-16k-op15")
    case = cases_of(model)[0]
    before = {name: np.array(value) for name, value in case.runs[0].items()}
    with ort.InferenceSession(fetch(model), providers=["CPUExecutionProvider"]) as session:
        run_case(session, case)
    for name, value in before.items():
        np.testing.assert_array_equal(case.runs[0][name], value)


def test_the_logits_of_light_squeezenet_equal_onnxruntimes() -> None:
    """The inputs of the meaningless softmax (see `LOOSER`) are logits, equal within float32's tolerance."""
    model = by_name("light-squeezenet")
    message = onnx.load(fetch(model))
    softmax = message.graph.node[-1]
    assert softmax.op_type == "Softmax"
    message.graph.output[0].name = softmax.input[0]
    del message.graph.node[-1]
    feeds = cases_of(model)[0].runs[0]
    (expected,) = onnxruntime.InferenceSession(message.SerializeToString()).run(None, feeds)
    with ort.InferenceSession(message, providers=["CPUExecutionProvider"]) as session:
        (actual,) = session.run(None, feeds)
    assert_close(actual, expected, context="logits")
