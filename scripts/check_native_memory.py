"""`python scripts/check_native_memory.py [--graphs N] [--seed S] [--log FILE]`: native regions under valgrind.

Runs random graphs of the fuzzer, and the first rerun of each with other sizes, in sessions with the default providers
under valgrind's memcheck, and prints the errors whose stack passes through the binding or a native library of a
provider. Valgrind does not support AVX-512, so oneDNN is set to generate AVX2. It needs valgrind on the path; a hundred
graphs take about half an hour. The exit status is 1 where an error was found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ("libdnnl", "_dnnl", "_cffi_backend", "libffi")
"""Libraries whose frames make an error one of a region; Python, NumPy and BLAS are checked by their own projects."""

_CHILD = "import sys; sys.path[:0] = [sys.argv[1], sys.argv[1] + '/scripts']; import check_native_memory as c; c.work()"


def main(arguments: list[str]) -> int:
    """Run the child under valgrind, and print what counts."""
    parser = argparse.ArgumentParser(prog="check_native_memory")
    parser.add_argument("--graphs", type=int, default=60, help="random graphs to run (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--log", default="", help="file for everything valgrind says")
    chosen = parser.parse_args(arguments)
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("valgrind is not on the path")
        return 2
    log = Path(chosen.log) if chosen.log else Path(tempfile.mkdtemp()) / "valgrind.log"
    command = [
        *(valgrind, "--tool=memcheck", "--error-limit=no", "--num-callers=30", f"--log-file={log}"),
        *("--undef-value-errors=yes", "--smc-check=all-non-file", "--leak-check=no", "--keep-debuginfo=yes"),
        *(sys.executable, "-c", _CHILD, str(ROOT), str(chosen.seed), str(chosen.graphs)),
    ]
    environment = {
        **os.environ,
        "PYTHONMALLOC": "malloc",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ORT_PY_CACHE": "off",
        "ORT_PY_PROBE_TIMEOUT": "600",
    }
    status = subprocess.run(command, env=environment, check=False).returncode
    errors = [block for block in _blocks(log.read_text(errors="replace")) if any(name in block for name in NATIVE)]
    for block in errors:
        print(block)
    print(f"{len(errors)} errors in native regions, exit status {status}; all that valgrind said: {log}")
    return int(bool(errors) or status != 0)


def work() -> None:
    """The work of the child: run each graph in a session with the default providers."""
    from tests.fuzzing.cases import draw_case
    from tests.fuzzing.runners import Variant, run_variant

    first, count = int(sys.argv[2]), int(sys.argv[3])
    regions = 0
    for seed in range(first, first + count):
        ran = run_variant(draw_case(seed, main="float32", most_nodes=8), Variant("default"))
        regions += any(name != "CPUExecutionProvider" for name in ran.placement)
        print(f"seed {seed}: {ran.placement}", flush=True)
    print(f"{regions} of {count} graphs had native regions")


def _blocks(text: str) -> list[str]:
    """The errors of a log: lines between empty ones, that name a fault."""
    faults = (
        "Invalid read",
        "Invalid write",
        "Invalid free",
        "Mismatched free",
        "overlap",
        "uninitialised",
        "Process terminating",
    )
    blocks, lines = [], []
    for line in [*text.splitlines(), ""]:
        words = line.split("== ", 1)[-1].rstrip()
        if words and not words.endswith("=="):
            lines.append(words)
            continue
        if lines and any(fault in lines[0] for fault in faults):
            blocks.append("\n".join(lines))
        lines = []
    return blocks


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
