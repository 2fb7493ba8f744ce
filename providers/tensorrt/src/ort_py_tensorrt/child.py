"""The child process that builds one engine: reads a folder, reports progress, and writes the engine there.

Each line of its output is a JSON object. It ends at once, and removes the folder, if its input is closed: the process
that wants the engine is gone then. Started by `jobs`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from ort_py_tensorrt.building import build
from ort_py_tensorrt.job_files import ENGINE, TIMES, read_request
from ort_py_tensorrt.toolkit import Toolkit, open_toolkit
from ort_py_tensorrt.variants import VARIANTS

__all__ = ["main"]


def main(folder: Path) -> int:
    """Build what the folder asks for.

    Returns:
        The exit status: 0 if the engine was written. Otherwise the last line says why not.
    """
    threading.Thread(target=_watch, args=(folder,), daemon=True).start()
    try:
        request = read_request(folder)
        variant = next(one for one in VARIANTS if one.provider == request.provider)
        toolkit = open_toolkit(variant)
        toolkit.detailed = request.detailed
        _forward_messages(toolkit)
        engine, times = build(toolkit, request.model, request.profile, request.wishes, _progress, request.times)
        if times is not None:
            (folder / TIMES).write_bytes(times)
        part = folder / f"{ENGINE}.part"
        part.write_bytes(engine)
        part.rename(folder / ENGINE)
    except Exception as error:
        why = getattr(error, "why", None) or ()
        _say({"error": getattr(error, "what", None) or str(error), "why": [why] if isinstance(why, str) else list(why)})
        return 1
    return 0


def _say(told: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _progress(phase: str, step: int, steps: int) -> bool:
    _say({"phase": phase, "step": step, "steps": steps})
    return True


def _forward_messages(toolkit: Toolkit) -> None:
    """Let the parent log what the library says."""
    report = toolkit.report

    def forward(severity: int, text: str) -> None:
        report(severity, text)
        if severity <= 2 or toolkit.detailed:
            _say({"severity": severity, "text": text})

    toolkit.logger._report = forward  # the object that the library calls


def _watch(folder: Path) -> None:
    """End this process when its input is closed."""
    while os.read(0, 1):  # not Python's stream, whose lock the interpreter takes when it ends
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)  # native code runs on the main thread and notices no exception
