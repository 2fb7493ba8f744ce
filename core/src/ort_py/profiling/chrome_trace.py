"""Writes recorded events as a Chrome trace, in the shape of onnxruntime's profile files.

One JSON array of ``X`` events with ``cat, pid, tid, dur, ts, ph, name, args`` in microseconds; Perfetto and
``chrome://tracing`` read it.
"""

from __future__ import annotations

import json
from pathlib import Path

from ort_py.profiling.recorder import Recorder

__all__ = ["write_chrome_trace"]


def write_chrome_trace(recorder: Recorder, path: Path) -> None:
    """Write all events of a recorder.

    Raises:
        OSError: The file cannot be written.
    """
    events = [
        {
            "cat": event.category,
            "pid": recorder.process,
            "tid": event.thread,
            "dur": event.duration_ns // 1000,
            "ts": (event.start_ns - recorder.started_ns) // 1000,
            "ph": "X",
            "name": event.name,
            "args": dict(event.arguments),
        }
        for event in recorder.events
    ]
    path.write_text("[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n", encoding="utf-8")
