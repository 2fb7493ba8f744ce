"""Set everything up and run the tests: `python3 scripts/test.py [pytest arguments]`.

Without arguments it runs what CI runs, on two processes. `python3 scripts/test.py -m quick` answers within a minute.
"""

from __future__ import annotations

import os
import sys

from environment import ensure_environment, run_in

# Two processes: more do not pay on small machines, and memory for the larger models is bounded this way.
PROCESSES = ["-n", "2", "--dist", "loadgroup"]
EVERYTHING = ["-q", "-m", "not gpu"]


def main(arguments: list[str]) -> int:
    """Run pytest in the project's environment; returns its exit code."""
    python = ensure_environment("dev.txt")
    # Two test processes fill two cores. BLAS pools that spin for the same cores would make each of them ten times
    # slower; who wants another number sets the variable.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    chosen = arguments or EVERYTHING
    return run_in(python, ["-m", "pytest", *([] if "-n" in chosen else PROCESSES), *chosen])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
