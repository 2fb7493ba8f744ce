"""`python -m benchmarks.first_answer [MODEL …]`: wall time from the start of a process to its first output.

Interpreter and NumPy are included for both sides: a command-line tool, a function in the cloud or a restarted worker
waits for all of it. Each process is fresh; onnxruntime, ort-py without a cache and ort-py with a warm cache take turns,
and medians are compared. The peak of resident memory is each process's own, as the system reports it.

`--cold` drops the system's cache of pages before each process where that is allowed. `--plot FILE` writes the picture
of `docs/benchmarks/first_answer.md` as SVG.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LARGE", "SMALL", "Answer", "main", "measured"]

SMALL = ("ppocr-v4-det", "ppocr-v4-rec", "ppocr-v2-cls", "silero-vad", "magika", "minilm-int8")
"""Small models of applications that start often."""
LARGE = ("light-vgg19", "light-resnet50", "light-densenet121", "slanet-plus", "lac-encoder", "tashkeel-rawi")
RUNTIMES = ("onnxruntime", "prepared", "cached")
STAGES = ("interpreter", "numpy", "import", "session", "run")
_ROOT = Path(__file__).resolve().parent.parent

_CHILD = """
import time
begun = time.time()
import sys
import numpy
numpy_done = time.time()
runtime, model, folder, threads = sys.argv[1:5]
feeds = {name: numpy.load(f"{folder}/{place}.npy") for place, name in enumerate(sys.argv[5:])}
start = time.time()
if runtime == "onnxruntime":
    import onnxruntime as module
else:
    import ort_py as module
module.InferenceSession, module.SessionOptions
imported = time.time()
options = module.SessionOptions()
options.intra_op_num_threads = int(threads)
options.log_severity_level = 3
session = module.InferenceSession(model, options, providers=["CPUExecutionProvider"])
opened = time.time()
session.run(None, feeds)
ended = time.time()
if runtime == "filling":
    from ort_py.cache.writing import process_queue
    process_queue().wait()
import json, os
with open("/proc/self/status" if os.path.exists("/proc/self/status") else os.devnull) as file:
    peak = [line.split()[1] for line in file if line.startswith("VmHWM")]
