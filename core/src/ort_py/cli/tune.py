"""``ort-py tune MODEL``: measure the best few placements of a model here, and remember the fastest for its sessions.

``ort-py tune --calibrate`` measures what calls, arithmetic and copies of the providers take on this machine, which the
placement of all models is estimated with.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ort_py
from ort_py.cli.console import say
from ort_py.cli.inputs import add_input_arguments, make_feeds
from ort_py.cli.output import print_json, print_report, table
from ort_py.cli.progress import Progress
from ort_py.cli.sessions import add_session_arguments, limits_of, open_session, providers_of
from ort_py.errors import OptionError
from ort_py.inspection.calibration import calibrate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_session_arguments(parser, models="?")
    parser.add_argument("--calibrate", action="store_true", help="measure the providers instead of a model")
    parser.add_argument("--seconds", type=float, default=10.0, help="about how long to measure (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads of a run (default: as a session chooses)")
    parser.add_argument(
        "--forget", action="store_true", help="only measure, without changing which placement sessions use"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_input_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        OptionError: Neither a model nor --calibrate is given, or both are.
        OrtPyError: No placement runs the model, or an input is wrong.
    """
    if (arguments.model is None) is not arguments.calibrate:
        raise OptionError(
            "`ort-py tune` measures a model or, with --calibrate, the providers.",
            fix="Pass either MODEL or --calibrate.",
        )
    return _calibrate(arguments) if arguments.calibrate else _tune(arguments)


def _tune(arguments: argparse.Namespace) -> int:
    options = ort_py.SessionOptions()
    options.limits = limits_of(arguments)
    options.intra_op_num_threads = arguments.threads
    with open_session(arguments) as session:
        feeds = make_feeds(session.get_inputs(), session.get_overridable_initializers(), arguments)
    with Progress(f"tuning {Path(arguments.model).name}") as progress:
        report = ort_py.tune(
            arguments.model,
            options,
            providers_of(arguments),
            inputs=feeds.values,
            seconds=arguments.seconds,
            remember=not arguments.forget,
            progress=progress.detail,
        )
    print_report(report, report.to_json() if arguments.json else None)
    return 0


def _calibrate(arguments: argparse.Namespace) -> int:
    with Progress("calibrating") as progress:
        found = calibrate(
            arguments.providers, threads=arguments.threads, seconds=arguments.seconds, progress=progress.detail
        )
    if arguments.json:
        print_json({"providers": [one.to_json() for one in found]})
        return 0
    head = ("provider", "call µs", "node µs", "Gflop/s", "GB/s", "copy µs", "copy GB/s", "")
    rows = [(one.provider, *one.figures(), "remembered" if one.remembered else one.remark) for one in found]
    say(table(head, rows, indent=""))
    return 0
