"""`python -m benchmarks.history FILE [MODEL …] [--blocks N]`: one figure for each benchmark, for a history of nights.

Each figure is our time divided by onnxruntime's in the same run, so that figures of different machines can be compared.
The file is in the form of github-action-benchmark's tool `customSmallerIsBetter`: a list of names, units and values.
`benchmarks.models` and `benchmarks.overhead` measure more, and print it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.alternating import BLOCKS, compare
from benchmarks.overhead import chain
from examples.model_zoo import by_name, fetch
from tests.support.model_inputs import cases_of

__all__ = ["MODELS", "entries", "main"]

MODELS = ("ppocr-v4-det", "ppocr-v4-rec", "ppocr-v2-cls", "silero-vad", "magika", "minilm-int8", "slanet-plus")
"""Models of each kind that the catalogue has: pictures, speech, text, integers of 8 bits, loops."""


def measurements(models: Sequence[str], blocks: int) -> Iterator[tuple[str, float]]:
    """Measure, and yield the name of each figure and the ratio of our time to onnxruntime's."""
    for name in models:
        model = by_name(name)
        result = compare(fetch(model), cases_of(model)[0].runs[0], 1, blocks)
        yield f"{name}: a run", result.ratio
        yield f"{name}: a new session", result.ours_created / result.peer_created
    with tempfile.TemporaryDirectory() as folder:
        for length, what in ((1, "one node: a run"), (1000, "a chain of 1,000 nodes: a run")):
            path = Path(folder) / f"chain{length}.onnx"
            path.write_bytes(chain(length).SerializeToString())
            feeds = {"v0": np.ones(4, np.float32)}
            yield what, compare(path, feeds, threads=1, blocks=blocks, optimised=length == 1).ratio


def entries(figures: Sequence[tuple[str, float]]) -> list[dict[str, str | float]]:
    """Put figures, and the geometric mean of the runs of models, into the form of the history."""
    runs = [math.log(ratio) for name, ratio in figures if name.endswith(": a run") and " node" not in name]
    mean = [("geometric mean of the models: a run", math.exp(statistics.fmean(runs)))] if runs else []
    return [{"name": name, "unit": "× onnxruntime", "value": round(ratio, 4)} for name, ratio in [*figures, *mean]]


def main(arguments: list[str]) -> int:
    """Measure, print each figure, and write the file."""
    parser = argparse.ArgumentParser(prog="benchmarks.history", description="Figures for a history, as JSON.")
    parser.add_argument("file", type=Path, help="the file to write")
    parser.add_argument("names", nargs="*", default=MODELS, help=f"models of the catalogue ({', '.join(MODELS)})")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks of 0.3 s for each ({BLOCKS})")
    chosen = parser.parse_args(arguments)
    figures = []
    for name, ratio in measurements(chosen.names, chosen.blocks):
        print(f"{name:44} {ratio:7.2f}", flush=True)
        figures.append((name, ratio))
    chosen.file.parent.mkdir(parents=True, exist_ok=True)
    chosen.file.write_text(json.dumps(entries(figures), indent=1, ensure_ascii=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
