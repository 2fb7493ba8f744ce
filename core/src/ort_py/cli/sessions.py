"""The arguments that are common to all commands that open a session, and the session that they describe."""

from __future__ import annotations

import argparse
from pathlib import Path

import ort_py
from ort_py.cli.progress import Progress

_LIMITS = {
    "default": ort_py.Limits,
    "untrusted": ort_py.Limits.untrusted,
    "unlimited": ort_py.Limits.unlimited,
}


def add_session_arguments(parser: argparse.ArgumentParser, models: str | None = None) -> None:
    """Add MODEL, --providers and --limits. With ``models="?"``, MODEL may be left out."""
    parser.add_argument("model", metavar="MODEL", nargs=models, help="path of an ONNX model")
    parser.add_argument(
        "--providers",
        type=provider_names,
        metavar="A,B",
        help="providers in order of preference (default: every usable one by rank)",
    )
    add_limits_argument(parser)


def add_limits_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limits",
        choices=_LIMITS,
        default="default",
        help=(
            "limits on the resources of the model: 'untrusted' for models that you do not trust (default: %(default)s)"
        ),
    )


def provider_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("names no provider")
    return names


def limits_of(arguments: argparse.Namespace) -> ort_py.Limits:
    return _LIMITS[arguments.limits]()


def open_session(arguments: argparse.Namespace) -> ort_py.InferenceSession:
    options = ort_py.SessionOptions()
    options.limits = limits_of(arguments)
    with Progress(f"loading {Path(arguments.model).name}"):
        return ort_py.InferenceSession(arguments.model, options, providers=arguments.providers)
