"""The child process that asks the parser, and then builds one engine.

Each line of its input names what to do and a folder with the request; each line of its output is a JSON object. It
ends after a build, or if it gets no work for a while. It ends at once, and removes its folder, if its input is closed:
the process that wants the engine is gone then. Started by `workers`.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from ort_py_tensorrt.building import build
from ort_py_tensorrt.job_files import ENGINE, TIMES, Request, read_request
from ort_py_tensorrt.parsing import ask
from ort_py_tensorrt.toolkit import Toolkit, open_toolkit
from ort_py_tensorrt.variants import VARIANTS

__all__ = ["main"]


_IDLE = 30.0
"""Seconds without work after which the process ends."""


def main(folder: Path) -> int:
    """Do what the lines of the input say.

    Args:
        folder: Folder of this process.

    Returns:
        The exit status: 0 if an engine was written, or nothing was left to do. Otherwise the last line says why not.
    """
    work: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_watch, args=(folder, work), daemon=True).start()
    while True:
        try:
            wanted = work.get(timeout=_IDLE)
        except queue.Empty:
            return 0
        try:
            if wanted["do"] == "build":
                _build(Path(wanted["folder"]))
                return 0
            _ask(Path(wanted["folder"]))
        except Exception as error:
            why = getattr(error, "why", None) or ()
            reasons = [why] if isinstance(why, str) else list(why)
            _say({"error": getattr(error, "what", None) or str(error), "why": reasons})
            return 1


def _ask(folder: Path) -> None:
    """Say what the parser answers."""
    request = read_request(folder)
    toolkit = _toolkit(request)
    found = ask(toolkit, request.model)
    shutil.rmtree(folder, ignore_errors=True)
    _say({"verdict": found.to_json()})


def _build(folder: Path) -> None:
    """Write an engine."""
    request = read_request(folder)
    toolkit = _toolkit(request)
    engine, times = build(toolkit, request.model, request.profile, request.wishes, _progress, request.times)
    if times is not None:
        (folder / TIMES).write_bytes(times)
    part = folder / f"{ENGINE}.part"
    part.write_bytes(engine)
    part.rename(folder / ENGINE)


def _toolkit(request: Request) -> Toolkit:
    toolkit = open_toolkit(next(one for one in VARIANTS if one.provider == request.provider))
    toolkit.detailed = request.detailed
    _forward_messages(toolkit)
    return toolkit


def _say(told: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _progress(phase: str, step: int, steps: int) -> bool:
    _say({"phase": phase, "step": step, "steps": steps})
    return True


def _forward_messages(toolkit: Toolkit) -> None:
    """Let the parent log what the library says."""
    report = toolkit.report  # the class's, however often this is called

    def forward(severity: int, text: str) -> None:
        report(severity, text)
        if severity <= 2 or toolkit.detailed:
            _say({"severity": severity, "text": text})

    toolkit.logger._report = forward  # the object that the library calls


def _watch(folder: Path, work: queue.Queue[dict[str, Any]]) -> None:
    """Pass the input on, and end this process when it is closed."""
    rest = b""
    while part := os.read(0, 1 << 16):  # not Python's stream, whose lock the interpreter takes when it ends
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            work.put(json.loads(line))
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)  # native code runs on the main thread and notices no exception
