"""`python scripts/fuzz.py [graphs|mutants|attacks] [--seconds N] [--seed S] [--graphs N] …`: search for defects.

`graphs` draws random graphs and compares sessions at several levels with NumPy alone, onnxruntime and ONNX's reference.
`mutants` changes model files and runs them in child processes under strict limits. `attacks` feeds hostile indices,
sizes and lengths. What is found is made small and printed as a program; the exit status is 1 then. It needs the
development requirements.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fuzzing.campaign import Campaign, signature_order

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Search, and print what is found; 1 where something is."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Search for defects of compiled regions.")
    parser.add_argument(
        "work",
        nargs="?",
        default="graphs",
        choices=["graphs", "mutants", "attacks"],
        help="what to search with (graphs)",
    )
    parser.add_argument("--seconds", type=float, default=0.0, help="how long (until all seeds are done)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--graphs", "--count", type=int, default=500, dest="count", help="how many seeds (500)")
    parser.add_argument("--workers", type=int, default=1, help="child processes (1)")
    parser.add_argument(
        "--providers",
        default="",
        help="names of providers, separated by commas, each with options as in NAME?claim_small=1 (the default ones)",
    )
    parser.add_argument("--opset", type=int, default=0, help="operator set version of all graphs (any)")
    parser.add_argument("--type", default="", dest="main", help="element type of most data, such as float32 (any)")
    parser.add_argument("--nodes", type=int, default=40, help="most nodes of a graph (40)")
    parser.add_argument("--shrink", type=float, default=15.0, help="seconds for making each finding small (15)")
    parser.add_argument("--folder", default="", help="where small cases are written")
    parser.add_argument("--quiet", default="", help="kinds of findings that are counted only, separated by commas")
    parser.add_argument("--disputed", action="store_true", help="report what the oracles do not agree about, too")
    chosen = parser.parse_args(arguments)
    providers = chosen.providers.split(",") if chosen.providers else None
    settings: dict[str, Any] = {"folder": chosen.folder, "providers": providers}
    if chosen.work == "graphs":
        settings.update(
            opset=chosen.opset,
            main=chosen.main,
            most_nodes=chosen.nodes,
            shrink_seconds=chosen.shrink,
            quiet=chosen.quiet,
        )
    seen: set[str] = set()
    quiet = {*chosen.quiet.split(","), "peer", *([] if chosen.disputed else ["disputed"])}

    def tell(data: dict[str, Any]) -> None:
        if data["kind"] in quiet:
            return
        if data["signature"] not in seen:
            seen.add(data["signature"])
            print(
                f"--- seed {data['seed']}: {data['finding'][:600]}\n{data.get('about', '')}\n{data.get('code', '')}\n",
                flush=True,
            )

    began = time.monotonic()
    campaign = Campaign(chosen.work, chosen.seed, chosen.count, chosen.seconds, chosen.workers, settings)
    report = campaign.run(tell)
    counted = [one for one in report.found if one["kind"] not in quiet]
    print(f"{report.done} {chosen.work} in {time.monotonic() - began:.0f} s: {dict(report.counts) or 'nothing found'}")
    for one in signature_order(counted):
        print(f"  {one['signature']}  (seed {one['seed']})")
    return 1 if counted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
