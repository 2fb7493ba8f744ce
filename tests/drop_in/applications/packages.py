"""The applications, installed once into the user's cache: the folder's name says for which list and which Python.

Installed beside and renamed, so that a folder that is there is complete; one process installs, others wait.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from examples.model_zoo.download import cache_folder

__all__ = ["installed_applications"]

_REQUIREMENTS = Path(__file__).parent / "requirements.txt"
_WAIT_SECONDS = 400


def installed_applications() -> Path:
    """Folder with the packages of `requirements.txt`; installed where it is not there yet.

    Raises:
        RuntimeError: They cannot be installed.
    """
    digest = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:12]
    target = cache_folder() / f"applications-{digest}-{sys.implementation.cache_tag}-{sys.platform}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = target.with_suffix(".lock")
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            if target.is_dir():
                return target
            if time.monotonic() > deadline:
                raise RuntimeError(f"Nobody installs the applications, and {lock} is there: remove it.") from None
            time.sleep(0.2)
    try:
        if not target.is_dir():
            _install(target)
    finally:
        lock.rmdir()
    return target


def _install(target: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=target.parent))
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--no-input", "--no-compile"]
    command += ["--disable-pip-version-check", "--target", str(folder), "--requirement", str(_REQUIREMENTS)]
    outcome = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if outcome.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise RuntimeError(f"The applications cannot be installed: {outcome.stderr.strip()}")
    folder.rename(target)
