"""`python -m benchmarks.bridge [--blocks N]`: what a call costs through `ort-py-onnxruntime`, beside onnxruntime alone.

One node on little data, so that nearly all of the time is the call's; one thread, one process each, alternating blocks.
A call is within bounds where it takes at most 7 µs longer than onnxruntime's own, by medians or by the fastest runs,
which other programs disturb less.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser

from benchmarks.alternating import BLOCKS, VARIANT, Refused, Runtimes, Timing

__all__ = ["CASES", "main"]

PROVIDER = "OnnxruntimeExecutionProvider"
BRIDGE, NUMPY, PEER = f"ort_py{VARIANT}{PROVIDER}", f"ort_py{VARIANT}numpy", "onnxruntime"
SETTINGS: dict[str, dict[str, Any]] = {
    BRIDGE: {"providers": [PROVIDER], "pin_cpu": True},
    NUMPY: {"providers": ["CPUExecutionProvider"], "pin_cpu": True},
}
_MORE = 7.0
"""Microseconds that a call may take longer."""

CASES = {
    "Relu, 64 numbers": ("g (float[N] a) => (float[N] y) { y = Relu(a) }", (64,)),
    "Relu, 16,384 numbers": ("g (float[N] a) => (float[N] y) { y = Relu(a) }", (16_384,)),
    "Sum of four, 64 numbers": (
        "g (float[N] a, float[N] b, float[N] c, float[N] d) => (float[N] y) { y = Sum(a, b, c, d) }",
        (64,),
    ),
}
"""Models and the shape of their inputs: values that are copied, values that are read where they are, and several."""


def main(arguments: list[str]) -> int:
    """Print a row for each case as it is measured, then how many are within bounds."""
    parser = argparse.ArgumentParser(prog="benchmarks.bridge", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks of 0.3 s for each ({BLOCKS})")
    chosen = parser.parse_args(arguments)
    columns = (("bridge µs", 10), ("ort", 7), ("NumPy", 7), ("more", 7), ("fastest", 9), ("ort", 7), ("more", 7))
    print(f"{'a call':24} {' '.join(f'{title:>{width}}' for title, width in columns)}")
    within = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Runtimes(1, names=(BRIDGE, PEER, NUMPY), variants=SETTINGS) as runtimes,
    ):
        for name, (text, shape) in CASES.items():
            model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)
            random = np.random.default_rng(0)
            feeds = {value.name: random.standard_normal(shape, np.float32) for value in model.graph.input}
            found = runtimes.measure(path, feeds, chosen.blocks)
            within += _row(name, *(_timing(found[one]) for one in (BRIDGE, PEER, NUMPY)))
    print(f"{within} of {len(CASES)} take at most {_MORE:g} µs longer than onnxruntime alone")
    return 0


def _timing(found: Timing | Refused) -> Timing:
    if isinstance(found, Refused):
        raise found
    return found


def _row(name: str, bridge: Timing, peer: Timing, plain: Timing) -> bool:
    more, least = (bridge.median - peer.median) * 1e6, (bridge.fastest - peer.fastest) * 1e6
    within = min(more, least) <= _MORE
    times = (bridge.median, peer.median, plain.median)
    print(
        f"{name:24} {bridge.median * 1e6:10.1f} {' '.join(f'{one * 1e6:7.1f}' for one in times[1:])} {more:7.1f} "
        f"{bridge.fastest * 1e6:9.1f} {peer.fastest * 1e6:7.1f} {least:7.1f}{'' if within else '  over'}",
        flush=True,
    )
    return within


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
