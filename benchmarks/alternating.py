"""Time two runtimes on models in alternating blocks: one child process each, the other waits, medians are compared.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["BLOCKS", "Comparison", "Refused", "Runtimes", "compare"]

BLOCK_SECONDS = 0.3
BLOCKS = 6


class Refused(RuntimeError):
    """A runtime cannot run a model; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians of one model, in seconds.

    Attributes:
        ours, peer: One run.
        ours_created, peer_created: Making the session.
        ours_outputs, peer_outputs: Outputs of the first run.
    """

    ours: float
    peer: float
    ours_created: float
    peer_created: float
    ours_outputs: Sequence[Any]
    peer_outputs: Sequence[Any]

    @property
    def ratio(self) -> float:
        """Our time over the peer's: above 1 we are slower."""
        return self.ours / self.peer


class _Child:
    def __init__(self, runtime: str, threads: int, folder: Path, optimised: bool) -> None:
        environment = dict(os.environ)
        # The same number for the BLAS of whichever runtime uses one.
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        environment["ORT_PY_CACHE"] = "off"  # every session is prepared; `benchmarks.creation` measures the cache
        command = [sys.executable, "-m", "benchmarks.runtime_child", runtime, str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._runtime, self._optimised = runtime, optimised
        self._outputs = folder / f"{runtime}.outputs"
        self.runs: list[float] = []

    def open(self, model: Path, feeds: Path) -> tuple[float, Sequence[Any]]:
        """Make a session and run it once: seconds it took to make, and the outputs."""
        self.runs = []
        answer = self._ask(
            {"optimised": self._optimised, "open": str(model), "feeds": str(feeds), "outputs": str(self._outputs)}
        )
        if "refused" in answer:
            raise Refused(f"{self._runtime} refuses the model: {answer['refused']}")
        outputs: Sequence[Any] = pickle.loads(self._outputs.read_bytes())  # written by our own child a moment ago
        return float(answer["created"]), outputs

    def block(self, seconds: float) -> None:
        """Let it run for a while; the other child waits meanwhile."""
        self.runs.extend(self._ask({"run": seconds})["runs"])

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the benchmark process ended with code {self._process.wait()}; its words stand above")
        found: dict[str, Any] = json.loads(line)
        return found


class Runtimes:
    """The processes of ort-py and onnxruntime, for any number of models one after the other.

    Args:
        threads: Threads of both.
        optimised: Whether both optimise graphs.
    """

    def __init__(self, threads: int, *, optimised: bool = True) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self._feeds = folder / "feeds"
        self._ours, self._peer = (_Child(runtime, threads, folder, optimised) for runtime in ("ort_py", "onnxruntime"))

    def compare(
        self, model: Path, feeds: Mapping[str, Any], blocks: int = BLOCKS, seconds: float = BLOCK_SECONDS
    ) -> Comparison:
        """Time both on one model.

        Args:
            model: The model's file.
            feeds: Inputs of each run.
            blocks: Blocks that each runtime gets after one of warming up.
            seconds: Length of a block.

        Raises:
            Refused: One of them cannot run the model.
            RuntimeError: A child process ended early.
        """
        self._feeds.write_bytes(pickle.dumps(dict(feeds)))
        ours, peer = self._ours, self._peer
        ours_created, ours_outputs = ours.open(model, self._feeds)
        peer_created, peer_outputs = peer.open(model, self._feeds)
        for block in range(blocks + 1):
            for child in (ours, peer) if block % 2 else (peer, ours):
                child.block(seconds)
                if block == 0:
                    child.runs.clear()
        medians = statistics.median(ours.runs), statistics.median(peer.runs)
        return Comparison(*medians, ours_created, peer_created, ours_outputs, peer_outputs)

    def __enter__(self) -> Runtimes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.end()
        self._peer.end()
        self._folder.cleanup()


def compare(
    model: Path, feeds: Mapping[str, Any], threads: int, blocks: int = BLOCKS, *, optimised: bool = True
) -> Comparison:
    """`Runtimes.compare` for a single model, in processes of its own."""
    with Runtimes(threads, optimised=optimised) as runtimes:
        return runtimes.compare(model, feeds, blocks)
