"""Set everything up and run the tests: `python3 scripts/test.py [options] [pytest arguments]`.

Without arguments it runs what CI runs, on two processes. `python3 scripts/test.py -m quick` answers within a minute.
Options come first:

`--all` runs everything that needs no GPU: also the nightly tests, and every row of the tables of which CI runs a part.
`--oldest` runs with the oldest versions of what we depend on, `requirements/oldest.txt`, in an environment of its own.
`--coverage` says which lines ran, and writes `build/coverage.xml`.
`--provider cuda` (or `openvino`, `xnnpack`, `coreml`, `tensorrt`, `onnxruntime`) runs the tests of a provider that
`pip install ort-py` does not bring here, in an environment of its own beside the other one, as CI does.
"""

from __future__ import annotations

import os
import sys

from environment import ensure_beside, ensure_environment, run_in

# Two processes: more do not pay on small machines, and memory for the larger models is bounded this way.
PROCESSES = ["-n", "2", "--dist", "loadgroup"]
CI = ["-q", "-m", "not gpu and not nightly"]
EVERYTHING = ["-q", "-m", "not gpu"]
COVERAGE = ["--cov", "--cov-report=term", "--cov-report=xml:build/coverage.xml"]


def main(arguments: list[str]) -> int:
    """Run pytest in the project's environment; returns its exit code."""
    python = ensure_environment("dev.txt")
    everything, more = CI, list[str]()
    while arguments[:1] and arguments[0] in {"--all", "--oldest", "--coverage"}:
        option, *arguments = arguments
        if option == "--all":
            everything = EVERYTHING
        elif option == "--oldest":
            python = ensure_beside(python, "oldest")
        else:
            more = COVERAGE
    if arguments[:1] == ["--provider"]:
        if len(arguments) < 2:
            raise SystemExit("--provider wants the name of a folder of providers/, cuda for instance.")
        name, arguments = arguments[1], arguments[2:]
        python = ensure_beside(python, name)
        everything = [*everything, f"providers/{name}", f"tests/kit/test_{name}.py"]
    # Two test processes fill two cores. BLAS pools that spin for the same cores would make each of them ten times
    # slower; who wants another number sets the variable.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    chosen = arguments or everything
    return run_in(python, ["-m", "pytest", *([] if "-n" in chosen else PROCESSES), *more, *chosen])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
