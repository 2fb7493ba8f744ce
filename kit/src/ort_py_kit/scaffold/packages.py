"""Files of a new package: templates are filled in, and written if no file exists yet.

Comes after `names`; `ort_py_kit.cli.new` calls it. A template's path is the file's: ``dot-`` stands for a leading dot,
``package`` for the import package's name, and ``.txt`` at the end keeps tools from taking a template for code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from ort_py import __version__
from ort_py.contracts import API_VERSION
from ort_py.errors import InvalidArgument
from ort_py_kit.scaffold.names import PackageNames

KINDS = {
    "provider": "an execution provider with two operators",
    "kernel": "a kernel for a provider that exists",
    "op": "an operator of a domain of its own: schema, shape function and kernel",
    "rule": "a rewrite rule that changes graphs",
}
"""Kinds of packages, with what is in one."""

_ENTRY_COMMENTS = {
    True: "The name is the provider's name, the value the module that registers it.",
    False: "A plug-in that provides no execution provider: the name is its own, the value the module with its hooks.",
}
_SUMMARIES = {
    "provider": "{names.provider} for ort-py",
    "kernel": "A kernel for ort-py: Mish for CPUExecutionProvider",
    "op": "The operator {names.title} of the domain {names.domain} for ort-py",
    "rule": "A rewrite rule for ort-py",
}

LICENSES = ("Apache-2.0", "MIT", "BSD-3-Clause", "none")
"""SPDX names of the licences there are texts of; ``none`` writes no licence."""


def package_files(kind: str, names: PackageNames, licence: str = "Apache-2.0", author: str = "") -> dict[str, str]:
    """A package's files.

    Args:
        author: Holder of the copyright; "the authors of" the distribution where empty.

    Returns:
        Text by relative path, sorted; paths have forward slashes.
    """
    root = files("ort_py_kit") / "scaffold" / "templates"
    holder = author or f"the authors of {names.distribution}"
    # The tables of metadata know no licence where none is chosen.
    metadata = f'license = "{licence}"\nlicense-files = ["LICENSE"]\n' if licence != "none" else ""
    major, minor = __version__.split(".")[:2]
    provides = kind == "provider"
    values = {
        "api": str(API_VERSION),
        "author": holder,
        "core": f"ort-py-core>={__version__},<{major}.{int(minor) + 1}",
        # ONNX's own tests hold pictures and regular expressions.
        "cpu": f"ort-py-cpu[images,regex]>={__version__},<{major}.{int(minor) + 1}",
        "distribution": names.distribution,
        "entry": names.provider if provides else names.word,
        "entry_comment": _ENTRY_COMMENTS[provides],
        "group": "ort_py.providers" if provides else "ort_py.plugins",
        "domain": names.domain,
        "license_metadata": metadata,
        "license_name": licence if licence != "none" else "No licence is chosen yet, so it may not be used",
        "package": names.package,
        "provider": names.provider,
        "summary": _SUMMARIES[kind].format(names=names),
        "kit": f"ort-py-kit>={__version__},<{major}.{int(minor) + 1}",
        "title": names.title,
        "word": names.word,
        "year": str(datetime.now(UTC).year),
    }
    texts = {**_templates(root / "common"), **_templates(root / kind)}
    if licence != "none":
        texts["LICENSE"] = (root / "licenses" / f"{licence}.txt").read_text(encoding="utf-8")
    return {
        path.replace("package/", f"{names.package}/"): Template(text).substitute(values)
        for path, text in sorted(texts.items())
    }


def write_package(folder: str | os.PathLike[str], contents: dict[str, str]) -> list[Path]:
    """Write files into a folder that is new or empty.

    Returns:
        The files, as paths below `folder`.

    Raises:
        InvalidArgument: Something is there already; nothing is written.
    """
    target = Path(folder)
    there = sorted(entry.name for entry in target.iterdir()) if target.is_dir() else []
    if there or (target.exists() and not target.is_dir()):
        found = f"it holds {', '.join(there[:3])}{', …' if len(there) > 3 else ''}" if there else "it is a file"
        raise InvalidArgument(
            "A package is written into a new or an empty folder only.",
            where=f"'{target}'",
            why=found,
            fix="Name another folder with --into, or remove what is there.",
        )
    written = []
    for path, text in contents.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
        written.append(file)
    return written


def _templates(folder: Traversable, place: str = "") -> dict[str, str]:
    return dict(_walk(folder, place))


def _walk(folder: Traversable, place: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        name = entry.name.replace("dot-", ".", 1) if entry.name.startswith("dot-") else entry.name
        if entry.is_dir():
            yield from _walk(entry, f"{place}{name}/")
        elif name.endswith(".txt"):
            yield place + name.removesuffix(".txt"), entry.read_text(encoding="utf-8")
