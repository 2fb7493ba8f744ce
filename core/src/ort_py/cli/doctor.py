"""``ort-py doctor``: every installed provider tried in a process of its own, the machine's facts, and what to do.

Exit codes: 0 all is well, 1 an installed provider is not usable or its files were changed, 2 wrong command line, 3 a
provider named with ``--require`` is not usable. With ``--require``, only the providers named decide.
"""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from ort_py.cli.console import say
from ort_py.cli.output import print_json
from ort_py.cli.progress import Progress
from ort_py.discovery.known_names import package_for
from ort_py.discovery.records import CPU_ROLE
from ort_py.inspection.diagnosis.examine import TIME_LIMIT, examine
from ort_py.inspection.diagnosis.report import Diagnosis, ProviderDiagnosis
from ort_py.limits import human_bytes

NOT_USABLE, REQUIRED_MISSING = 1, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "exit codes: 0 all is well, 1 an installed provider is not usable or was modified, 2 wrong command line, "
        "3 a required provider is not usable"
    )
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="NAME",
        help="a provider that must be usable (may be repeated): only these providers then determine the exit code",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="try this provider alone (may be repeated)"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=TIME_LIMIT,
        metavar="SECONDS",
        help="time limit of each provider (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """Run the command. What is wrong with a provider is a finding, and never stops the others."""
    with Progress("trying providers"):
        names = [*arguments.only, *arguments.require] if arguments.only else []
        diagnosis = examine(names, seconds=arguments.timeout)
    missing = diagnosis.missing(arguments.require)
    code = 0 if arguments.require or diagnosis.fine else NOT_USABLE
    if missing:
        code = REQUIRED_MISSING
    if arguments.json:
        print_json(diagnosis.to_json() | {"required_missing": missing, "exit_code": code})
    else:
        _print(diagnosis, missing)
    return code


def _print(diagnosis: Diagnosis, missing: dict[str, str]) -> None:
    _print_machine(diagnosis.machine)
    if not diagnosis.providers:
        say("\nNo execution provider is installed. `pip install ort-py-cpu` runs models on any machine.")
    for one in diagnosis.providers:
        _print_provider(one)
    if {one.name for one in diagnosis.providers if one.usable} == {CPU_ROLE}:
        say("\nNo fast CPU provider is usable here: models run on NumPy, which computes every operator and is slower.")
    for problem in diagnosis.problems:
        say(f"\n{problem}")
    for name, cause in missing.items():
        package = package_for(name.rpartition(":")[2])
        say(f"\nrequired and not usable: {name} ({cause})")
        if cause == "not installed" and package:
            say(f"  what to do: pip install {package}")


def _print_machine(facts: dict[str, Any]) -> None:
    packages = ", ".join(f"{name} {version}" for name, version in facts["packages"].items() if version)
    say(f"ort-py     {facts['ort_py']} on {facts['implementation']} {facts['python']} ({facts['executable']})")
    say(f"packages   {packages}")
    say(f"platform   {facts['platform']}")
    say(f"processor  {facts['processor']}")
    if facts["features"]:
        say(textwrap.fill(" ".join(facts["features"]), 100, initial_indent=" " * 11, subsequent_indent=" " * 11))
    say(f"threads    {facts['threads']['count']}: {facts['threads']['reason']}")
    quota = facts["cgroup"]["processors"]
    if quota is not None:
        say(f"cgroup     {quota['quota']:g} processors' worth of time in {quota['group']}")
    for group in facts["cgroup"]["memory"]:
        say(f"cgroup     {human_bytes(group['used'])} of {human_bytes(group['limit'])} of memory in {group['group']}")
    if quota is None and not facts["cgroup"]["memory"]:
        say("cgroup     no limits")
    cache = facts["cache"]
    say(f"cache      {cache['folder'] or 'none'}: {cache['state']}{': ' + cache['note'] if cache['note'] else ''}")
    for name, text in facts["environment"].items():
        say(f"           {name}={text}")


def _print_provider(one: ProviderDiagnosis) -> None:
    say(f"\n{one.verdict.value.upper():<12} {one.name}")
    say(f"  package  {one.distribution} {one.version}, entry point {one.entry_point}, in {one.location}")
    if one.usable and one.cause and one.fine:
        say(f"  found    {one.cause}")
    elif one.cause:
        say(f"  cause    {one.cause}")
    if one.fix:
        say(f"  fix      {one.fix}")
    if one.devices:
        say(f"  devices  {', '.join(one.devices)}")
    if one.run is not None:
        nodes = ", ".join(f"{name} {count}" for name, count in one.run.nodes.items())
        say(
            f"  run      {one.run.model}: {one.run.best_ms:.3f} ms (first {one.run.first_ms:.1f} ms), "
            f"off by {one.run.max_error:g}; nodes: {nodes}"
        )
    files = one.files
    if files.note:
        say(f"  files    not checked: {files.note}")
    elif files.checked or not files.fine:
        say(f"  files    {files.checked} checked, {len(files.modified)} modified, {len(files.missing)} missing")
    if one.stages_ms:
        stages = ", ".join(f"{name} {time:.0f}" for name, time in one.stages_ms.items())
        say(f"  time     {one.seconds:.1f} s (ms: {stages})")
    if one.output:
        say(textwrap.indent("\n".join(one.output.splitlines()[-8:]), "  | "))
