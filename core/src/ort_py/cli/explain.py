"""``ort-py explain MODEL``: who runs each node, how, and who refused it and why."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict

from ort_py.cli.console import say
from ort_py.cli.output import print_json, table
from ort_py.cli.sessions import add_session_arguments, open_session
from ort_py.errors import operator_title

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session_arguments(parser)
    parser.add_argument("--plan", action="store_true", help="print the execution plan too")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        OrtPyError: No session can be made of the model.
    """
    with open_session(arguments) as session:
        placement = session.placement
        if arguments.json:
            report = {
                "model": str(arguments.model),
                "providers": session.get_providers(),
                "fingerprint": session.fingerprint.to_json(),
                **placement.to_json(),
                "optimisation": session.load_report.optimisation.to_dict(),
                "fallbacks": [asdict(record) for record in session.fallback_report],
            }
            print_json(report | ({"plan": session.plan.splitlines()} if arguments.plan else {}))
            return 0
        say(str(placement))
        say("\nnodes by provider")
        say(table(("provider", "nodes"), placement.counts().items()))
        refusals = Counter(
            (provider, operator_title(node.op_type, node.domain), reason)
            for node in placement
            for provider, reason in node.refusals
        )
        if refusals:
            say("\nrefusals")
            rows = [
                (provider, operator, count, reason) for (provider, operator, reason), count in refusals.most_common()
            ]
            say(table(("provider", "operator", "nodes", "why"), rows))
        for record in session.fallback_report:
            say(f"\nfallback: {record}")
        if arguments.plan:
            say(f"\n{session.plan}")
    return 0
