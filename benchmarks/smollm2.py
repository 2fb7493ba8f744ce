"""`python -m benchmarks.smollm2 [--level N] [--exact] [--threads N]`: words a second of SmolLM2.

SmolLM2-135M in onnxruntime and ort-py: a prompt of 16 words, then one word at a time with the past of those before.
Every round begins with a new session; the median time of a word in the fastest round counts. `--providers` measures
ort-py once more with these providers, beside its default.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.alternating import Runtimes
from benchmarks.smollm2_model import LAYERS, feeds_of, write

__all__ = ["main"]

_PROMPT = list(range(1000, 1016))


def main(arguments: list[str]) -> int:
    """Print a row for each runtime."""
    parser = argparse.ArgumentParser(prog="benchmarks.smollm2", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--level", type=int, default=4, help="accuracy level of the products (4)")
    parser.add_argument("--exact", action="store_true", help="the file's own blocks, which begin at any number")
    parser.add_argument("--threads", type=int, default=1, help="threads of all runtimes (1)")
    parser.add_argument("--words", type=int, default=40, help="words behind the prompt (40)")
    parser.add_argument("--rounds", type=int, default=3, help="new sessions of each (3)")
    parser.add_argument("--providers", help="names of providers, separated by commas")
    chosen = parser.parse_args(arguments)
    names, variants = ["onnxruntime", "ort_py"], {}
    if chosen.providers:
        names.append("ort_py@named")
        variants["ort_py@named"] = {"providers": chosen.providers.split(",")}
    first = feeds_of(_PROMPT)
    later = [feeds_of([2000 + word], len(_PROMPT) + word) for word in range(chosen.words)]
    carried = {
        f"past_key_values.{layer}.{kind}": f"present.{layer}.{kind}"
        for layer in range(LAYERS)
        for kind in ("key", "value")
    }
    print(f"{'runtime':14} {'prompt ms':>10} {'word ms':>9} {'words/s':>8}")
    with (
        Runtimes(chosen.threads, names=names, variants=variants) as runtimes,
        tempfile.TemporaryDirectory() as folder,
    ):
        model = write(Path(folder) / "model.onnx", chosen.level, symmetric=not chosen.exact)
        found = runtimes.streams(model, first, [first, *later], carried, chosen.rounds)
        for name, rounds in found.items():
            word = min(statistics.median(times[1:]) for times in rounds)
            prompt = min(times[0] for times in rounds)
            print(f"{name:14} {prompt * 1e3:10.1f} {word * 1e3:9.2f} {1 / word:8.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
