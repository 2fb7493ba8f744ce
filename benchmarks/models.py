"""`python -m benchmarks.models [NAME …] [--threads N] [--precision P]`: trained models, ort-py against onnxruntime.

Needs the development requirements (`python3 scripts/test.py` makes `.venv` with them). Inputs are those of the parity
test; the outputs are compared there. With another precision than float32, which onnxruntime does not have for the CPU,
the last columns compare the outputs: cosine, and share of rows whose largest element is in the same place.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys

from benchmarks.alternating import BLOCKS, Comparison, compare
from benchmarks.cpu_role import cpu_role
from examples.model_zoo import CATALOGUE, by_name, fetch
from tests.support.agreement import agreement
from tests.support.model_inputs import cases_of

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Print a row for each model as it is measured, and the geometric mean."""
    parser = argparse.ArgumentParser(prog="benchmarks.models", description="ort-py against onnxruntime, one run.")
    parser.add_argument("names", nargs="*", help="models of the catalogue; all where none is named")
    parser.add_argument("--threads", type=int, default=1, help="threads of both runtimes (1)")
    parser.add_argument("--precision", choices=("float32", "bfloat16", "float16"), default="float32", help="of ort-py")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks of 0.3 s for each ({BLOCKS})")
    chosen = parser.parse_args(arguments)
    print(cpu_role())
    models = [by_name(name) for name in chosen.names] or list(CATALOGUE)
    exact = chosen.precision == "float32"
    print(
        f"{'model':26} {'ort-py ms':>10} {'peer ms':>10} {'ratio':>7} {'created ms':>11} {'peer ms':>9}"
        f"{'' if exact else '   cosine   top-1'}"
    )
    ratios: list[float] = []
    for model in models:
        feeds = cases_of(model)[0].runs[0]
        result = compare(fetch(model), feeds, chosen.threads, chosen.blocks, precision=chosen.precision)
        ratios.append(result.ratio)
        print(
            f"{model.name:26} {result.ours * 1e3:10.3f} {result.peer * 1e3:10.3f} {result.ratio:7.2f}"
            f" {result.ours_created * 1e3:11.1f} {result.peer_created * 1e3:9.1f}"
            f"{'' if exact else _agreed(result)}",
            flush=True,
        )
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    print(f"{'geometric mean':26} {'':10} {'':10} {mean:7.2f}   ({chosen.threads} thread(s))")
    return 0


def _agreed(result: Comparison) -> str:
    found = agreement(result.ours_outputs, result.peer_outputs)
    return f" {found.cosine:8.5f} {found.same_largest:7.3f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
