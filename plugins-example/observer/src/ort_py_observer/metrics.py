"""Metrics for Prometheus, in the default registry of `prometheus_client`: whatever exports that, exports these.

Labels are titles of models, names of providers and classes of errors: few, so the number of series stays small.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

__all__ = ["COMPILE_SECONDS", "FALLBACKS", "RUNS", "RUN_SECONDS", "SESSIONS"]

_FROM_MICROSECONDS = (1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

SESSIONS = Gauge("ort_py_sessions", "Sessions that are open", ["model"])
RUNS = Counter("ort_py_runs", "Runs that ended, by outcome: ok, or the class of the error", ["model", "outcome"])
RUN_SECONDS = Histogram("ort_py_run_seconds", "Time of runs", ["model"], buckets=_FROM_MICROSECONDS)
COMPILE_SECONDS = Histogram("ort_py_compile_seconds", "Time to compile a region", ["provider", "from_cache"])
FALLBACKS = Counter("ort_py_fallbacks", "What did not run where it was asked to", ["kind", "provider"])
