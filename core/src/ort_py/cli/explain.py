"""``ort-py explain MODEL``: who runs each node, how, who refused it and why, as text, JSON, a page or an ONNX file."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import ort_py
from ort_py.cli.console import say
from ort_py.cli.output import print_json, table
from ort_py.cli.sessions import add_session_arguments, open_session
from ort_py.errors import operator_title
from ort_py.inspection.placement.islands import copied_bytes
from ort_py.limits import human_bytes

SHOWN = 40
"""Islands and borders in the text: the largest; JSON and the page have all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_session_arguments(parser)
    parser.add_argument("--plan", action="store_true", help="print the execution plan too")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page with a picture of the graph")
    parser.add_argument(
        "--onnx", metavar="FILE", type=Path, help="write the model as it runs, with the provider of each node"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        OrtPyError: No session can be made of the model.
        OSError: A file cannot be written.
    """
    with open_session(arguments) as session:
        written = _write(arguments, session.placement)
        if arguments.json:
            _print_json(arguments, session, written)
        else:
            _print(arguments, session)
            for path in written:
                say(f"\nwritten: {path}")
    return 0


def _write(arguments: argparse.Namespace, placement: ort_py.Placement) -> list[Path]:
    written: list[Path] = []
    if arguments.html is not None:
        placement.to_html(arguments.html, title=Path(arguments.model).name)
        written.append(arguments.html)
    if arguments.onnx is not None:
        placement.to_onnx(arguments.onnx)
        written.append(arguments.onnx)
    return written


def _print_json(arguments: argparse.Namespace, session: ort_py.InferenceSession, written: list[Path]) -> None:
    report = {
        "model": str(arguments.model),
        "providers": session.get_providers(),
        "fingerprint": session.fingerprint.to_json(),
        **session.placement.to_json(),
        "optimisation": session.load_report.optimisation.to_dict(),
        "fallbacks": [asdict(record) for record in session.fallback_report],
        "written": [str(path) for path in written],
    }
    print_json(report | ({"plan": session.plan.splitlines()} if arguments.plan else {}))


def _print(arguments: argparse.Namespace, session: ort_py.InferenceSession) -> None:
    placement = session.placement
    say(str(placement))
    say("\nnodes by provider")
    say(table(("provider", "nodes"), placement.counts().items()))
    _print_islands(placement)
    _print_borders(placement)
    refusals = placement.refusals()
    if refusals:
        say("\nrefusals")
        rows = [(provider, operator, count, reason) for provider, operator, reason, count in refusals]
        say(table(("provider", "operator", "nodes", "why"), rows))
    if placement.suggestions:
        say("\nsupport that would merge the most islands, each with those before it")
        rows = [
            (
                operator_title(one.op_type, one.domain),
                one.provider,
                one.nodes,
                f"{one.islands_before} -> {one.islands_after}",
            )
            for one in placement.suggestions
        ]
        say(table(("operator", "by", "nodes", "islands"), rows))
    for record in session.fallback_report:
        say(f"\nfallback: {record}")
    if arguments.plan:
        say(f"\n{session.plan}")


def _print_islands(placement: ort_py.Placement) -> None:
    islands = sorted(placement.islands, key=lambda island: -len(island.nodes))
    say(f"\nislands: {len(islands)}")
    rows = [(island.number, island.provider, len(island.nodes), island.region) for island in islands[:SHOWN]]
    say(table(("number", "provider", "nodes", "region"), rows))
    if len(islands) > SHOWN:
        say(f"  and {len(islands) - SHOWN} smaller ones")


def _print_borders(placement: ort_py.Placement) -> None:
    borders = placement.borders
    if not borders:
        return
    known, symbolic = copied_bytes(borders)
    copied = " + ".join([human_bytes(known), *symbolic])
    say(f"\nvalues that cross borders: {len(borders)}, of which {copied} are copied between devices in a run")
    largest = sorted(borders, key=lambda border: (border.value.nbytes is not None, -(border.value.nbytes or 0)))
    rows = [
        (
            "caller" if border.source < 0 else border.source,
            "caller" if border.target < 0 else border.target,
            border.value.size,
            f"{border.from_device} -> {border.to_device}" if border.copied else "no copy",
            border.value.name,
        )
        for border in largest[:SHOWN]
    ]
    say(table(("from island", "to island", "size", "copy", "value"), rows))
    if len(borders) > SHOWN:
        say(f"  and {len(borders) - SHOWN} more")
