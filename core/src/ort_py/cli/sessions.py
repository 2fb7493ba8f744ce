"""The arguments that are common to all commands that open a session, and the session that they describe."""

from __future__ import annotations

import argparse
from pathlib import Path

import ort_py
from ort_py.cli.progress import Progress
from ort_py.discovery import default_catalog
from ort_py.discovery.known_names import KNOWN_PROVIDERS

_LIMITS = {"default": ort_py.Limits, "untrusted": ort_py.Limits.untrusted, "unlimited": ort_py.Limits.unlimited}


def add_session_arguments(parser: argparse.ArgumentParser, models: str | None = None) -> None:
    """Add MODEL, --providers and --limits. With ``models="?"``, MODEL may be left out."""
    parser.add_argument("model", metavar="MODEL", nargs=models, help="path of an ONNX model")
    parser.add_argument(
        "--providers",
        "--provider",
        type=provider_names,
        metavar="A,B",
        help="providers in order of preference (default: every usable one by rank)",
    )
    parser.add_argument(
        "--ep-option",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "KEY=VALUE"),
        help="an option of a provider that --providers names; may be repeated",
    )
    add_limits_argument(parser)


def add_limits_argument(parser: argparse.ArgumentParser) -> None:
    about = "'untrusted' limits the resources of models that you do not trust (default: %(default)s)"
    parser.add_argument("--limits", choices=_LIMITS, default="default", help=about)


def provider_names(text: str) -> list[str]:
    """The providers of a list; `coreml` is short for `CoreMLExecutionProvider`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("names no provider")
    return [_full_name(name) for name in names]


def _full_name(name: str) -> str:
    known = {one.lower(): one for one in (*KNOWN_PROVIDERS, *(record.name for record in default_catalog().installed()))}
    return known.get(name.lower(), known.get(f"{name}ExecutionProvider".lower(), name))


def providers_of(arguments: argparse.Namespace) -> list[str | tuple[str, dict[str, str]]] | None:
    """The providers, with their options.

    Raises:
        OptionError: An option belongs to no provider that is named, or has no value.
    """
    names = arguments.providers or []
    options: dict[str, dict[str, str]] = {name: {} for name in names}
    for short, text in arguments.ep_option:
        name, (key, given, value) = _full_name(short), text.partition("=")
        if name not in options or not given:
            raise ort_py.OptionError(
                f"--ep-option {short} {text} cannot be used.",
                why="it is not NAME KEY=VALUE" if name in options else f"--providers does not name {short}",
                fix="Write for example: --providers A --ep-option A threads=1.",
            )
        options[name][key] = value
    return [(name, options[name]) if options[name] else name for name in names] or None


def limits_of(arguments: argparse.Namespace) -> ort_py.Limits:
    return _LIMITS[arguments.limits]()


def open_session(arguments: argparse.Namespace) -> ort_py.InferenceSession:
    options = ort_py.SessionOptions()
    options.limits = limits_of(arguments)
    with Progress(f"loading {Path(arguments.model).name}"):
        return ort_py.InferenceSession(arguments.model, options, providers=providers_of(arguments))
