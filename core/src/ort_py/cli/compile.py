"""``ort-py compile MODEL -o FILE``: a model prepared for this kind of machine, as one file to ship."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ort_py
from ort_py.api.compiling import compile_with
from ort_py.api.provider_file import write_provider_file
from ort_py.cli.inputs import add_input_arguments, make_feeds
from ort_py.cli.output import print_report
from ort_py.cli.progress import Progress
from ort_py.cli.sessions import add_session_arguments, limits_of, providers_of
from ort_py.engine.engine import Engine
from ort_py.graph.reading.given_model import COMPILED_SUFFIX

_LEVELS = {
    "disable": ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort_py.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort_py.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort_py.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session_arguments(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write, whose name ends in .ortpy (default: MODEL with that ending, in this folder) or as a"
        " file that the provider writes for other programs",
    )
    parser.add_argument(
        "--embed-original",
        action="store_true",
        help="also write the original model, which is prepared anew on machines that the compiled one does not fit;"
        " otherwise it is refused there",
    )
    parser.add_argument(
        "--no-run", action="store_true", help="do not run the model: the first run of each process packs the weights"
    )
    parser.add_argument(
        "--optimization", choices=_LEVELS, default="all", help="how far the graph is rewritten (default: %(default)s)"
    )
    parser.add_argument("--precision", default="float32", help="precision of computation (default: %(default)s)")
    parser.add_argument(
        "--fix",
        action="append",
        default=[],
        type=_dimension,
        metavar="NAME=SIZE",
        help="fix a symbolic dimension to a size in the compiled model; may be repeated",
    )
    parser.add_argument(
        "--config", action="append", default=[], type=_entry, metavar="KEY=VALUE", help="a config entry of the session"
    )
    parser.add_argument("--threads", type=int, default=0, help="threads of a run (default: as a session chooses)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_input_arguments(parser)


def _dimension(text: str) -> tuple[str, int]:
    name, given, size = text.rpartition("=")
    if not given or not name or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=SIZE")
    return name, int(size)


def _entry(text: str) -> tuple[str, str]:
    key, given, value = text.partition("=")
    if not given or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        OrtPyError: The model cannot be compiled, or an input is wrong.
        OSError: The file cannot be written.
    """
    model = Path(arguments.model)
    output = arguments.output or Path(model.name).with_suffix(COMPILED_SUFFIX)
    given = arguments.model, output, _options(arguments), providers_of(arguments)
    with Progress(f"compiling {model.name}") as progress:
        if output.suffix.lower() != COMPILED_SUFFIX and arguments.providers:
            report = write_provider_file(*given)
        else:
            report = compile_with(
                *given,
                None,
                feeds=lambda engine: [] if arguments.no_run else _feeds(engine, arguments),
                made_up=not arguments.input,
                embed_original=arguments.embed_original,
                progress=progress.detail,
            )
    print_report(report, report.to_json() if arguments.json else None)
    return 0


def _options(arguments: argparse.Namespace) -> ort_py.SessionOptions:
    options = ort_py.SessionOptions()
    options.limits = limits_of(arguments)
    options.graph_optimization_level = _LEVELS[arguments.optimization]
    options.precision = arguments.precision
    options.intra_op_num_threads = arguments.threads
    for name, size in arguments.fix:
        options.add_free_dimension_override_by_name(name, size)
    for key, value in arguments.config:
        options.add_session_config_entry(key, value)
    return options


def _feeds(engine: Engine, arguments: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    described = engine.description
    return [make_feeds(described.inputs, described.overridable, arguments).values]
