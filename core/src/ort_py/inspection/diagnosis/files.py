"""Comparison of installed files with the list that the installer left. Reads the files and imports none of them."""

from __future__ import annotations

import base64
import hashlib
from importlib import metadata
from pathlib import Path

from ort_py.hooks.switches import normalise_distribution
from ort_py.inspection.diagnosis.report import FileCheck

_BLOCK = 1 << 20


def check_files(distribution: str, location: str) -> FileCheck:
    """Compare each recorded file with its hash.

    Args:
        location: Its folder: if there are two copies, the one that imports find.
    """
    try:
        found = _distribution(distribution, location)
        files = None if found is None else found.files
    except (OSError, ValueError) as error:  # a record that cannot be read or parsed
        return FileCheck(note=f"its record cannot be read: {error}")
    if files is None:
        return FileCheck(note="its installer left no list of files")
    checked, modified, missing = 0, [], []
    for file in files:
        if file.hash is None or file.hash.mode not in hashlib.algorithms_available:
            continue  # compiled bytecode and the record itself have none
        path = Path(str(file.locate()))
        try:
            digest = _digest(path, file.hash.mode)
        except FileNotFoundError:
            missing.append(str(file))
            continue
        except OSError as error:
            modified.append(f"{file} ({error.strerror or error})")
            continue
        checked += 1
        if digest != file.hash.value.rstrip("="):
            modified.append(str(file))
    return FileCheck(checked, tuple(modified), tuple(missing), "" if checked or missing else "its record has no hashes")


def _distribution(name: str, location: str) -> metadata.Distribution | None:
    wanted = normalise_distribution(name)
    for found in metadata.distributions(name=name):
        if normalise_distribution(found.metadata["Name"] or "") == wanted and str(found.locate_file("")) == location:
            return found
    return None


def _digest(path: Path, mode: str) -> str:
    digest = hashlib.new(mode, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
