"""Writes recorded events as a Chrome trace, in the shape of onnxruntime's profile files.

One JSON array of ``X`` events with ``cat, pid, tid, dur, ts, ph, name, args`` in microseconds; Perfetto and
``chrome://tracing`` read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ort_py.logs import lazy_logger
from ort_py.profiling.recorder import ProfileEvent, Recorder

_logger = lazy_logger("ort_py.session")


def write_profile(recorder: Recorder, prefix: str, facts: Mapping[str, str] | None = None) -> str:
    """Write all events to a new file that is named after its prefix and the time; returns its path.

    Where it cannot be written that is logged, and the path returned all the same: onnxruntime says nothing here, and a
    run that is over is not undone.
    """
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S_%f")[:-3]
    path = f"{prefix}_{stamp}.json"
    try:
        write_chrome_trace(recorder, Path(path), facts)
    except OSError as error:
        _logger.warning("the profile cannot be written to '%s': %s", path, error)
    return path


def write_chrome_trace(recorder: Recorder, path: Path, facts: Mapping[str, str] | None = None) -> None:
    """Write all events of a recorder.

    Args:
        facts: Facts about the whole file, added to the arguments of its first event.

    Raises:
        OSError: The file cannot be written.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write("[\n")
        file.writelines(_lines(recorder, recorder.events, facts or {}))
        file.write("\n]\n")


def _lines(recorder: Recorder, events: Sequence[ProfileEvent], facts: Mapping[str, str]) -> Iterator[str]:
    texts: dict[int, str] = {}  # runs that were alike share the arguments of their events
    for number, event in enumerate(events):
        text = texts.get(id(event.arguments))
        if text is None:
            text = texts[id(event.arguments)] = json.dumps(dict(event.arguments))
        if number == 0 and facts:
            text = json.dumps({**event.arguments, **facts})
        shown = {
            "cat": event.category,
            "pid": recorder.process,
            "tid": event.thread,
            "dur": event.duration_ns // 1000,
            "ts": (event.start_ns - recorder.started_ns) // 1000,
            "ph": "X",
            "name": event.name,
        }
        separator = ",\n" if number else ""
        yield f'{separator}{json.dumps(shown)[:-1]}, "args": {text}}}'
