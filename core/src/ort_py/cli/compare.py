"""``ort-py compare MODEL``: run a model in two ways, and show the first node that computes something else."""

from __future__ import annotations

import argparse
from pathlib import Path

import ort_py
from ort_py.cli.inputs import add_input_arguments, make_feeds
from ort_py.cli.output import print_report
from ort_py.cli.progress import Progress
from ort_py.cli.sessions import add_limits_argument, limits_of, provider_names
from ort_py.inspection.comparison.configuration import LEVELS

DIFFERENT = 1
"""Exit code where the two ways do not agree."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="path of an ONNX model")
    side = "a level (%(metavar)s may be " + ", ".join(LEVELS) + "), providers (A,B), or both (A,B@basic)"
    parser.add_argument(
        "--a",
        type=_side,
        default="disable",
        metavar="HOW",
        help=f"the side with the expected results: {side} (default: %(default)s)",
    )
    parser.add_argument(
        "--b", type=_side, default="all", metavar="HOW", help="the side that is compared with it (default: %(default)s)"
    )
    parser.add_argument(
        "--tolerance",
        action="append",
        default=[],
        type=_tolerance,
        metavar="TYPE=REL,ABS",
        help="relative and absolute error of an element type, e.g. float16=1e-2,1e-3; may be repeated",
    )
    parser.add_argument(
        "--bisect",
        action="store_true",
        help=(
            "find the graph transform that changes the outputs between the level of --a and that of --b; both "
            "sides use the providers of --b"
        ),
    )
    add_limits_argument(parser)
    add_input_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 1 where the two ways do not agree.

    Raises:
        OrtPyError: The model, an input or an argument is wrong.
    """
    sides = [_configuration(side, arguments) for side in (arguments.a, arguments.b)]
    tolerances = dict(arguments.tolerance)
    with Progress(f"comparing {Path(arguments.model).name}") as progress:
        with sides[0].open(arguments.model) as session:
            feeds = make_feeds(session.get_inputs(), session.get_overridable_initializers(), arguments)
        report: ort_py.ComparisonReport | ort_py.BisectionReport
        if arguments.bisect:
            report = ort_py.bisect(
                arguments.model,
                feeds.values,
                levels=(sides[0].settings().graph_optimization_level, sides[1].settings().graph_optimization_level),
                providers=sides[1].providers,
                options=sides[1].options,
                tolerances=tolerances,
                progress=lambda trial: progress.detail(str(trial)),
            )
        else:
            report = ort_py.compare(
                arguments.model,
                a=sides[0],
                b=sides[1],
                inputs=feeds.values,
                tolerances=tolerances,
                progress=lambda done, steps: progress.detail(f"step {done} of {steps}"),
            )
    print_report(report, report.to_dict() if arguments.json else None)
    return 0 if report.equal else DIFFERENT


def _configuration(
    side: tuple[list[str] | None, str | None], arguments: argparse.Namespace
) -> ort_py.SessionConfiguration:
    providers, level = side
    options = ort_py.SessionOptions()
    options.limits = limits_of(arguments)
    if level is not None:
        options.graph_optimization_level = LEVELS[level]
    return ort_py.SessionConfiguration(options, providers)


def _side(text: str) -> tuple[list[str] | None, str | None]:
    providers, _, level = text.rpartition("@") if "@" in text else ("", "", text) if text in LEVELS else (text, "", "")
    if level and level not in LEVELS:
        raise argparse.ArgumentTypeError(f"'{level}' is not a level; there are {', '.join(LEVELS)}")
    return provider_names(providers) if providers or not level else None, level or None


def _tolerance(text: str) -> tuple[str, tuple[float, float]]:
    name, _, numbers = text.partition("=")
    try:
        relative, absolute = (float(number) for number in numbers.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not TYPE=REL,ABS") from None
    return name, (relative, absolute)
