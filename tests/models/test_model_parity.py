"""Every trained model of the catalogue gives what onnxruntime gives, to the tolerance of its element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py as ort
from examples.model_zoo import CATALOGUE, ZooModel, fetch
from ort_py.testing.tolerances import assert_close
from tests.support.model_comparison import open_peer, run_case
from tests.support.model_inputs import Case, cases_of

pytestmark = pytest.mark.models

every_model = pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)

_ROUNDING = (
    "the model rounds activations to 8 bits at run time, so a last-place difference before a tie moves one by a whole "
    "step, and a recurrent layer carries that on; onnxruntime differs from itself by as much when the model's scales "
    "are changed in the last place"
)

LOOSER: dict[str, tuple[float, float, str]] = {
    "tashkeel-bilstm": (1e-2, 1e-2, _ROUNDING),
    "tashkeel-rawi": (1e-2, 1e-1, _ROUNDING),
    "tashkeel-rawi-v3": (1e-2, 1e-1, _ROUNDING),
    "light-squeezenet": (
        0.0,
        1.0,
        "its constant weights make a thousand equal logits near 3e9, where neighbouring float32 numbers are 256 apart, "
        "and the softmax of those is decided by the order of summation: only type and shape mean something",
    ),
}
"""Relative and absolute tolerance of the few models that need more than their element type's, and why."""


@every_model
def test_outputs_equal_onnxruntimes(model: ZooModel) -> None:
    """All outputs of all runs of all cases, states carried on by each runtime for itself."""
    path = fetch(model)
    peer = open_peer(path)
    with ort.InferenceSession(path, providers=["CPUExecutionProvider"]) as session:
        for case in cases_of(model):
            for step, (actual, expected) in enumerate(zip(run_case(session, case), run_case(peer, case), strict=True)):
                _compare(model, case, step, actual, expected)


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


def _compare(model: ZooModel, case: Case, step: int, actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(actual) == list(expected)
    for name, value in expected.items():
        context = f"{model.name}, {case.name}, run {step}, output {name[:40]}"
        if model.name in LOOSER:
            rtol, atol, _ = LOOSER[model.name]
            assert actual[name].dtype == value.dtype, context
            np.testing.assert_allclose(actual[name], value, rtol=rtol, atol=atol, err_msg=context)
        else:
            assert_close(actual[name], value, context=context)
