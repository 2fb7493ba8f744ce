"""ONNX's shape inference in separate processes, for untrusted models.

Inference is C++ and trusts the numbers of a model: with some of them it crashes or does not end. A crash here ends a
child process only, and a child that takes too long is ended. Processes are kept for the next model, a few
hundredths of a second each to start. Used by `native_inference`; knows no graph.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from pathlib import Path

from ort_py.errors import InconsistentGraph
from ort_py.graph.typing import inference_child as child
from ort_py.graph.typing.native_inference import InferenceError
from ort_py.limits import Budget
from ort_py.onnx_parts import onnx
from ort_py.platform.forks import ProcessLock

_MOST_IDLE = 4
"""Processes that are kept while no model is being loaded."""


def available() -> bool:
    """Return whether this interpreter can be started as a process: not if it is embedded in a program or frozen into
    one.
    """
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def infer_shapes(data: bytes, *, strict: bool, budget: Budget) -> bytes:
    """Infer the types of a model in another process.

    Args:
        strict: Raise where the model contradicts itself.
        budget: Its time bounds how long the process may take; that for loading as a whole, where it has no end.

    Returns:
        The model with the types of its values.

    Raises:
        InferenceError: The model contradicts itself.
        ValueError: Inference failed otherwise.
        InconsistentGraph: Inference ended its process.
        LimitError: The time for loading is over.
    """
    left = budget.seconds_left()
    seconds = budget.limits.load_seconds if left is None else left
    process = _pool.take()
    kept = False
    try:
        answer = process.ask(data, strict, seconds)
        kept = answer is not None
    finally:
        _pool.give(process) if kept else process.end()
    if answer is None:
        budget.check_time()
        raise InconsistentGraph(
            "ONNX's shape inference crashes or hangs on this model.",
            why="it ended its process, or exceeded the time or memory allowed for that process",
            fix="Do not use this model: some numbers in it are absurdly large, or leave a size below 0.",
        )
    kind, result = answer
    if kind == child.CONTRADICTION:
        raise InferenceError(result.decode())
    if kind == child.FAILED:
        raise ValueError(result.decode())
    return result


class _Process:
    """One child."""

    def __init__(self) -> None:
        extension = onnx.onnx_cpp2py_export.__file__
        # A session or a console of its own: Ctrl-C in a terminal is for the parent, which ends the child itself.
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and a file of this package
            [sys.executable, "-I", "-S", str(Path(child.__file__)), str(extension)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )

    def ask(self, data: bytes, strict: bool, seconds: float | None) -> tuple[int, bytes] | None:
        """Kind and content of the answer, or None if the process died."""
        assert self._process.stdin is not None  # both are pipes
        assert self._process.stdout is not None
        source, target = self._process.stdin, self._process.stdout
        try:
            source.write(child.REQUEST.pack(len(data), strict, 0.0 if seconds is None else max(seconds, 0.001)))
            source.write(data)
            source.flush()
        except OSError:
            return None
        header = target.read(child.ANSWER.size)
        if len(header) < child.ANSWER.size:
            return None
        kind, size = child.ANSWER.unpack(header)
        result = target.read(size)
        return (kind, result) if len(result) == size else None

    def end(self) -> None:
        """End the process, and wait until it is gone."""
        self._process.kill()
        with contextlib.suppress(OSError):
            self._process.communicate()


class _Pool:
    """Idle processes of this process; those of the process it was forked from are not its own."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._owner = os.getpid()
        self._idle: list[_Process] = []
        atexit.register(self.close)

    def take(self) -> _Process:
        with self._lock.held():
            if self._owner != os.getpid():
                self._owner, self._idle = os.getpid(), []
            if self._idle:
                return self._idle.pop()
        return _Process()

    def give(self, process: _Process) -> None:
        """Take a process back."""
        with self._lock.held():
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(process)
                return
        process.end()

    def close(self) -> None:
        """End all idle processes of this process."""
        with self._lock.held():
            idle, self._idle = self._idle, []
        if self._owner == os.getpid():
            for process in idle:
                process.end()


_pool = _Pool()
