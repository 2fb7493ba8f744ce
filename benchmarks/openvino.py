"""`python -m benchmarks.openvino [NAME …] [--threads N] [--precision P]`: the provider beside OpenVINO's own API.

The same model with its free dimensions, the same properties, outputs that stay: what a session adds. One process each,
alternating blocks, no cache. A model is within bounds where ort-py takes at most 5 % and 20 µs longer, by medians or by
the fastest runs, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.alternating import BLOCKS, VARIANT, Refused, Runtimes, Timing
from benchmarks.providers import PICTURES, chosen_models, relative_error

__all__ = ["main"]

MODELS = (*PICTURES, "magika", "minilm-int8")
"""Models that are one region, but for a node here and there."""

PROVIDER = "OpenVINOExecutionProvider"
OURS, PEER = f"ort_py{VARIANT}{PROVIDER}", f"openvino{VARIANT}session"
SETTINGS: dict[str, dict[str, Any]] = {
    OURS: {"providers": [PROVIDER, "CPUExecutionProvider"]},
    PEER: {"as_session": True},
}


def main(arguments: list[str]) -> int:
    """Print a row for each model as it is measured, then how many are within bounds."""
    parser = argparse.ArgumentParser(prog="benchmarks.openvino", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"models of the catalogue; {', '.join(MODELS)}")
    parser.add_argument("--threads", type=int, default=1, help="threads of both (1)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks of 0.3 s for each ({BLOCKS})")
    parser.add_argument("--precision", choices=("float32", "bfloat16", "float16"), default="float32")
    chosen = parser.parse_args(arguments)
    columns = (
        ("ort-py ms", 10),
        ("openvino", 10),
        ("more µs", 8),
        ("allowed", 8),
        ("of the fastest", 17),
        ("error", 6),
    )
    print(f"{'model':22} {' '.join(f'{title:>{width}}' for title, width in columns)}")
    within = measured = 0
    with Runtimes(chosen.threads, precision=chosen.precision, names=(OURS, PEER), variants=SETTINGS) as runtimes:
        for name, model, feeds in chosen_models(chosen.names or MODELS):
            found = runtimes.measure(model, feeds, chosen.blocks)
            ours, peer = found[OURS], found[PEER]
            if isinstance(ours, Refused) or isinstance(peer, Refused):
                print(f"{name:22} {' '.join(str(one) for one in (ours, peer) if isinstance(one, Refused))}"[:200])
                continue
            measured += 1
            within += _row(name, ours, peer)
    print(f"{within} of {measured} within 5 % + 20 µs, {chosen.threads} thread(s), {chosen.precision}")
    return 0


def _row(name: str, ours: Timing, peer: Timing) -> bool:
    more, allowed = _excess(ours.median, peer.median)
    least, bound = _excess(ours.fastest, peer.fastest)
    good = more <= allowed or least <= bound
    error = relative_error(ours.outputs, peer.outputs)
    print(
        f"{name:22} {ours.median * 1e3:10.3f} {peer.median * 1e3:10.3f} {more:8.0f} {allowed:8.0f} "
        f"{least:8.0f} {bound:8.0f}  {error:.0e}{'' if good else '  over'}",
        flush=True,
    )
    return good


def _excess(ours: float, peer: float) -> tuple[float, float]:
    """Microseconds more than the peer's time, and how many may be."""
    return (ours - peer) * 1e6, peer * 0.05 * 1e6 + 20


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
