"""Refuses an installed onnx that is too old, when ort_py is imported. Imports no onnx: the version is read from the
name of the folder with its metadata, which costs some microseconds. Installed packages are searched only to say who
keeps onnx back. It uses nothing else of the engine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

NEEDED = (1, 21)
"""The first onnx whose schemas tell Python which types a parameter allows; as `core/pyproject.toml` has it."""


def refuse_older(path: Sequence[str] | None = None) -> None:
    """Check the version of the onnx that would be imported. Nothing happens if none is found.

    Args:
        path: Folders that are searched for it; those of `sys.path` by default.

    Raises:
        ImportError: It is too old; the message names the versions, the place and the packages that want an older one.
        SystemExit: The same, where the process is the ``ort-py`` command: its user gets the message alone.
    """
    found = installed(sys.path if path is None else path)
    if found is None:
        return
    version, folder = found
    if _numbers(version) >= NEEDED:
        return
    needed = ".".join(map(str, NEEDED))
    pins = _pins()
    why = f" These installed packages require an older one: {'; '.join(pins)}." if pins else ""
    fix = "update these packages, or install ort-py in a virtual environment without them" if pins else "update it"
    message = (
        f"ort-py needs onnx {needed} or newer, and {folder} has onnx {version}.{why} "
        f"What to do: {fix}: `pip install 'onnx>={needed}'`."
    )
    if _is_command():
        raise SystemExit(f"ort-py: {message}")
    raise ImportError(message)


def _is_command() -> bool:
    """Return whether this process was started as ``ort-py`` or as ``python -m ort_py.cli``."""
    started = [os.path.basename(one) for one in sys.orig_argv[:1] + sys.argv[:1]]
    as_module = "ort_py.cli" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("ort_py.cli") - 1] == "-m"
    return as_module or any(os.path.splitext(one)[0] == "ort-py" for one in started)


def installed(path: Sequence[str]) -> tuple[str, str] | None:
    """Version of the first onnx in these folders, and its folder. None if there is none or it has no metadata."""
    for entry in path:
        folder = entry or os.curdir
        if not os.path.isdir(os.path.join(folder, "onnx")):
            continue
        versions = [
            name[len("onnx-") : -len(".dist-info")]
            for name in os.listdir(folder)
            if name.startswith("onnx-") and name.endswith(".dist-info")
        ]
        return (max(versions, key=_numbers), folder) if versions else None
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers: (1, 16, 2) of ``1.16.2rc1``."""
    found: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
        if digits != part:
            break
    return tuple(found)


def _pins() -> list[str]:
    """Installed distributions that bound the version of onnx from above, with the words of their metadata."""
    import re
    from importlib.metadata import distributions

    wanted = re.compile(r"onnx\s*(?:\[[^\]]*\])?\s*\(?\s*([^;)]*)", re.IGNORECASE)
    pins: set[str] = set()
    for distribution in distributions():
        for requirement in distribution.requires or ():
            found = wanted.match(requirement)
            name_ends = found is not None and not re.match(r"onnx[\w.-]", requirement, re.IGNORECASE)
            if found is None or not name_ends or not re.search(r"[<=~]=|<", found[1].replace(">=", "")):
                continue
            pins.add(f"{distribution.name} {distribution.version} ({requirement.strip()})")
    return sorted(pins)
