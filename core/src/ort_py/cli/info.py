"""``ort-py info MODEL``: show what a model file contains. With ``--placement`` also show the provider of each node, or
why there is none.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ort_py.cli.console import say
from ort_py.cli.description import Description, OperatorUse, ValueDescription, describe_model
from ort_py.cli.output import print_json, shape_text, table
from ort_py.cli.sessions import add_session_arguments, limits_of, open_session
from ort_py.engine.compiled_model import compiled_facts
from ort_py.errors import OrtPyError, operator_title
from ort_py.graph.reading.given_model import GivenModel
from ort_py.limits import human_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_session_arguments(parser)
    parser.add_argument(
        "--placement",
        action="store_true",
        help="create a session and show how many nodes each provider runs, or why it fails",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command. A session that cannot be created is a finding, not a failure.

    Raises:
        OrtPyError: The file is not a model.
    """
    if GivenModel.of(arguments.model).is_compiled:
        return _show_compiled(arguments)
    described = describe_model(arguments.model, limits_of(arguments))
    session = _placement(arguments) if arguments.placement else None
    if arguments.json:
        print_json(asdict(described) | ({"session": session} if session is not None else {}))
        return 0
    _print(described)
    if session is not None:
        _print_session(session)
    return 0


def _show_compiled(arguments: argparse.Namespace) -> int:
    about = compiled_facts(arguments.model)
    if arguments.json:
        print_json(about)
        return 0
    say(f"compiled   {about['path']}, {human_bytes(about['bytes'])}")
    machine, versions = about["made_by"]["machine"], about["made_by"]["versions"]
    facts = {
        "model": about["title"],
        "providers": ", ".join(name for name, _ in about["providers"]),
        "parts": ", ".join(f"{kind} {human_bytes(size)}" for kind, size in about["parts"].items()),
        "machine": " ".join(str(machine[name]) for name in ("processor", "system")),
        "uses": machine["instructions"],
        "made by": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    for name, text in facts.items():
        say(f"{name:<11}{text}")
    for reason in about["does_not_fit"]:
        say(f"not here   {reason}")
    return 0


def _placement(arguments: argparse.Namespace) -> dict[str, Any]:
    try:
        with open_session(arguments) as session:
            return {
                "created": True,
                "providers": session.get_providers(),
                "nodes": session.placement.counts(),
                "fingerprint": session.fingerprint.to_json(),
                "fallbacks": [str(record) for record in session.fallback_report],
                "memory": session.memory_report().to_dict(),
            }
    except OrtPyError as error:
        return {
            "created": False,
            "error": type(error).__name__,
            "what": error.what,
            "where": str(error.where),
            "why": list(error.why),
            "fix": error.fix,
            "text": str(error),
        }


def _print(described: Description) -> None:
    say(f"model      {described.path}, {human_bytes(described.size)}")
    facts = {
        "producer": described.producer,
        "graph": described.graph_name,
        "domain": described.domain,
        "version": str(described.model_version) if described.model_version else "",
        "about": described.description,
    }
    for name, value in facts.items():
        if value:
            say(f"{name:<10} {_one_line(value)}")
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in described.opsets.items())
    say(f"opsets     {opsets or 'none'} (IR version {described.ir_version})")
    for title, values in (
        ("inputs", described.inputs),
        ("optional inputs", described.overridable),
        ("outputs", described.outputs),
    ):
        if values:
            say(title)
            say(table(("name", "type", "shape"), _value_rows(values)))
    nested = f", {described.nested_graphs} nested graphs {described.nesting_depth} deep"
    say(f"operators  {described.nodes} nodes{nested if described.nested_graphs else ''}")
    say(table(("operator", "nodes", "version"), [_operator_row(use) for use in described.operators]))
    say(f"weights    {described.weights}, {human_bytes(described.weight_bytes)}")
    for name, size in described.external_files.items():
        say(f"  {human_bytes(size)} in the file {name}")
    if described.functions:
        say("functions")
        say(table(("name", "nodes"), described.functions.items()))
    if described.metadata:
        say("metadata")
        say(table(("key", "value"), [(key, _one_line(value)) for key, value in described.metadata.items()]))


def _value_rows(values: Sequence[ValueDescription]) -> list[tuple[str, str, str]]:
    return [(value.name, value.type, shape_text(value.shape)) for value in values]


def _operator_row(use: OperatorUse) -> tuple[str, int, str]:
    name = operator_title(use.op_type, use.domain)
    if use.function:
        version = "function of the model"
    elif use.since is None and not use.standard:
        version = f"not an ONNX operator (opset {use.opset or 'not imported'} of its domain)"
    elif use.since is None:
        version = f"not in the installed onnx (opset {use.opset or 'not imported'})"
    else:
        version = str(use.since)
    return name, use.count, version


def _print_session(session: dict[str, Any]) -> None:
    if session["created"]:
        say("nodes by provider, functions inlined and optimised")
        say(table(("provider", "nodes"), session["nodes"].items()))
        for record in session["fallbacks"]:
            say(f"  fallback: {record}")
    else:
        say("no session can be created")
        say("\n".join(f"  {line}" for line in f"{session['error']}: {session['text']}".splitlines()))


def _one_line(text: str, longest: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"
