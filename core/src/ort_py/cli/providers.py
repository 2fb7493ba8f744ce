"""``ort-py providers``: which execution providers are installed, which work here, and if not, why and what helps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ort_py.cli.console import say
from ort_py.cli.output import print_json, table
from ort_py.discovery import ProviderRecord, default_catalog
from ort_py.discovery.known_names import KNOWN_PROVIDERS
from ort_py.discovery.refusals import NO_DISTRIBUTION


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--installed", action="store_true", help="read only metadata, without loading or probing anything"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command. A provider that does not work is a finding, not a failure.

    Raises:
        OptionError: An environment variable that concerns probing is malformed.
    """
    catalog = default_catalog()
    records = catalog.installed() if arguments.installed else catalog.records()
    problems = list(catalog.problems)
    present = {record.name for record in records}
    missing = {} if arguments.installed else {n: p for n, p in KNOWN_PROVIDERS.items() if n not in present}
    if arguments.json:
        absent = [
            {"name": name, "state": "not installed", "fix": f"pip install {package}" if package else NO_DISTRIBUTION}
            for name, package in missing.items()
        ]
        print_json({"providers": [*map(_as_json, records), *absent], "problems": problems})
        return 0
    _print(records, missing, problems, probed=not arguments.installed)
    return 0


def _as_json(record: ProviderRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "location": record.location,
        "state": record.state.value,
        "reason": record.reason,
        "fix": record.fix,
        "exception": repr(record.exception) if record.exception is not None else None,
        "vendor": record.vendor,
        "device_class": record.device_class.value if record.device_class is not None else None,
        "rank": record.rank,
        "stands_in_for": record.stands_in_for,
        "automatic": record.automatic,
        "devices": [str(device) for device in record.devices],
        "options": [
            {
                "name": option.name,
                "type": option.title,
                "default": option.default,
                "help": option.help,
                "choices": list(option.choices),
            }
            for option in record.options
        ],
    }


def _print(
    records: Sequence[ProviderRecord], missing: dict[str, str | None], problems: Sequence[str], *, probed: bool
) -> None:
    if not records:
        say("No execution provider is installed. `pip install ort-py-cpu` runs models on any machine.")
    elif probed:
        head = ("provider", "state", "distribution", "version", "class", "rank", "devices")
        say(table(head, [_row(record) for record in records], indent=""))
    else:
        rows = [(record.name, record.state.value, record.distribution, record.version) for record in records]
        say(table(("provider", "state", "distribution", "version"), rows, indent=""))
    for record in records:
        if record.reason or record.fix:
            say(f"\n{record.address}: {record.reason or record.state.value}")
            if record.fix:
                say(f"  what to do: {record.fix}")
    for problem in problems:
        say(f"\n{problem}")
    if missing:
        packaged = [(name, f"pip install {package}") for name, package in missing.items() if package]
        if packaged:
            say("\nnot installed")
            say(table(("provider", "what to do"), packaged))
        others = [name for name, package in missing.items() if not package]
        if others:
            say(f"\nknown to onnxruntime, not provided by ort-py: {', '.join(others)}")


def _row(record: ProviderRecord) -> tuple[Any, ...]:
    devices = ", ".join(str(device) for device in record.devices)
    kind = record.device_class.value if record.device_class is not None else ""
    return record.name, record.state.value, record.distribution, record.version, kind, record.rank, devices
