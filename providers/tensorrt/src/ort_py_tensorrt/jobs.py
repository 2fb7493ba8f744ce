"""One build in a child process: with its progress, a limit of time, and an end at any moment that leaves nothing.

Comes after `workers`.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable

from ort_py.errors import EPFail
from ort_py_tensorrt.job_files import ENGINE, TIMES, Request
from ort_py_tensorrt.workers import Worker, can_start, parsed

__all__ = ["Step", "run_build"]

_logger = logging.getLogger("ort_py_tensorrt.building")

_POLL = 0.05
"""Seconds between two looks at the caller's wish to end."""

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
    resting: Callable[[], Worker | None] = lambda: None,
) -> tuple[bytes, bytes | None]:
    """Build an engine in a child process and wait for it.

    Args:
        request: What to build.
        device: Number of the GPU that the child measures on; None if it needs none.
        limit: Seconds that it may take; None for no limit.
        check: Called again and again; what it raises ends the build.
        step: Told about progress.
        resting: Returns a process that is there already, which is ended after the build.

    Returns:
        The engine; times of kernels.

    Raises:
        EPFail: The build took longer than the limit, the library builds no engine, or the child ended without one.
        Exception: As `check`.
    """
    if not can_start():
        raise EPFail(
            "An engine cannot be built: this program does not say where its Python interpreter is.",
            why="engines are built in a process of their own",
            fix="Set sys.executable, or write the engines with `ort-py compile` beforehand.",
        )
    end = None if limit is None else time.monotonic() + limit
    rested = resting()
    worker = rested or Worker(device)
    try:
        folder = worker.send("build", request)
        reasons = _follow(worker.lines, end, limit, check, step)
        if worker is rested and worker.left and not (folder / ENGINE).exists():
            worker.close()
            worker = Worker(device)
            folder = worker.send("build", request)
            reasons = _follow(worker.lines, end, limit, check, step)
        engine, times = folder / ENGINE, folder / TIMES
        if not engine.exists():
            raise EPFail(
                f"The process that builds an engine ended without one: {'; '.join(reasons or worker.ending())}",
                fix="The next provider can run the region. Messages of the library are in the log 'ort_py_tensorrt'.",
            )
        return engine.read_bytes(), times.read_bytes() if times.exists() else None
    finally:
        worker.close()


def _follow(
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
            return reasons
        told = parsed(line)
        if "error" in told:
            reasons = [str(told["error"]), *map(str, told.get("why", ()))]
        elif "text" in told:
            _logger.log(_LEVELS.get(int(told.get("severity", 3)), logging.INFO), "%s", told["text"])
        elif "phase" in told and step is not None:
            step(str(told["phase"]), int(told["step"]), int(told["steps"]))
