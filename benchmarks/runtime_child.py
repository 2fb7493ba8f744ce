"""The process of one runtime: opens models, and runs them for a while when it is told to.

Started by `alternating`, which writes one JSON object a line to standard input and reads one from standard output for
each. A process of its own, because the spinning pools of two runtimes in one process falsify each other.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["main"]


def open_session(runtime: str, model: str, threads: int, optimised: bool = True) -> Any:
    """A session of a runtime on the CPU with a number of threads, at its highest level of optimisation or at none."""
    if runtime == "onnxruntime":
        import onnxruntime as runtime_module
    else:
        import ort_py as runtime_module
    options = runtime_module.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # some models make onnxruntime warn on each run
    if not optimised:
        options.graph_optimization_level = runtime_module.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime_module.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class _Model:
    """The open model, its inputs, and what happened when it was opened."""

    def __init__(self, runtime: str, threads: int, request: dict[str, Any]) -> None:
        self._feeds = pickle.loads(
            Path(request["feeds"]).read_bytes()
        )  # written by our own parent process a moment ago
        start = time.perf_counter()
        self._session = open_session(runtime, request["open"], threads, request["optimised"])
        self.created = time.perf_counter() - start
        Path(request["outputs"]).write_bytes(pickle.dumps(self._session.run(None, self._feeds)))

    def run(self, seconds: float) -> list[float]:
        """Seconds of each run in a block."""
        session, feeds = self._session, self._feeds
        until = time.perf_counter() + seconds
        runs: list[float] = []
        while not runs or time.perf_counter() < until:
            start = time.perf_counter()
            session.run(None, feeds)
            runs.append(time.perf_counter() - start)
        return runs


def main(runtime: str, threads: int) -> int:
    """Answer ``{"open": model, "feeds": file, "outputs": file, "optimised": bool}`` and ``{"run": seconds}`` until the
    input ends.

    The answers are ``{"created": seconds}`` or ``{"refused": why}``, and ``{"runs": [seconds, …]}``.
    """
    model: _Model | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        if "open" in request:
            model = None  # before the next one takes memory
            try:
                model = _Model(runtime, threads, request)
                answer = {"created": model.created}
            except Exception as error:  # whatever a runtime raises for a model it cannot run
                answer = {"refused": f"{type(error).__name__}: {error}"}
        else:
            assert model is not None, "no model was opened"
            answer = {"runs": model.run(request["run"])}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