print(json.dumps([begun, numpy_done, start, imported, opened, ended, int(peak[0]) if peak else 0]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """One process.

    Attributes:
        seconds: From its start to its first output.
        stages: Seconds of each of `STAGES`.
        peak: Peak resident memory in KiB; 0 where the system does not report it.
    """

    seconds: float
    stages: tuple[float, ...]
    peak: int


def answered(runtime: str, model: Path, folder: Path, names: Sequence[str], threads: int, cache: str) -> Answer:
    """Start one process, and wait for its first output.

    Args:
        runtime: One of `RUNTIMES`, or ``filling`` for a process that waits until its cache is written.
        model: The model's file.
        folder: Where the inputs lie, ``0.npy`` and so on.
        names: Names of the inputs.
        threads: Threads that operators may use.
        cache: Value of ``ORT_PY_CACHE``.

    Raises:
        RuntimeError: The process failed; the message is what it wrote to standard error.
    """
    environment = {**os.environ, "ORT_PY_CACHE": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode
    environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, "-c", _CHILD, runtime, str(model), str(folder), str(threads), *names]
    start = time.time()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=_ROOT)
    if done.returncode:
        raise RuntimeError(f"{runtime} on {model.name}: {done.stderr.strip()[-2000:]}")
    begun, numpy_done, fed, imported, opened, ended, peak = json.loads(done.stdout)
    # Reading the inputs counts for neither side.
    stages = (begun - start, numpy_done - begun, imported - fed, opened - imported, ended - opened)
    return Answer(sum(stages), stages, int(peak))


def measured(
    model: Path, feeds: Mapping[str, Any], rounds: int, threads: int, *, cold: bool = False
) -> dict[str, Answer]:
    """Medians of each runtime on one model, of processes that take turns."""
    found: dict[str, list[Answer]] = {name: [] for name in RUNTIMES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place, array in enumerate(feeds.values()):
            np.save(folder / f"{place}.npy", array)
        caches = {"onnxruntime": "off", "prepared": "off", "cached": str(folder / "cache")}
        for _ in range(2):  # writes the cache, and what a second process adds to it
            answered("filling", model, folder, list(feeds), threads, caches["cached"])
        for turn in range(rounds):
            for runtime in RUNTIMES if turn % 2 else reversed(RUNTIMES):
                if cold:
                    _drop_pages()
                found[runtime].append(answered(runtime, model, folder, list(feeds), threads, caches[runtime]))
    return {runtime: _median(answers) for runtime, answers in found.items()}


def _median(answers: Sequence[Answer]) -> Answer:
    stages = tuple(statistics.median(one.stages[place] for one in answers) for place in range(len(STAGES)))
    return Answer(
        statistics.median(one.seconds for one in answers), stages, int(statistics.median(one.peak for one in answers))
    )


def _drop_pages() -> None:
    """Drop the system's cache of pages.

    Raises:
        OSError: This user may not.
    """
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")


def _row(name: str, found: Mapping[str, Answer]) -> str:
    peer = found["onnxruntime"]
    cells = [f"{name:22} {peer.seconds * 1e3:8.0f} {peer.peak / 1024:6.0f}"]
    for runtime in ("prepared", "cached"):
        one = found[runtime]
        cells.append(
            f"{one.seconds * 1e3:8.0f} {one.seconds / peer.seconds:6.2f}x"
            f" {one.peak / 1024:6.0f} {one.peak / max(peer.peak, 1):5.2f}x"
        )
    return "  ".join(cells)


def _stages(found: Mapping[str, Answer]) -> str:
    lines = []
    for runtime, one in found.items():
        parts = ", ".join(f"{stage} {seconds * 1e3:.0f}" for stage, seconds in zip(STAGES, one.stages, strict=True))
        lines.append(f"    {runtime:12} {parts}")
    return "\n".join(lines)


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def main(arguments: Sequence[str]) -> int:
    """Print one row per model, and the geometric means."""
    from examples.model_zoo import by_name, fetch
    from tests.support.model_inputs import cases_of

    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_answer", description=__doc__)
    parser.add_argument("models", nargs="*", help="names of the model zoo, 'small' or 'large'; default: small")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="drop the system's cache of pages before each process")
    parser.add_argument("--json", type=Path, help="write the figures as JSON")
    parser.add_argument("--plot", type=Path, help="write the stages as SVG")
    options = parser.parse_args(arguments)
    names = [
        name for group in options.models or ["small"] for name in {"small": SMALL, "large": LARGE}.get(group, [group])
    ]
    columns = "ms      ratio   MiB  ratio"
    print(f"{'model':22} {'peer ms':>8} {'MiB':>6}  {'prepared: ' + columns:>32}  {'cached: ' + columns:>32}")
    results: dict[str, dict[str, Answer]] = {}
    for name in names:
        model = by_name(name)
        feeds = dict(cases_of(model)[0].runs[0])
        results[name] = measured(fetch(model), feeds, options.rounds, options.threads, cold=options.cold)
        print(_row(name, results[name]), flush=True)
        print(_stages(results[name]), flush=True)
    for runtime in ("prepared", "cached"):
        seconds = [found[runtime].seconds / found["onnxruntime"].seconds for found in results.values()]
        peaks = [found[runtime].peak / max(found["onnxruntime"].peak, 1) for found in results.values()]
        print(
            f"geometric mean, {runtime}: {_geometric_mean(seconds):.2f}x the time, {max(peaks):.2f}x the peak at most"
        )
    if options.json:
        figures = {
            name: {runtime: [one.seconds, one.stages, one.peak] for runtime, one in found.items()}
            for name, found in results.items()
        }
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if options.plot:
        from benchmarks.first_answer_plot import drawn

        options.plot.write_text(drawn(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
