"""``ort-py new``: writes a plug-in package that builds, installs, runs and passes its tests without an edit."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ort_py.printable import printable
from ort_py_kit.scaffold import KINDS, LICENSES, package_files, package_names, write_package


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=tuple(KINDS), help="; ".join(f"{kind}: {text}" for kind, text in KINDS.items()))
    parser.add_argument(
        "name", metavar="NAME", help="one word, say acme: ort-py-acme, ort_py_acme, AcmeExecutionProvider"
    )
    parser.add_argument("--into", metavar="FOLDER", help="where, ./ort-py-NAME if not given: a new or an empty folder")
    parser.add_argument("--license", choices=LICENSES, default="Apache-2.0", help="its licence (default %(default)s)")
    parser.add_argument("--author", default="", metavar="NAME", help="who holds the copyright")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        InvalidArgument: No package can be called so, or the folder is not empty.
    """
    names = package_names(arguments.name)
    folder = Path(arguments.into or names.distribution)
    contents = package_files(arguments.kind, names, arguments.license, arguments.author)
    write_package(folder, contents)
    if arguments.json:
        written = {
            "kind": arguments.kind,
            "folder": str(folder),
            "distribution": names.distribution,
            "package": names.package,
            "provider": names.provider if arguments.kind == "provider" else None,
            "files": list(contents),
        }
        print(json.dumps(written, indent=2))
        return 0
    lines = [f"{names.distribution}: {KINDS[arguments.kind]}, in {folder}", *(f"  {path}" for path in contents)]
    lines += ["", "Next:", f"  cd {folder}", "  pip install -e '.[test]'", "  pytest"]
    print(printable("\n".join(lines)))
    return 0
