"""Spans for OpenTelemetry, made when the work they tell of has ended.

ort-py calls observers in the context of the caller, also for asynchronous runs: so the span that is current there is
the parent, and the run is part of the caller's trace. Without an OpenTelemetry SDK in the process the API does nothing,
quickly.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from opentelemetry import trace

__all__ = ["record"]


def record(
    name: str,
    seconds: float,
    attributes: Mapping[str, str | int],
    error: BaseException | None = None,
) -> None:
    """A span that ends now.

    Args:
        name: What was done.
        seconds: How long it took.
        attributes: What is known of it.
        error: What it failed with.
    """
    end = time.time_ns()
    # Asked for each time, not kept: programs set their tracer up when they like.
    tracer = trace.get_tracer("ort_py")
    span = tracer.start_span(name, start_time=end - int(seconds * 1e9), attributes=dict(attributes))
    if error is not None:
        span.record_exception(error)
        span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.end(end)
