"""Time two runtimes on one model in alternating blocks: one child process each, the other waits, medians are compared.

Whatever slows the machine for a while slows both. Ratios of one run are what counts; absolute times are for
orientation.
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Comparison", "compare"]

BLOCK_SECONDS = 0.3
BLOCKS = 6


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians of one model, in seconds.

    Attributes:
        ours, peer: One run.
        ours_created, peer_created: Making the session.
    """

    ours: float
    peer: float
    ours_created: float
    peer_created: float

    @property
    def ratio(self) -> float:
        """Our time over the peer's: above 1 we are slower."""
        return self.ours / self.peer


class _Child:
    def __init__(self, runtime: str, model: Path, feeds: Path, threads: int) -> None:
        environment = dict(os.environ)
        # The same number for the BLAS of whichever runtime uses one.
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        command = [sys.executable, "-m", "benchmarks.runtime_child", runtime, str(model), str(feeds), str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.created = float(self._answer()["created"])
        self.runs: list[float] = []

    def block(self, seconds: float) -> None:
        """Let it run for a while; the other child waits meanwhile."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        self.runs.extend(self._answer()["runs"])

    def __enter__(self) -> _Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the benchmark process ended with code {self._process.wait()}; its words stand above")
        found: dict[str, Any] = json.loads(line)
        return found


def compare(model: Path, feeds: Mapping[str, Any], threads: int, blocks: int = BLOCKS) -> Comparison:
    """Time ort-py and onnxruntime on one model.

    Args:
        model: The model's file.
        feeds: Inputs of each run.
        threads: Threads of both.
        blocks: Blocks of 0.3 s each runtime gets; the first is warm-up.

    Raises:
        RuntimeError: A child process ended early.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "feeds"
        file.write_bytes(pickle.dumps(dict(feeds)))
        with _Child("ort_py", model, file, threads) as ours, _Child("onnxruntime", model, file, threads) as peer:
            for block in range(blocks + 1):
                for child in (ours, peer) if block % 2 else (peer, ours):
                    child.block(BLOCK_SECONDS)
                    if block == 0:
                        child.runs.clear()
            return Comparison(statistics.median(ours.runs), statistics.median(peer.runs), ours.created, peer.created)
