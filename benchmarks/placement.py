"""`python -m benchmarks.placement [MODEL …] [--threads N]`: placement left to ort-py, and one provider alone.

Each model runs with the providers that sessions choose by themselves, and with each of those alone, completed by the
plain CPU provider; a child process each, in alternating blocks, while the others wait. The target is that automatic
placement takes at most 5 % longer than the best of them, and never longer than the plain CPU provider alone.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Mapping

import ort_py
from benchmarks.alternating import BLOCK_SECONDS, BLOCKS, VARIANT, Refused, Runtimes, Timing
from examples.model_zoo import by_name, fetch
from tests.support.model_inputs import cases_of

__all__ = ["main"]

MODELS = (
    "light-resnet50",
    "light-densenet121",
    "light-inception-v2",
    "light-shufflenet",
    "light-squeezenet",
    "ppocr-v4-det",
    "ppocr-v4-rec",
    "ppocr-v2-cls",
    "minilm-int8",
    "magika",
    "slanet-plus",
    "wakeword-embedding",
)
"""Trained models of the catalogue, of all kinds and sizes."""

CPU = "CPUExecutionProvider"
AUTOMATIC = f"ort_py{VARIANT}automatic"
MARGIN = 1.05


def main(arguments: list[str]) -> int:
    """Print a row for each model as it is measured; 1 where automatic placement missed the margin."""
    parser = argparse.ArgumentParser(prog="benchmarks.placement", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"models of the catalogue ({', '.join(MODELS)})")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process (1)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks for each ({BLOCKS})")
    parser.add_argument("--seconds", type=float, default=BLOCK_SECONDS, help=f"of a block ({BLOCK_SECONDS})")
    chosen = parser.parse_args(arguments)
    ways = ways_of(ort_py.get_available_providers())
    titles = [way.partition(VARIANT)[2] for way in ways]
    print(f"{'model':22} {' '.join(f'{title[:14]:>14}' for title in titles)} {'/best':>6} {'by min':>6} {'by cpu':>6}")
    shown: list[float] = []
    with Runtimes(chosen.threads, names=tuple(ways), variants=ways) as runtimes:
        for name in chosen.names or MODELS:
            model = by_name(name)
            found = runtimes.measure(fetch(model), cases_of(model)[0].runs[0], chosen.blocks, chosen.seconds)
            shown.append(_row(name, ways, found))
    print(f"geometric mean of automatic over the best alone: {_mean(shown):.3f}, worst {max(shown):.3f}")
    return int(max(shown) > MARGIN)


def ways_of(providers: list[str]) -> dict[str, Mapping[str, object]]:
    """Settings of each way to place a model, by its name."""
    ways: dict[str, Mapping[str, object]] = {AUTOMATIC: {"providers": []}}
    for provider in providers:
        short = provider.removesuffix("ExecutionProvider")
        ways[f"ort_py{VARIANT}{short}"] = {"providers": list(dict.fromkeys([provider, CPU])), "pin_cpu": True}
    return ways


def _row(name: str, ways: Mapping[str, object], found: Mapping[str, Timing | Refused]) -> float:
    times = {way: timing for way in ways if isinstance(timing := found[way], Timing)}
    alone = [timing for way, timing in times.items() if way != AUTOMATIC]
    cells = [f"{times[way].median * 1e3:14.3f}" if way in times else f"{'refused':>14}" for way in ways]
    ours = times.get(AUTOMATIC)
    if ours is None or not alone:
        print(f"{name:22} {' '.join(cells)}  {found[AUTOMATIC]}", flush=True)
        return math.inf
    ratios = [
        ours.median / min(one.median for one in alone),
        ours.fastest / min(one.fastest for one in alone),
        ours.worked / min(one.worked for one in alone),
    ]
    print(f"{name:22} {' '.join(cells)} {' '.join(f'{ratio:6.2f}' for ratio in ratios)}", flush=True)
    return min(ratios)  # other programs only ever add: the best evidence counts


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
