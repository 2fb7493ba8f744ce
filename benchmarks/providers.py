"""`python -m benchmarks.providers [NAME …] [--threads N] [--precision P] [--busy]`: ort-py, onnxruntime and OpenVINO.

One process a runtime, the same number of threads, alternating blocks, no cache; the outputs are compared. OpenVINO is
optional, and may live in an environment of its own: `--openvino-python PATH`. What counts is the faster of both.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alternating import BLOCK_SECONDS, BLOCKS, Refused, Runtimes, Timing
from benchmarks.gpu_models import UNET_FOR_PROCESSORS
from benchmarks.threads import busy_processor
from benchmarks.transformer_models import TRANSFORMERS
from examples.model_zoo import by_name, fetch
from tests.support.exported_models import EXPORTED, feeds_of
from tests.support.model_inputs import cases_of

__all__ = ["PICTURES", "chosen_models", "main", "relative_error"]

PICTURES = (
    "light-resnet50",
    "light-densenet121",
    "light-inception-v2",
    "light-shufflenet",
    "light-squeezenet",
    "light-vgg19",
    "ppocr-v4-det",
    "ppocr-v4-rec",
    "ppocr-v2-cls",
)
"""Trained models of the catalogue that read pictures, and are convolutions for the most part."""

TRAINED = (*PICTURES, "minilm-int8", "magika", "slanet-plus", "silero-vad", "tashkeel-bilstm")
"""Trained models of the catalogue; the last two are recurrent."""

SMALL = ("bert.dynamo23", "gpt2_past.dynamo23", "llama_past.dynamo23", "t5.dynamo23", "whisper_decoder.dynamo23")
"""Transformers of two layers that PyTorch exported; those with a past compute a word after 16. All of
`tests/models/exported/` can be named."""

OURS, PEERS = "ort_py", ("onnxruntime", "openvino")
RATIOS = ("/ort", "/ov", "/best", "by min", "by cpu")
"""Our median over each peer's and over the faster one's; the same of the fastest runs, and of the least processor time,
which other programs do not lengthen (of one thread it is the time of a quiet machine; threads that wait spin, which
counts too). Above 1 we are slower."""

_BUSY_SECONDS = 1.5
"""Seconds of a block beside a busy processor: a process that slept while others had their turns gets that processor for
the first few runs of its own, which must not decide."""


def main(arguments: list[str]) -> int:
    """Print a row for each model as it is measured, then geometric means."""
    known = [*TRAINED, *SMALL, *(name for name in _made() if name not in _exported())]
    parser = argparse.ArgumentParser(prog="benchmarks.providers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"models of the catalogue, or of {', '.join(known)}; all of those")
    parser.add_argument("--threads", type=int, default=1, help="threads of every runtime (1)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks for each ({BLOCKS})")
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float16"),
        default="float32",
        help="of ort-py and OpenVINO; onnxruntime has float32",
    )
    parser.add_argument("--seconds", type=float, help=f"of a block ({BLOCK_SECONDS}; {_BUSY_SECONDS} with --busy)")
    parser.add_argument("--busy", action="store_true", help="keep one processor busy meanwhile")
    parser.add_argument("--openvino-python", default=None, help="interpreter that has OpenVINO")
    chosen = parser.parse_args(arguments)
    seconds = chosen.seconds or (_BUSY_SECONDS if chosen.busy else BLOCK_SECONDS)
    pythons = {"openvino": chosen.openvino_python} if chosen.openvino_python else {}
    columns = (("ort-py ms", 10), ("ort ms", 9), ("openvino", 9), *((one, 6) for one in RATIOS), ("error", 8))
    print(f"{'model':22} {' '.join(f'{title:>{width}}' for title, width in columns)}")
    shown: list[tuple[float, ...]] = []
    with (
        Runtimes(chosen.threads, precision=chosen.precision, names=(OURS, *PEERS), pythons=pythons) as runtimes,
        busy_processor() if chosen.busy else contextlib.nullcontext(),
    ):
        for name, model, feeds in chosen_models(chosen.names or known):
            found = runtimes.measure(model, feeds, chosen.blocks, seconds)
            shown += _row(name, found)
    means = [_mean(column) for column in zip(*shown, strict=True)]
    place = f"{chosen.threads} thread(s){', one processor kept busy' if chosen.busy else ''}"
    print(f"{'geometric mean':22} {'':10} {'':9} {'':9} {' '.join(f'{one:6.2f}' for one in means)}   {place}")
    return 0


def chosen_models(names: Iterable[str]) -> Iterator[tuple[str, Path, Mapping[str, Any]]]:
    """Name, file and feeds of models of the catalogue, and of those that are made here."""
    made = _made()
    for name in names:
        if name in made:
            yield name, *made[name]()
        else:
            model = by_name(name)
            yield name, fetch(model), cases_of(model)[0].runs[0]


def _made() -> dict[str, Callable[[], tuple[Path, Mapping[str, Any]]]]:
    """Makers of the file and the feeds of each model that is not a trained one, by name."""
    from benchmarks.quantised import MODELS as QUANTISED  # it compares as this module does

    def unet() -> tuple[Path, Mapping[str, Any]]:
        made = UNET_FOR_PROCESSORS.make(1, half=False)
        return made.path, made.feeds

    quantised = "resnet50-qdq"
    transformers = {model.name: model.fetch for model in TRANSFORMERS}
    return {**transformers, **_exported(), UNET_FOR_PROCESSORS.name: unet, quantised: QUANTISED[quantised]}


def _exported() -> dict[str, Callable[[], tuple[Path, Mapping[str, Any]]]]:
    return {path.stem: functools.partial(_with_feeds, path) for path in EXPORTED}


def _with_feeds(path: Path) -> tuple[Path, Mapping[str, Any]]:
    return path, feeds_of(path, words=1, past=16) if "_past" in path.stem else feeds_of(path)


def _row(name: str, found: Mapping[str, Timing | Refused]) -> list[tuple[float, ...]]:
    ours = found[OURS]
    if isinstance(ours, Refused):
        print(f"{name:22} {ours}", flush=True)
        return []
    peers = {peer: timing for peer in PEERS if isinstance(timing := found[peer], Timing)}
    times = [peers[peer].median if peer in peers else math.nan for peer in PEERS]
    fastest = min((peer.fastest for peer in peers.values()), default=math.nan)
    ratios = [ours.median / time for time in times]
    ratios += [ours.median / min((peer.median for peer in peers.values()), default=math.nan), ours.fastest / fastest]
    ratios.append(ours.worked / min((peer.worked for peer in peers.values()), default=math.nan))
    error = max((relative_error(ours.outputs, peer.outputs) for peer in peers.values()), default=math.nan)
    print(
        f"{name:22} {ours.median * 1e3:10.3f} {' '.join(f'{time * 1e3:9.3f}' for time in times)}"
        f" {' '.join(f'{ratio:6.2f}' for ratio in ratios)} {error:8.1e}",
        flush=True,
    )
    for peer in PEERS:
        refused = found[peer]
        if isinstance(refused, Refused):
            print(f"{'':22} {' '.join(str(refused).split())[:200]}", flush=True)
    return [tuple(ratios)]


def relative_error(ours: Sequence[Any], peer: Sequence[Any]) -> float:
    """The largest ‖a − b‖ / ‖b‖ of the outputs of floating point; infinite where shapes differ."""
    worst = 0.0
    for left, right in zip(ours, peer, strict=True):
        a, b = np.asarray(left), np.asarray(right)
        if a.shape != b.shape:
            return math.inf
        if b.dtype.kind == "f" and b.size:
            norm = float(np.linalg.norm(b.astype(np.float64).ravel()))
            difference = float(np.linalg.norm((a.astype(np.float64) - b).ravel()))
            worst = max(worst, difference / norm if norm else difference)
    return worst


def _mean(ratios: Sequence[float]) -> float:
    known = [math.log(ratio) for ratio in ratios if not math.isnan(ratio)]
    return math.exp(statistics.fmean(known)) if known else math.nan


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
