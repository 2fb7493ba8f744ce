"""Events in sessions arrive as spans, in the caller's trace, and as metrics."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY

import ort_py_observer
from ort_py.hooks import CompileEvent, FallbackEvent, RunEvent, SessionEvent
from ort_py_observer import plugin

PROVIDER = TracerProvider()
TRACER = PROVIDER.get_tracer("tests")


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Spans that ended during the test."""
    exporter = InMemorySpanExporter()
    PROVIDER.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", PROVIDER.get_tracer)
    yield exporter
    exporter.shutdown()


def _metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def _named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_a_run_is_part_of_the_callers_trace(finished: InMemorySpanExporter) -> None:
    """Its parent is the span that is current where the hook is called; it began when the run did."""
    with TRACER.start_as_current_span("request") as request:
        plugin.ort_py_run_finished(RunEvent("s1", 0.5))
    (span,) = _named(finished, "ort_py.run")
    assert span.parent is not None
    assert span.parent.span_id == request.get_span_context().span_id
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time == 500_000_000
    assert span.status.status_code is trace.StatusCode.UNSET


def test_a_failed_run_has_its_exception(finished: InMemorySpanExporter) -> None:
    """And counts under the class of the error."""
    before = _metric("ort_py_runs_total", model="", outcome="ValueError")
    plugin.ort_py_run_finished(RunEvent("s2", 0.1, ValueError("no")))
    (span,) = _named(finished, "ort_py.run")
    assert span.status.description == "ValueError: no"
    assert [event.name for event in span.events] == ["exception"]
    assert _metric("ort_py_runs_total", model="", outcome="ValueError") == before + 1


def test_a_session_from_beginning_to_end(finished: InMemorySpanExporter) -> None:
    """Runs carry the title of its model; the gauge goes up and down."""
    event = SessionEvent("s3", "model.onnx", ("CPUExecutionProvider",), {"CPUExecutionProvider": 3}, 0.25)
    before = _metric("ort_py_sessions", model="model.onnx")
    plugin.ort_py_session_created(event)
    assert _metric("ort_py_sessions", model="model.onnx") == before + 1
    plugin.ort_py_run_finished(RunEvent("s3", 0.001))
    plugin.ort_py_session_closed(event)
    assert _metric("ort_py_sessions", model="model.onnx") == before
    assert _metric("ort_py_run_seconds_count", model="model.onnx") == 1
    (created,), (run,) = _named(finished, "ort_py.create_session"), _named(finished, "ort_py.run")
    assert dict(created.attributes or {})["ort_py.nodes.CPUExecutionProvider"] == 3
    assert dict(run.attributes or {})["ort_py.model"] == "model.onnx"


def test_compiled_regions_and_fallbacks(finished: InMemorySpanExporter) -> None:
    plugin.ort_py_region_compiled(CompileEvent("s4", "FastExecutionProvider", 12, 2.0, from_cache=True))
    plugin.ort_py_fallback(FallbackEvent("s4", "run", "FastExecutionProvider", "device lost", "n", "CPU"))
    (compiled,), (fallback,) = _named(finished, "ort_py.compile_region"), _named(finished, "ort_py.fallback")
    assert dict(compiled.attributes or {})["ort_py.from_cache"] is True
    assert dict(fallback.attributes or {})["ort_py.fallback.reason"] == "device lost"
    assert _metric("ort_py_fallbacks_total", kind="run", provider="FastExecutionProvider") >= 1
    assert _metric("ort_py_compile_seconds_sum", provider="FastExecutionProvider", from_cache="true") >= 2


SESSION = """
import sys
sys.path.insert(0, FOLDER)
import asyncio, numpy as np, ort_py as ort
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ort_py.hooks.manager import default_hook_manager
from ort_py_kit.graphs import model_from_text
from ort_py_observer import plugin
if "ort-py-observer:observer" not in default_hook_manager().plugins():
    default_hook_manager().register(plugin, "observer")
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
model = model_from_text("g (float[2] x) => (float[2] y) { y = Relu(x) }").SerializeToString()
feed = {"x": np.ones(2, np.float32)}
with trace.get_tracer("app").start_as_current_span("request") as request:
    with ort.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        session.run(None, feed)
        asyncio.run(session.run_asyncio(None, feed))
here = request.get_span_context().span_id
found = sorted(span.name for span in exporter.get_finished_spans() if span.parent and span.parent.span_id == here)
sys.exit(0 if found == ["ort_py.create_session", "ort_py.run", "ort_py.run"] else repr(found))
"""


def test_real_sessions_are_traced() -> None:
    """Creation, a run, and a run on another thread: children of the caller's span. In a process of its own."""
    folder = str(Path(ort_py_observer.__file__).parent.parent)
    command = [sys.executable, "-c", SESSION.replace("FOLDER", repr(folder))]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
