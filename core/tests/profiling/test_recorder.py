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
    recorder = recorded()
    assert [(event.name, event.arguments) for event in recorder.events] == [
        ("copy cpu:0 to fake:0_kernel_time", {"op_name": "copy cpu:0 to fake:0", "provider": "FakeExecutionProvider"}),
        ("a_kernel_time", {"op_name": "Neg", "provider": "FakeExecutionProvider"}),
        ("copy fake:0 to cpu:0_kernel_time", {"op_name": "copy fake:0 to cpu:0", "provider": "FakeExecutionProvider"}),
        ("wait for fake:0_kernel_time", {"op_name": "wait for fake:0", "provider": "FakeExecutionProvider"}),
        ("y_kernel_time", {"op_name": "Abs", "provider": "HostExecutionProvider"}),
    ]
    assert {event.category for event in recorder.events} == {"Node"}
    assert {event.thread for event in recorder.events} == {threading.get_ident()}


def test_events_follow_each_other() -> None:
    """On one thread nothing overlaps, and nothing takes less than no time."""
    events = recorded().events
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
            "tid": threading.get_ident(),
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
