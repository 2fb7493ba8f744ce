"""`python -m benchmarks.dynamic_shapes [--threads N] [--busy]`: shapes that change, ort-py against onnxruntime.

64 tokens of GPT-2, whose past grows with each, and 200 pictures of 60 widths for a text recogniser. Every round begins
with a new session, so what a first run of a shape costs is in it; the second half of a stream tells what is left of it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alternating import Runtimes
from benchmarks.threads import busy_processor
from benchmarks.transformer_models import GPT2, TRANSFORMERS, gpt2_feeds
from examples.model_zoo import by_name, fetch

__all__ = ["main"]

_TOKENS, _PROMPT = 64, 16
_PICTURES, _WIDTHS = 200, 60

_Stream = tuple[str, Path, Mapping[str, Any], Sequence[Mapping[str, Any]], Mapping[str, str]]


def main(arguments: list[str]) -> int:
    """Print a row for each stream."""
    parser = argparse.ArgumentParser(prog="benchmarks.dynamic_shapes", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="threads of both runtimes (1)")
    parser.add_argument("--rounds", type=int, default=3, help="new sessions of each (3); the fastest round counts")
    parser.add_argument("--busy", action="store_true", help="keep one processor busy meanwhile")
    chosen = parser.parse_args(arguments)
    print(f"{'stream':32} {'ort-py ms':>10} {'peer ms':>10} {'ratio':>6} {'2nd half':>9}")
    with Runtimes(chosen.threads) as runtimes, busy_processor() if chosen.busy else contextlib.nullcontext():
        for name, model, first, runs, carried in (_tokens(), _pictures()):
            found = runtimes.streams(model, first, runs, carried, chosen.rounds)
            ours, peer = (min(rounds, key=sum) for rounds in found.values())
            later = sum(ours[len(ours) // 2 :]) / sum(peer[len(peer) // 2 :])
            row = f"{name:32} {sum(ours) * 1e3:10.1f} {sum(peer) * 1e3:10.1f} {sum(ours) / sum(peer):6.2f} {later:9.2f}"
            print(row, flush=True)
    return 0


def _tokens() -> _Stream:
    model, _ = next(one for one in TRANSFORMERS if one.file == "gpt2").fetch()
    first = gpt2_feeds(_PROMPT, 0)
    runs = [first]
    runs += [
        {name: value for name, value in gpt2_feeds(1, _PROMPT + token).items() if "past" not in name}
        for token in range(_TOKENS)
    ]
    states = [f"{kind}_{layer}" for layer in range(GPT2.layers) for kind in ("key", "value")]
    return f"gpt2, {_TOKENS} tokens", model, first, runs, {f"past_{one}": f"present_{one}" for one in states}


def _pictures() -> _Stream:
    random = np.random.default_rng(0)
    widths = random.permutation(np.arange(96, 96 + 8 * _WIDTHS, 8)).tolist()
    widths += random.choice(widths, _PICTURES - _WIDTHS).tolist()
    runs = [{"x": random.uniform(-1, 1, (1, 3, 48, width)).astype(np.float32)} for width in widths]
    return f"ppocr-v4-rec, {_PICTURES} of {_WIDTHS} widths", fetch(by_name("ppocr-v4-rec")), runs[0], runs, {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
