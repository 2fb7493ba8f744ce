"""Bindings: inputs are read where they are, results land where the caller said, shapes may change between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.tests.api.small_models import RELU, open_model
from ort_py import BindingError, InferenceSession, IOBinding, OrtValue
from ort_py.errors import ArgumentTypeError


def bound(session: InferenceSession, x: np.ndarray[Any, Any]) -> IOBinding:
    """A binding with input and output."""
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    return binding


def test_bound_arrays_are_read_by_each_run() -> None:
    """What is written to a bound array before a run is seen by it."""
    session, x = open_model(RELU), np.full((1, 3), -1, np.float32)
    binding = bound(session, x)
    for number in (-1, 2):
        x[:] = number
        session.run_with_iobinding(binding)
        assert binding.copy_outputs_to_cpu()[0].tolist() == [[max(number, 0)] * 3]


def test_shapes_may_change() -> None:
    """A second run with more rows needs no new output binding."""
    session = open_model(RELU)
    binding = bound(session, np.ones((1, 3), np.float32))
    session.run_with_iobinding(binding)
    binding.bind_cpu_input("x", np.ones((5, 3), np.float32))
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].shape() == [5, 3]


def test_results_land_in_the_callers_memory() -> None:
    """A bound value receives the result."""
    session, target = open_model(RELU), OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding = bound(session, np.ones((2, 3), np.float32))
    binding.bind_ortvalue_output("y", target)
    session.run_with_iobinding(binding)
    assert target.numpy().tolist() == [[1, 1, 1], [1, 1, 1]]


def test_memory_that_does_not_fit_is_refused() -> None:
    """The message names the output and both shapes."""
    session = open_model(RELU)
    binding = bound(session, np.ones((2, 3), np.float32))
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_shape_and_type([9, 3], np.float32))
    with pytest.raises(BindingError, match=r"bound to output 'y'.*\n.*\n.*\[9, 3\]; result: float \[2, 3\]"):
        session.run_with_iobinding(binding)


def test_names_are_texts() -> None:
    """Of inputs and of outputs: a number is no misspelled name."""
    binding = open_model(RELU).io_binding()
    value = OrtValue.ortvalue_from_numpy(np.ones((1, 3), np.float32))
    wrong: Any = 3
    bindings: list[Callable[[], None]] = [
        lambda: binding.bind_cpu_input(wrong, value.numpy()),
        lambda: binding.bind_output(wrong),
        lambda: binding.bind_ortvalue_output(wrong, value),
    ]
    for bind in bindings:
        with pytest.raises(ArgumentTypeError, match="The name to bind is 3") as caught:
            bind()
        assert "name of an input or output" in caught.value.fix
