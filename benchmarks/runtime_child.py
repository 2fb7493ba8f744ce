"""The process of one runtime: opens a model, and on each line of standard input runs it for a while.

Started by `alternating`; answers on standard output, one JSON object a line. A process of its own, because the spinning
pools of two runtimes in one process falsify each other.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["main"]


def open_session(runtime: str, model: str, threads: int) -> Any:
    """A session of a runtime on the CPU with a number of threads, nothing cached."""
    if runtime == "onnxruntime":
        import onnxruntime as runtime_module
    else:
        import ort_py as runtime_module
    options = runtime_module.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # some models make onnxruntime warn on each run
    return runtime_module.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def main(runtime: str, model: str, feeds_file: str, threads: int) -> int:
    """Answer ``{"created": seconds}``, then ``{"runs": [seconds, …]}`` for each line, which says how long to run."""
    feeds = pickle.loads(Path(feeds_file).read_bytes())  # written by our own parent process a moment ago
    start = time.perf_counter()
    session = open_session(runtime, model, threads)
    print(json.dumps({"created": time.perf_counter() - start}), flush=True)
    session.run(None, feeds)
    for line in sys.stdin:
        until = time.perf_counter() + float(line)
        runs: list[float] = []
        while not runs or time.perf_counter() < until:
            start = time.perf_counter()
            session.run(None, feeds)
            runs.append(time.perf_counter() - start)
        print(json.dumps({"runs": runs}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
