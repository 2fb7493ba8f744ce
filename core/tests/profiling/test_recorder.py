"""The recorder and its Chrome trace."""

from __future__ import annotations

import itertools
import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive, floats
from ort_py.errors import OrtPyError
from ort_py.execution.watch import RunWatch
from ort_py.profiling.chrome_trace import write_chrome_trace
from ort_py.profiling.recorder import Recorder
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider

TEXT = "g (float[4] x) => (float[4] y) { a = Neg(x) y = Abs(a) }"


def recorded() -> Recorder:
    """A run on a device and the host."""
    recorder = Recorder()
    driven = drive(TEXT, FakeProvider(behaviour=FakeBehaviour(operators={"Neg"})), HostProvider())
    driven.run({"x": floats(4)}, RunWatch(recorder=recorder))
    return recorder


def test_every_step_is_an_event() -> None:
    """Kernels by node name, copies and waits by what they do; operator and provider beside them."""
    *steps, whole = recorded().events
    assert [(step.name, step.arguments["op_name"], step.arguments["provider"]) for step in steps] == [
        ("copy cpu:0 to fake:0_kernel_time", "copy cpu:0 to fake:0", "FakeExecutionProvider"),
        ("a_kernel_time", "Neg", "FakeExecutionProvider"),
        ("copy fake:0 to cpu:0_kernel_time", "copy fake:0 to cpu:0", "FakeExecutionProvider"),
        ("wait for fake:0_kernel_time", "wait for fake:0", "FakeExecutionProvider"),
        ("y_kernel_time", "Abs", "HostExecutionProvider"),
    ]
    assert {step.category for step in steps} == {"Node"}
    assert (whole.category, whole.name) == ("Session", "SequentialExecutor::Execute")
    assert {event.thread for event in (*steps, whole)} == {threading.get_native_id()}


def test_a_step_tells_what_it_reads_and_writes() -> None:
    """Element types, shapes and bytes, also of what the step was the last to read."""
    step = recorded().events[1]
    assert step.arguments == {
        "op_name": "Neg",
        "provider": "FakeExecutionProvider",
        "node_index": "1",
        "input_type_shape": [{"float": [4]}],
        "output_type_shape": [{"float": [4]}],
        "activation_size": "16",
        "parameter_size": "0",
        "output_size": "16",
    }


def test_events_follow_each_other() -> None:
    """On one thread nothing overlaps, and nothing takes less than no time."""
    *events, whole = recorded().events
    assert whole.start_ns <= events[0].start_ns
    assert all(event.duration_ns >= 0 for event in events)
    assert all(first.start_ns + first.duration_ns <= second.start_ns for first, second in itertools.pairwise(events))


def test_the_oldest_events_go() -> None:
    recorder = Recorder(capacity=2)
    for number in range(5):
        recorder.record("Session", f"event {number}", number, number + 1)
    assert [event.name for event in recorder.events] == ["event 3", "event 4"]


def test_the_trace_has_the_shape_of_onnxruntimes(tmp_path: Path) -> None:
    """One JSON array of complete events in microseconds since the recorder began."""
    recorder = Recorder()
    recorder.record("Session", "model_loading", recorder.started_ns + 5_000, recorder.started_ns + 12_500, note="é")
    path = tmp_path / "trace.json"
    write_chrome_trace(recorder, path)
    assert json.loads(path.read_text(encoding="utf-8")) == [
        {
            "cat": "Session",
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "dur": 7,
            "ts": 5,
            "ph": "X",
            "name": "model_loading",
            "args": {"note": "é"},
        }
    ]


def test_an_empty_trace_is_valid(tmp_path: Path) -> None:
    """Nothing recorded is an empty array."""
    write_chrome_trace(Recorder(), tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text()) == []


def test_other_shapes_are_told_as_they_were() -> None:
    """Runs of several shapes in turn: each event has the sizes of its own run, whichever is the usual one."""
    recorder = Recorder()
    driven = drive("g (float[N] x) => (float[N] y) { a = Neg(x) y = Abs(a) }")
    sizes = [2, 2, 3, 5, 2]
    for size in sizes:
        driven.run({"x": floats(size)}, RunWatch(recorder=recorder))
    told = [event.arguments for event in recorder.events if event.name == "y_kernel_time"]
    assert [one["output_type_shape"] for one in told] == [[{"float": [size]}] for size in sizes]
    assert [one["input_type_shape"] for one in told] == [[{"float": [size]}] for size in sizes]


def test_checks_between_steps_change_nothing_that_is_told() -> None:
    """A run that can be cancelled goes another way, and is recorded alike."""
    told = []
    for terminate in (None, lambda: False):
        recorder = Recorder()
        driven = drive(TEXT, FakeProvider(behaviour=FakeBehaviour(operators={"Neg"})), HostProvider())
        driven.run({"x": floats(4)}, RunWatch(recorder=recorder, terminate=terminate))
        told.append([(event.category, event.name, event.arguments) for event in recorder.events])
    assert told[0] == told[1]


def test_several_outputs() -> None:
    """All outputs are recorded, also in runs of the usual shapes."""
    recorder = Recorder()
    driven = drive("g (float[4] x) => (float[2] y) { a, b = Split <num_outputs = 2> (x) y = Add(a, b) }")
    for _ in range(2):
        driven.run({"x": floats(4)}, RunWatch(recorder=recorder))
    told = [event.arguments for event in recorder.events if event.arguments.get("op_name") == "Split"]
    assert [one["output_type_shape"] for one in told] == [[{"float": [2]}, {"float": [2]}]] * 2
    assert [one["output_size"] for one in told] == ["16", "16"]


def test_a_failed_run_keeps_what_it_did() -> None:
    """The steps before the failure, and no event for the whole."""
    recorder = Recorder()
    driven = drive("g (float[6] x, int64[2] s) => (float[a, b] y) { a = Neg(x) y = Reshape(a, s) }")
    with pytest.raises(OrtPyError):
        driven.run({"x": floats(6), "s": np.array([4, 4])}, RunWatch(recorder=recorder))
    assert [event.name for event in recorder.events] == ["a_kernel_time"]


def test_facts_stand_in_the_first_event(tmp_path: Path) -> None:
    """Facts about the whole file are beside the event's own arguments."""
    recorder = Recorder()
    for name in "ab":
        recorder.record("Session", name, 1, 2, own="x")
    write_chrome_trace(recorder, tmp_path / "trace.json", {"fingerprint": "f"})
    told = [event["args"] for event in json.loads((tmp_path / "trace.json").read_text())]
    assert told == [{"own": "x", "fingerprint": "f"}, {"own": "x"}]
