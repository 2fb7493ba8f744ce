"""Bindings: inputs are read where they are, results land where the caller said, shapes may change between runs."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.tests.small_models import RELU, TWO_OUTPUTS, open_model
from ort_py import BindingError, InferenceSession, IOBinding, OrtValue, RunOptions, SessionOptions
from ort_py.errors import ArgumentTypeError


def bound(session: InferenceSession, x: np.ndarray[Any, Any]) -> IOBinding:
    """A binding with input and output."""
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    return binding


def test_bound_arrays_are_read_by_each_run() -> None:
    """A run sees changes that are made to a bound array before it."""
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


ROWS = 100_000
"""Of a result that is large enough to be written where it is wanted."""


def large(seed: int = 0) -> np.ndarray[Any, Any]:
    """Numbers for a large result."""
    return np.random.default_rng(seed).standard_normal((ROWS, 3)).astype(np.float32)


def test_large_results_are_written_where_they_are_wanted() -> None:
    """Later runs take no memory for the result, and so they do after runs of other shapes."""
    session, x, target = open_model(RELU), large(), np.empty((ROWS, 3), np.float32)
    binding = session.io_binding()
    for rows in (ROWS, ROWS, 10, ROWS, ROWS):
        binding.bind_cpu_input("x", x[:rows])
        binding.bind_output("y", "cpu", 0, np.float32, (rows, 3), target.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(target[:rows], np.maximum(x[:rows], 0))
    tracemalloc.start()
    try:
        session.run_with_iobinding(binding)
        assert tracemalloc.get_traced_memory()[1] < target.nbytes / 2
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(target, np.maximum(x, 0))


def test_large_results_without_memory() -> None:
    """Later runs write to the memory of the first; arrays of ordinary runs stay as they are."""
    session = open_model(RELU)
    binding = bound(session, large())
    session.run_with_iobinding(binding)
    first = binding.get_outputs()[0].numpy()
    for seed in range(1, 4):
        x = large(seed)
        binding.bind_cpu_input("x", x)
        session.run_with_iobinding(binding)
        assert np.may_share_memory(binding.get_outputs()[0].numpy(), first)
        np.testing.assert_array_equal(first, np.maximum(x, 0))
        (y,) = session.run(None, {"x": x})
        assert not np.may_share_memory(y, first)


@pytest.mark.parametrize("shift", [0, 1])
def test_a_large_buffer_may_be_input_and_output(shift: int) -> None:
    """It is read in full before it is written, run after run."""
    session, block = open_model("g (float[N] x) => (float[N] y) { a = Neg(x) y = Add(a, x) }"), large().reshape(-1)
    x, y = block[: -shift or None], block[shift:]
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    for _ in range(3):
        x[...] = np.arange(len(x), dtype=np.float32)
        session.run_with_iobinding(binding)
        assert not y.any()


def test_one_large_buffer_for_two_outputs() -> None:
    """The one that was bound last is in it, as where results are copied."""
    session, x, target = open_model(TWO_OUTPUTS), large().reshape(-1), np.empty(3 * ROWS, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    for name in ("up", "down"):
        binding.bind_output(name, "cpu", 0, np.float32, target.shape, target.ctypes.data)
    for _ in range(3):
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(target, -x)


def test_runs_that_are_looked_at_fill_bound_memory_too(tmp_path: Path) -> None:
    """A profile, and options of the run."""
    options = SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    x, target = large(), np.empty((ROWS, 3), np.float32)
    for session, run_options in ((open_model(RELU, options), None), (open_model(RELU), RunOptions())):
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "cpu", 0, np.float32, target.shape, target.ctypes.data)
        for _ in range(3):
            target[...] = -1
            session.run_with_iobinding(binding, run_options)
            np.testing.assert_array_equal(target, np.maximum(x, 0))
        session.close()


def test_a_closed_session_runs_no_binding() -> None:
    session = open_model(RELU)
    binding = bound(session, large())
    session.run_with_iobinding(binding)
    session.close()
    with pytest.raises(BindingError, match="closed"):
        session.run_with_iobinding(binding)


def test_a_binding_keeps_no_program_of_a_closed_session() -> None:
    """It may live on; the weights go when the session is closed."""
    session = open_model(RELU)
    binding = session.io_binding()
    binding.bind_cpu_input("x", large())
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(large()))
    for _ in range(3):
        session.run_with_iobinding(binding)
    runner = session.engine.runner
    assert runner is not None
    program = weakref.ref(runner.program)
    del runner
    session.close()
    assert program() is None
    assert binding.get_outputs()


def test_copies_of_inputs_go_with_the_run() -> None:
    """An input that lies in pieces is copied by each run, and the copy is not kept for the next."""
    session, x = open_model(RELU), np.concatenate([large(), large()], axis=1)[:, ::2]
    binding, target = session.io_binding(), np.empty_like(large())
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(target))
    session.run_with_iobinding(binding)
    tracemalloc.start()
    try:
        for _ in range(3):
            session.run_with_iobinding(binding)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(target, np.maximum(x, 0))
    assert held < x.nbytes // 2


def test_memory_that_does_not_fit_is_refused() -> None:
    """The message names the output and both shapes."""
    session = open_model(RELU)
    binding = bound(session, np.ones((2, 3), np.float32))
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_shape_and_type([9, 3], np.float32))
    with pytest.raises(BindingError, match=r"bound to output 'y'.*\n.*\n.*\[9, 3\]; result: float \[2, 3\]"):
        session.run_with_iobinding(binding)


def test_names_are_texts() -> None:
    """Names of inputs and outputs are texts; a number is not a misspelt name."""
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
