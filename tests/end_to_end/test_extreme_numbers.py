"""Models whose numbers are extreme end in a result or a typed error: never in a signal, and never much past the limits.

`scripts/attack_numbers.py` tries many more of them.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py as ort
from tests.support.child_trials import failures, run_trials
from tests.support.extreme_numbers import draw, mutated
from tests.support.number_attack import SECONDS, attempt, attempt_trusted

STRICT = dataclasses.replace(ort.Limits.untrusted(), load_seconds=3, run_seconds=3)


@pytest.mark.slow
@pytest.mark.parametrize("try_one", [attempt, attempt_trusted])
def test_random_mutants_end_well(try_one: Callable[[Any], str]) -> None:
    """A few hundred mutants of the backend suite, as many as half a minute allows."""
    mutants = draw(random.Random(19), 300)
    outcomes = run_trials(
        try_one, [mutated(one) for one in mutants], seconds=8 * SECONDS, deadline=time.monotonic() + 25
    )
    assert outcomes
    assert [(one, mutants[one.trial]) for one in failures(outcomes)] == []


@pytest.mark.parametrize("axis", [2**63 - 1, -(2**63), 2**31, 70])
@pytest.mark.parametrize("how", ["constant", "attribute", "fed"])
@pytest.mark.parametrize("known", [True, False])
def test_an_axis_that_no_tensor_has(axis: int, how: str, known: bool) -> None:
    """Nothing of the length of the axis is built, wherever it is written and whatever is known of the shape."""
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, ["n"] if known else None)]
    feeds = {"x": np.ones(3, np.float32)}
    constants = []
    if how == "attribute":
        node, opset = helper.make_node("Unsqueeze", ["x"], ["y"], axes=[axis]), 11
    else:
        node, opset = helper.make_node("Unsqueeze", ["x", "a"], ["y"]), 20
        if how == "constant":
            constants.append(numpy_helper.from_array(np.array([axis]), "a"))
        else:
            inputs.append(info("a", TensorProto.INT64, [1]))
            feeds["a"] = np.array([axis])
    graph = helper.make_graph([node], "g", inputs, [info("y", TensorProto.FLOAT, None)], constants)
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    options = ort.SessionOptions()
    options.limits = STRICT
    with pytest.raises(ort.OrtPyError):
        ort.InferenceSession(model.SerializeToString(), options).run(None, feeds)
