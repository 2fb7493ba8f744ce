"""``ort-py cache ls|prune|verify``: what the cache on disk holds, making it smaller, and finding damage."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from ort_py.cache.format import description_of, read_checked
from ort_py.cache.location import FOLDER_VARIABLE, cache_bytes, cache_folder, parse_size
from ort_py.cache.store import CacheStore, StoredFile
from ort_py.cli.console import say
from ort_py.cli.output import print_json, table
from ort_py.errors import InvalidArgument, OptionError
from ort_py.files import open_regular
from ort_py.limits import human_bytes

_DAY = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("ls", "prune", "verify"),
        help=(
            "ls: list entries, most recently used first; prune: remove the least recently used ones; verify: check "
            "all of them, with exit code 1 if one is damaged"
        ),
    )
    parser.add_argument("--all", action="store_true", help="prune: remove everything")
    parser.add_argument("--size", type=_size, metavar="SIZE", help="prune: keep at most this much, e.g. 500M")
    parser.add_argument(
        "--unused", type=float, metavar="DAYS", help="prune: remove entries that were not used for this many days"
    )
    parser.add_argument("--remove", action="store_true", help="verify: remove the damaged ones")
    parser.add_argument(
        "--folder", default="", metavar="DIR", help=f"use this folder instead of the one in {FOLDER_VARIABLE}"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _size(text: str) -> int:
    try:
        return parse_size(text, "the size")
    except OptionError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write e.g. 500M or 2G") from error


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        InvalidArgument: The cache is switched off.
        OptionError: An option belongs to another action, or the environment's size of the cache is none.
    """
    _check_options(arguments)
    folder = cache_folder(arguments.folder)
    if folder is None:
        raise InvalidArgument(
            "There is no cache to examine.",
            why=f"{FOLDER_VARIABLE} turns it off, or there is no home folder for it",
            fix="Name a folder with --folder.",
        )
    store = CacheStore(folder, cache_bytes())
    # A folder that is not there yet is an empty cache; looking at one must not make it.
    usable = store.exists and store.usable
    return {"ls": _list, "prune": _prune, "verify": _verify}[arguments.action](arguments, store, usable)


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that the action would ignore: `ls --all` lists everything anyway, and removes nothing."""
    pruning = arguments.all or arguments.size is not None or arguments.unused is not None
    for given, action in ((pruning, "prune"), (arguments.remove, "verify")):
        if given and arguments.action != action:
            raise OptionError(
                f"Options of `ort-py cache {action}` were passed to `{arguments.action}`.",
                why="it does not use them",
                fix=f"Leave them out, or run `ort-py cache {action}`.",
            )


def _list(arguments: argparse.Namespace, store: CacheStore, usable: bool) -> int:
    files = store.files() if usable else []
    total = sum(one.size for one in files)
    rows = [_row(one) for one in files]
    if arguments.json:
        print_json({"folder": str(store.folder), "bytes": total, "capacity": cache_bytes(), "entries": rows})
        return 0
    if rows:
        head = ("key", "kind", "size", "used", "model")
        cells = [
            (row["key"], row["kind"], human_bytes(row["bytes"]), _ago(row["used"]), _about(row["about"]))
            for row in rows
        ]
        say(table(head, cells, indent=""))
        say("")
    say(f"{len(rows)} entries, {human_bytes(total)} of {human_bytes(cache_bytes())}, in {store.folder}")
    return 0


def _row(one: StoredFile) -> dict[str, Any]:
    return {
        "key": one.path.stem,
        "kind": one.kind,
        "bytes": one.size,
        "written": one.written,
        "used": one.used,
        "about": {} if one.kind == "artifact" else _description(one.path),
    }


def _description(path: Path) -> dict[str, Any]:
    """Describe an entry; empty if it cannot be read: `verify` says why."""
    try:
        with open_regular(path, links=False) as file:
            content, wrong = read_checked(file)
        if wrong:
            return {"damaged": True}
        head: dict[str, Any] = json.loads(description_of(content)[0].split(b"\n", 1)[0])
    except (OSError, ValueError):
        return {"damaged": True}
    return {name: head.get(name) for name in ("title", "nodes", "providers")}


def _about(about: dict[str, Any]) -> str:
    if about.get("damaged"):
        return "damaged"
    if not about:
        return ""
    providers = about["providers"] or {}
    if isinstance(providers, dict):  # of a model, with the nodes of each; those of a placement are in order
        providers = [f"{name}: {count}" for name, count in providers.items()]
    return f"{about['title']} ({', '.join(map(str, providers))})" if providers else str(about["title"])


def _ago(moment: float) -> str:
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((_DAY, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now" if seconds < 60 else "a minute ago"


def _prune(arguments: argparse.Namespace, store: CacheStore, usable: bool) -> int:
    size = 0 if arguments.all else cache_bytes() if arguments.size is None else arguments.size
    unused = None if arguments.unused is None else arguments.unused * _DAY
    removed = store.prune(size, unused_seconds=unused) if usable else []
    freed = sum(one.size for one in removed)
    left = store.files() if usable else []
    if arguments.json:
        report = {"folder": str(store.folder), "removed": [one.path.stem for one in removed], "bytes": freed}
        print_json(report | {"left": len(left)})
        return 0
    say(f"removed {len(removed)} entries, {human_bytes(freed)}; {len(left)} are left in {store.folder}")
    return 0


def _verify(arguments: argparse.Namespace, store: CacheStore, usable: bool) -> int:
    checked = list(store.verify()) if usable else []
    damaged = [(one, wrong) for one, wrong in checked if wrong]
    for one, _ in damaged if arguments.remove else ():
        store.discard(one.path.stem, one.kind)
    if arguments.json:
        rows = [{"key": one.path.stem, "kind": one.kind, "damage": wrong} for one, wrong in checked]
        print_json({"folder": str(store.folder), "entries": rows, "damaged": len(damaged)})
    else:
        for one, wrong in damaged:
            say(f"{one.path.name}: {wrong}{' (removed)' if arguments.remove else ''}")
        say(f"{len(checked)} entries, {len(damaged)} damaged, in {store.folder}")
    return 1 if damaged else 0
