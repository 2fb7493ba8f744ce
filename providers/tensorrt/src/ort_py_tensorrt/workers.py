"""Child processes in which the library parses and builds: their start, what is sent to them, and their end.

The library may crash, cannot be stopped while it builds, and takes gigabytes that it keeps. A process of its own can be
ended at any moment and leaves nothing. It answers any number of questions, and then builds one engine, so that it is
started once for both. In between it rests: one process at most, for whichever session is the next to need it. Comes
after `job_files`; the process runs `child`, and `jobs` and `questions` use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from ort_py.platform.forks import ProcessLock
from ort_py_tensorrt.job_files import Request, WeightFile, write_request

__all__ = ["Worker", "can_start", "end_resting", "parsed", "rest", "take_resting"]

_CODE = """
import json, sys
from pathlib import Path
sys.path[:] = json.loads(sys.argv[2])
from ort_py_tensorrt.child import main
sys.exit(main(Path(sys.argv[1])))
"""
"""Started with the path of this process, so that the child finds the same packages."""


def can_start() -> bool:
    """Return whether this program says where its Python interpreter is."""
    return bool(sys.executable)


class Worker:
    """A process that waits for work.

    Args:
        device: Number of the GPU that it measures on; None if it needs none.

    Attributes:
        device: As given.
        lines: What it says, line by line; None after its end.
    """

    def __init__(self, device: int | None) -> None:
        self.device = device
        self._process_id = os.getpid()
        self._folder = Path(tempfile.mkdtemp(prefix="ort-py-tensorrt-"))
        self._weights = WeightFile(self._folder / "weights")
        self._jobs = 0
        self.lines: queue.Queue[str | None] = queue.Queue()
        try:
            with (self._folder / "errors").open("w", encoding="utf-8") as errors:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and code of this file
                    [sys.executable, "-c", _CODE, str(self._folder), json.dumps(sys.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    encoding="utf-8",
                    env=_environment(device),
                )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def ours(self) -> bool:
        """Whether this process has started it, and not the one that this was forked from."""
        return self._process_id == os.getpid()

    @property
    def alive(self) -> bool:
        """Whether it can be given work: it ends by itself if it gets none for a while."""
        return self._process.poll() is None

    @property
    def left(self) -> bool:
        """Whether it has ended because it got no work, perhaps while it was given some."""
        return self._process.poll() == 0

    def send(self, kind: str, request: Request) -> Path:
        """Give it work.

        Args:
            kind: ``"ask"`` or ``"build"``, which is the last work.
            request: What is asked or built.

        Returns:
            The folder of the request.
        """
        self._jobs += 1
        folder = self._folder / str(self._jobs)
        folder.mkdir()
        write_request(folder, request, self._weights)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, which its lines say
            self._process.stdin.write(json.dumps({"do": kind, "folder": str(folder)}) + "\n")
            self._process.stdin.flush()
        return folder

    def ending(self) -> list[str]:
        """Wait for its end, which has begun; return what is known of the reasons."""
        status = self._process.wait()
        lines = (self._folder / "errors").read_text(encoding="utf-8", errors="replace").splitlines()
        return [_status(status), *[line for line in lines if line.strip()][-3:]]

    def close(self) -> None:
        """End it, and remove its files."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdout, self._process.stdin):
            assert stream is not None
            with contextlib.suppress(OSError):  # it may be gone already
                stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.put(line)
        self._process.wait()
        self.lines.put(None)


_lock = ProcessLock()
_resting: list[tuple[object, Worker]] = []
"""The process that rests, if there is one, and who used it last."""


def take_resting(device: int | None) -> Worker | None:
    """Return the process that rests, or None if there is none for a device."""
    with _lock.held():
        _, worker = _resting.pop() if _resting else (None, None)
    if worker is None or not worker.ours:
        return None
    if worker.alive and worker.device == device:
        return worker
    worker.close()
    return None


def rest(worker: Worker, user: object) -> None:
    """Keep a process for the next one who needs it, unless another one rests already."""
    with _lock.held():
        if not _resting:
            _resting.append((user, worker))
            return
    worker.close()


def end_resting(user: object) -> None:
    """End the process that rests, if it was last used by somebody."""
    with _lock.held():
        worker = _resting.pop()[1] if _resting and _resting[0][0] is user else None
    if worker is not None and worker.ours:
        worker.close()


def parsed(line: str) -> dict[str, Any]:
    """Return what a line says."""
    try:
        said = json.loads(line)
    except ValueError:  # a library that writes to standard output
        return {"text": line.rstrip(), "severity": 3}
    return said if isinstance(said, dict) else {}


def _status(status: int) -> str:
    if status >= 0:
        return f"its exit status is {status}"
    try:
        return f"it was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was ended by signal {-status}"


def _environment(device: int | None) -> dict[str, str]:
    """Return the child's environment, in which CUDA shows the one GPU that it measures on."""
    environment = dict(os.environ)
    if device is not None:
        shown = [one.strip() for one in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
        environment["CUDA_VISIBLE_DEVICES"] = shown[device] if device < len(shown) else str(device)
    return environment
