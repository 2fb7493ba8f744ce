"""One build in a child process: with its progress, a limit of time, and an end at any moment that leaves nothing.

The library cannot be stopped while it builds, takes gigabytes that it keeps, and may crash; a process of its own can
be ended, and takes none of the caller's memory. Comes after `job_files`; the child runs `child`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from ort_py.errors import EPFail
from ort_py_tensorrt.job_files import ENGINE, TIMES, Request, write_request

__all__ = ["Step", "run_build"]

_logger = logging.getLogger("ort_py_tensorrt.building")

_POLL = 0.05
"""Seconds between two looks at the caller's wish to end."""

_CODE = """
import json, sys
from pathlib import Path
sys.path[:] = json.loads(sys.argv[2])
from ort_py_tensorrt.child import main
sys.exit(main(Path(sys.argv[1])))
"""
"""Started with the path of this process, so that the child finds the same packages."""

_LEVELS = {0: logging.ERROR, 1: logging.ERROR}

Step = Callable[[str, int, int], None]
"""Told about progress: name of a phase, its step, its number of steps."""


def run_build(
    request: Request,
    *,
    device: int | None = None,
    limit: float | None = None,
    check: Callable[[], None] | None = None,
    step: Step | None = None,
) -> tuple[bytes, bytes | None]:
    """Build an engine in a child process and wait for it.

    Args:
        request: What to build.
        device: Number of the GPU that the child measures on; None if it needs none.
        limit: Seconds that it may take; None for no limit.
        check: Called again and again; what it raises ends the build.
        step: Told about progress.

    Returns:
        The engine; times of kernels.

    Raises:
        EPFail: The build took longer than the limit, the library builds no engine, or the child ended without one.
        Exception: As `check`.
    """
    if not sys.executable:
        raise EPFail(
            "An engine cannot be built: this program does not say where its Python interpreter is.",
            why="engines are built in a process of their own",
            fix="Set sys.executable, or write the engines with `ort-py compile` beforehand.",
        )
    end = None if limit is None else time.monotonic() + limit
    with _folder() as folder:
        write_request(folder, request)
        with _child(folder, device) as (process, lines):
            reasons = _follow(process, lines, end, limit, check, step)
        engine, times = folder / ENGINE, folder / TIMES
        if process.returncode != 0 or not engine.exists():
            why = reasons or [f"its exit status is {process.returncode}", *_last_words(folder)]
            raise EPFail(
                f"The process that builds an engine ended without one: {'; '.join(why)}",
                fix="The next provider can run the region. Messages of the library are in the log 'ort_py_tensorrt'.",
            )
        return engine.read_bytes(), times.read_bytes() if times.exists() else None


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ort-py-tensorrt-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _child(folder: Path, device: int | None) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str | None]]]:
    command = [sys.executable, "-c", _CODE, str(folder), json.dumps(sys.path)]
    with (folder / "errors").open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, and code of this file
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
            env=_environment(device),
        )
    assert process.stdout is not None
    assert process.stdin is not None
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        yield process, lines
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        with contextlib.suppress(OSError):  # it may be gone already
            process.stdin.close()


def _read(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _follow(
    process: subprocess.Popen[str],
    lines: queue.Queue[str | None],
    end: float | None,
    limit: float | None,
    check: Callable[[], None] | None,
    step: Step | None,
) -> list[str]:
    """Read what the child says until it ends. Returns why it failed."""
    reasons: list[str] = []
    while True:
        if check is not None:
            check()
        if end is not None and time.monotonic() > end:
            raise EPFail(
                f"Building an engine took longer than {limit:g} seconds.",
                fix="Allow more with the option build_seconds, or leave the region to the next provider.",
            )
        try:
            line = lines.get(timeout=_POLL)
        except queue.Empty:
            continue
        if line is None:
            process.wait()
            return reasons
        told = _parsed(line)
        if "error" in told:
            reasons = [str(told["error"]), *map(str, told.get("why", ()))]
        elif "text" in told:
            _logger.log(_LEVELS.get(int(told.get("severity", 3)), logging.INFO), "%s", told["text"])
        elif "phase" in told and step is not None:
            step(str(told["phase"]), int(told["step"]), int(told["steps"]))


def _parsed(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:  # a library that writes to standard output
        return {"text": line.rstrip(), "severity": 3}
    return told if isinstance(told, dict) else {}


def _last_words(folder: Path) -> list[str]:
    lines = (folder / "errors").read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if line.strip()][-3:]


def _environment(device: int | None) -> dict[str, str]:
    """Return the child's environment, in which CUDA shows the one GPU that it measures on."""
    environment = dict(os.environ)
    if device is not None:
        shown = [one.strip() for one in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
        environment["CUDA_VISIBLE_DEVICES"] = shown[device] if device < len(shown) else str(device)
    return environment
