"""Time runtimes on models in alternating blocks: one child process each, the others wait, medians are compared.

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

__all__ = ["BLOCKS", "BLOCK_SECONDS", "VARIANT", "Comparison", "Refused", "Runtimes", "Timing", "compare", "timings"]

BLOCK_SECONDS = 0.3
BLOCKS = 6
_ROOT = Path(__file__).resolve().parent.parent
_OURS, _PEER = "ort_py", "onnxruntime"
VARIANT = "@"
"""Stands between a runtime's name and that of one way to use it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One runtime on one model, in seconds.

    Attributes:
        median, fastest: One run.
        worked: The least processor time of a run, of all its threads: a busy machine does not lengthen it.
        created: Making the session.
        outputs: Outputs of the first run.
    """

    median: float
    fastest: float
    worked: float
    created: float
    outputs: Sequence[Any]


class Refused(RuntimeError):
    """A runtime cannot run a model; the message names it and says why."""


def timings(found: Mapping[str, Timing | Refused]) -> dict[str, Timing]:
    """The times of all runtimes of a measurement.

    Raises:
        Refused: A runtime cannot run the model.
    """
    times: dict[str, Timing] = {}
    for name, one in found.items():
        if isinstance(one, Refused):
            raise one
        times[name] = one
    return times


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
    def __init__(
        self, name: str, threads: int, folder: Path, settings: Mapping[str, Any], python: str | None = None
    ) -> None:
        runtime, _, variant = name.partition(VARIANT)
        environment = dict(os.environ)
        if python is not None:
            environment.pop("PYTHONPATH", None)  # it says where *this* interpreter finds its packages
        # The same number for the BLAS of whichever runtime uses one.
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        environment["ORT_PY_CACHE"] = "off"  # every session is prepared; `benchmarks.creation` measures the cache
        command = [python or sys.executable, "-m", "benchmarks.runtime_child", runtime, str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=_ROOT
        )
        self._runtime, self._settings = name, settings
        self._outputs = folder / f"{runtime}.{len(list(folder.iterdir()))}{variant and '.variant'}.outputs"
        self._outputs.touch()
        self.runs: list[float] = []
        self.worked = 0.0

    def open(self, model: Path, feeds: Path) -> tuple[float, Sequence[Any]]:
        """Make a session and run it once: seconds it took to make, and the outputs."""
        self.runs = []
        answer = self._ask({**self._settings, "open": str(model), "feeds": str(feeds), "outputs": str(self._outputs)})
        if "refused" in answer:
            raise Refused(f"{self._runtime} refuses the model: {answer['refused']}")
        outputs: Sequence[Any] = pickle.loads(self._outputs.read_bytes())  # written by our own child a moment ago
        return float(answer["created"]), outputs

    def block(self, seconds: float) -> None:
        """Let it run for a while; the other child waits meanwhile."""
        answer = self._ask({"run": seconds})
        self.runs.extend(answer["runs"])
        self.worked = float(answer["worked"])

    def stream(self, file: Path) -> list[float]:
        """Seconds of each run of a stream; see `Runtimes.streams`."""
        return list(self._ask({"stream": str(file)})["runs"])

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
    """The processes of some runtimes, for any number of models one after the other.

    Args:
        threads: Threads of each.
        optimised: Whether they optimise graphs.
        precision: What float32 models are computed in, by those that have a choice: onnxruntime has none.
        names: Which runtimes: what `runtime_child` knows.
        pythons: Interpreters of those that are installed elsewhere, by name.
        variants: Further settings of those that are one runtime in several ways, by name: ``ort_py@…``, whatever
            stands behind the sign.
    """

    def __init__(
        self,
        threads: int,
        *,
        optimised: bool = True,
        precision: str = "float32",
        names: Sequence[str] = (_OURS, _PEER),
        pythons: Mapping[str, str] | None = None,
        variants: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self._feeds = folder / "feeds"
        chosen, settings = pythons or {}, {"optimised": optimised, "precision": precision}
        others = variants or {}
        self._children = {
            name: _Child(name, threads, folder, {**settings, **others.get(name, {})}, chosen.get(name))
            for name in names
        }

    def measure(
        self, model: Path, feeds: Mapping[str, Any], blocks: int = BLOCKS, seconds: float = BLOCK_SECONDS
    ) -> dict[str, Timing | Refused]:
        """Time every runtime on one model; for one that cannot run it, why.

        Args:
            model: The model's file.
            feeds: Inputs of each run.
            blocks: Blocks that each runtime gets after one of warming up.
            seconds: Length of a block.

        Raises:
            RuntimeError: A child process ended early.
        """
        self._feeds.write_bytes(pickle.dumps(dict(feeds)))
        opened: dict[str, tuple[float, Sequence[Any]]] = {}
        found: dict[str, Timing | Refused] = {}
        for name, child in self._children.items():
            try:
                opened[name] = child.open(model.absolute(), self._feeds)
            except Refused as refusal:
                found[name] = refusal
        order = list(opened)
        for block in range(blocks + 1):
            for name in order if block % 2 else reversed(order):
                child = self._children[name]
                child.block(seconds)
                if block == 0:
                    child.runs.clear()
        for name, (created, outputs) in opened.items():
            runs = self._children[name].runs
            worked = self._children[name].worked
            found[name] = Timing(statistics.median(runs), min(runs), worked, created, outputs)
        return found

    def streams(
        self,
        model: Path,
        feeds: Mapping[str, Any],
        runs: Sequence[Mapping[str, Any]],
        carried: Mapping[str, str],
        rounds: int,
    ) -> dict[str, list[list[float]]]:
        """Seconds of each run of a stream, for each round; every round begins with a new session.

        Args:
            model: The model's file.
            feeds: What a new session is run with once, before the stream.
            runs: Feeds of each run.
            carried: Inputs of a run that are outputs of the one before, by name.
            rounds: How often.
        """
        self._feeds.write_bytes(pickle.dumps(dict(feeds)))
        file = self._feeds.with_suffix(".stream")
        file.write_bytes(pickle.dumps(([dict(one) for one in runs], dict(carried))))
        found: dict[str, list[list[float]]] = {name: [] for name in self._children}
        for turn in range(rounds):
            for name in list(found) if turn % 2 else reversed(list(found)):
                child = self._children[name]
                child.open(model.absolute(), self._feeds)
                found[name].append(child.stream(file))
        return found

    def compare(
        self, model: Path, feeds: Mapping[str, Any], blocks: int = BLOCKS, seconds: float = BLOCK_SECONDS
    ) -> Comparison:
        """ort-py and onnxruntime on one model; arguments as of `measure`.

        Raises:
            Refused: One of them cannot run the model.
            RuntimeError: A child process ended early.
        """
        found = timings(self.measure(model, feeds, blocks, seconds))
        ours, peer = found[_OURS], found[_PEER]
        return Comparison(ours.median, peer.median, ours.created, peer.created, ours.outputs, peer.outputs)

    def __enter__(self) -> Runtimes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children.values():
            child.end()
        self._folder.cleanup()


def compare(
    model: Path,
    feeds: Mapping[str, Any],
    threads: int,
    blocks: int = BLOCKS,
    *,
    optimised: bool = True,
    precision: str = "float32",
) -> Comparison:
    """`Runtimes.compare` for a single model, in processes of its own."""
    with Runtimes(threads, optimised=optimised, precision=precision) as runtimes:
        return runtimes.compare(model, feeds, blocks)
