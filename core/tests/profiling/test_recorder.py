"""The recorder and its Chrome trace."""

from __future__ import annotations

import itertools
import json
import os
import threading
from pathlib import Path

from core.tests.driving import HostProvider, drive, floats
from ort_py.execution.watch import RunWatch
from ort_py.profiling.chrome_trace import write_chrome_trace
from ort_py.profiling.recorder import Recorder
from ort_py.testing.fake_device import FakeBehaviour, FakeProvider

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
    """A recorder has a capacity."""
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
