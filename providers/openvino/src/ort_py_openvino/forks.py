"""Use of OpenVINO in a process that was forked after OpenVINO was started.

On the processor with one stream, the thread that asks for a run does the work itself where no others are there:
sessions go on, and new ones can be made. With more streams, or several devices, OpenVINO hands runs to threads of its
own, which a child does not have: a run would wait forever. So would giving up what was inherited, which ends threads.

It also does not help a child if OpenVINO's threads were at work during the fork: they may have held locks.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ort_py.errors import EPFail
from ort_py.platform.forks import ForkPause, notify_after_fork
from ort_py_openvino.properties import Target

__all__ = ["CALLS", "Inheritance", "check_process"]

CALLS = ForkPause()
"""Calls of OpenVINO that take locks: a fork waits for those of other threads."""


class Inheritance:
    """Detects that a compiled model was inherited by a child process, where it is never released and perhaps cannot be
    used.

    Args:
        compiled: The model.
        target: What it was compiled for.
    """

    def __init__(self, compiled: Any, target: Target) -> None:
        self._compiled = compiled
        self._target = target
        self.unusable = False
        notify_after_fork(self)

    def after_fork(self) -> None:
        """Called in the child."""
        self.unusable = self._target.has_threads or not CALLS.rested
        _keep_forever(self._compiled)

    def check(self) -> None:
        """Return whether a request may be run here.

        Raises:
            EPFail: It would wait forever.
        """
        if self.unusable:
            raise _refusal(self._target.device)

    def release(self, request: Any) -> None:
        """Called with a request that is given up: where that would wait for threads, it never goes."""
        if self.unusable:
            _keep_forever(request)

    def close(self) -> None:
        """Note that the model was released, so that children that are forked later do not inherit it."""
        self._compiled = None


class _Process:
    """Whether this process got its OpenVINO from its parent."""

    def __init__(self) -> None:
        self.started = self.inherited = False

    def after_fork(self) -> None:
        self.inherited = self.inherited or self.started


_process = _Process()
notify_after_fork(_process)


def check_process(target: Target) -> None:
    """Return whether a session can be made for a target here; from now on this process has started OpenVINO.

    Raises:
        EPFail: The parent has, and the target needs threads.
    """
    if _process.inherited and (target.has_threads or not CALLS.rested):
        raise _refusal(target.device)
    _process.started = True


def _keep_forever(what: Any) -> None:
    """Add a reference that is never dropped, not even when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(what))


def _refusal(device: str) -> EPFail:
    if not CALLS.rested:
        return EPFail(
            "This process was forked while threads of OpenVINO were at work, which may have held locks.",
            fix="start processes with multiprocessing's 'spawn', or fork while no thread runs a session",
        )
    return EPFail(
        f"This process was forked from one that had started OpenVINO, whose threads for {device} it does not have.",
        fix="start processes with multiprocessing's 'spawn', or use device_type='CPU' with num_streams=1",
    )
