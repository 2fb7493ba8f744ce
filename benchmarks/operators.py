"""`python -m benchmarks.operators [FAMILY …] [--threads N] [--scale N]`: single operators against onnxruntime.

Needs the development requirements (`python3 scripts/test.py` makes `.venv` with them). Outputs of the two are compared
too; those of random operators, which no one determines, excepted.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alternating import Refused, Runtimes
from benchmarks.cpu_role import cpu_role
from benchmarks.operator_cases import FAMILIES, LIMITS, Case

__all__ = ["main"]

_SECONDS = 0.1
"""A block: single nodes take microseconds to milliseconds."""

_FAR = 5
"""Times the peer's time from which on a row says what limits the operator."""

_RANDOM = ("RandomNormal", "RandomUniformLike")


def main(arguments: list[str]) -> int:
    """Print a row for each case as it is measured, and each family's geometric mean; 1 where outputs differ."""
    parser = argparse.ArgumentParser(prog="benchmarks.operators", description="Operators against onnxruntime, one run.")
    parser.add_argument("families", nargs="*", help=f"families; all where none is named: {', '.join(FAMILIES)}")
    parser.add_argument("--threads", type=int, default=1, help="threads of both runtimes (1)")
    parser.add_argument("--scale", type=int, default=1, help="times the usual size (1)")
    parser.add_argument("--blocks", type=int, default=4, help=f"blocks of {_SECONDS} s for each (4)")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.families) - set(FAMILIES))
    if unknown:
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    differing: list[str] = []
    means: dict[str, float] = {}
    print(cpu_role())
    print(f"{'operator':36} {'ort-py µs':>11} {'peer µs':>11} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder, Runtimes(chosen.threads) as runtimes:
        path = Path(folder) / "model.onnx"
        for family in chosen.families or FAMILIES:
            ratios = []
            for case in FAMILIES[family](chosen.scale):
                path.write_bytes(case.model().SerializeToString())
                try:
                    result = runtimes.compare(path, case.feeds(), chosen.blocks, _SECONDS)
                except Refused as reason:
                    print(f"{case.label:36} {str(reason).splitlines()[0][:90]}", flush=True)
                    continue
                ratios.append(result.ratio)
                same = _same(case, result.ours_outputs, result.peer_outputs)
                differing += [] if same else [case.label]
                remark = "" if same else "  outputs differ"
                if result.ratio > _FAR:
                    remark += f"  {LIMITS.get(case.op_type, '')}"
                print(
                    f"{case.label:36} {result.ours * 1e6:11.1f} {result.peer * 1e6:11.1f} {result.ratio:7.2f}{remark}",
                    flush=True,
                )
            means[family] = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
            print(f"{'  ' + family:36} {'':11} {'':11} {means[family]:7.2f}  geometric mean", flush=True)
    print(f"\n{chosen.threads} thread(s), {chosen.scale} times the usual size")
    for family, mean in sorted(means.items(), key=lambda item: -item[1]):
        print(f"  {family:24} {mean:6.2f}")
    return 1 if differing else 0


def _same(case: Case, ours: Sequence[Any], peer: Sequence[Any]) -> bool:
    if case.op_type in _RANDOM:
        return True
    return all(_close(left, right) for left, right in zip(ours, peer, strict=True))


def _close(left: Any, right: Any) -> bool:
    if left.shape != right.shape or left.dtype.kind != right.dtype.kind:
        return False
    if right.dtype.kind in "OUSb":
        return bool((left == right).all())
    slack = 1 if right.dtype.itemsize == 1 else 1e-4 * max(1.0, float(np.abs(right).max(initial=0)))
    return bool(np.allclose(left.astype(np.float64), right.astype(np.float64), rtol=1e-3, atol=slack, equal_nan=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
