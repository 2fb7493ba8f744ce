"""The target of the entry point: hooks that observe sessions, runs, compiled regions and fallbacks.

Each event goes to `spans` and to `metrics`, which are imported with the first one. Implementing `ort_py_run_finished`
makes every run an observed one, some microseconds slower; leave it out to observe sessions only.
"""

from __future__ import annotations

from ort_py.hooks import CompileEvent, FallbackEvent, RunEvent, SessionEvent, hookimpl

__all__ = [
    "ort_py_fallback",
    "ort_py_region_compiled",
    "ort_py_run_finished",
    "ort_py_session_closed",
    "ort_py_session_created",
]

_models: dict[str, str] = {}
"""Title of the model of each open session: events of runs name the session only."""


@hookimpl
def ort_py_session_created(event: SessionEvent) -> None:
    """A session is ready."""
    from ort_py_observer import metrics, spans

    _models[event.session_id] = event.model
    metrics.SESSIONS.labels(event.model).inc()
    counts = {f"ort_py.nodes.{provider}": count for provider, count in event.node_counts.items()}
    spans.record("ort_py.create_session", event.seconds, {**_of(event.session_id), **counts})


@hookimpl
def ort_py_session_closed(event: SessionEvent) -> None:
    """A session is gone."""
    from ort_py_observer import metrics

    _models.pop(event.session_id, None)
    metrics.SESSIONS.labels(event.model).dec()


@hookimpl
def ort_py_run_finished(event: RunEvent) -> None:
    """A run ended, well or not."""
    from ort_py_observer import metrics, spans

    model = _models.get(event.session_id, "")
    metrics.RUNS.labels(model, "ok" if event.error is None else type(event.error).__name__).inc()
    metrics.RUN_SECONDS.labels(model).observe(event.seconds)
    spans.record("ort_py.run", event.seconds, _of(event.session_id), event.error)


@hookimpl
def ort_py_region_compiled(event: CompileEvent) -> None:
    """A provider compiled a region, or restored it from the cache."""
    from ort_py_observer import metrics, spans

    metrics.COMPILE_SECONDS.labels(event.provider, str(event.from_cache).lower()).observe(event.seconds)
    about: dict[str, str | int] = {
        "ort_py.provider": event.provider,
        "ort_py.nodes": event.nodes,
        "ort_py.from_cache": event.from_cache,
    }
    spans.record("ort_py.compile_region", event.seconds, {**_of(event.session_id), **about})


@hookimpl
def ort_py_fallback(event: FallbackEvent) -> None:
    """Something did not run where it was asked to."""
    from ort_py_observer import metrics, spans

    metrics.FALLBACKS.labels(event.kind, event.provider).inc()
    about = {
        "ort_py.provider": event.provider,
        "ort_py.fallback.kind": event.kind,
        "ort_py.fallback.reason": event.reason,
        "ort_py.fallback.replacement": event.replacement,
        "ort_py.node": event.node,
    }
    spans.record("ort_py.fallback", 0.0, {**_of(event.session_id), **about})


def _of(session_id: str) -> dict[str, str | int]:
    """Attributes of a session that every span has. The model of a session that is being created is not known yet."""
    model = _models.get(session_id, "")
    return {"ort_py.session": session_id, **({"ort_py.model": model} if model else {})}
