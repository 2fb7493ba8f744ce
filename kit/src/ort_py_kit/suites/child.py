"""Checks that need a process of their own: a fresh interpreter that loads the provider's module again.

It is independent of questions: a module beside this one is run there, and says what it saw on its standard output.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache

import pytest

from ort_py_kit.subject import Subject

_SECONDS = 300


def module_of(subject: Subject) -> str:
    """The module that registers a provider: its entry point's, or the suite's `plugin`.

    Raises:
        pytest.skip.Exception: The program registered it itself, where a fresh process would not find it.
    """
    record = subject.record()
    module = record.entry_point if record.distribution else subject.plugin
    if not module:
        pytest.skip(f"{subject.name} was registered by the program: no module that a fresh process could load")
    return module


@cache
def _bytecode() -> str:
    """A folder for what children compile, for as long as this process lives."""
    folder = tempfile.mkdtemp(prefix="ort-py-bytecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_child(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module of this package in a fresh interpreter that finds what this one finds; its status is not judged."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if sys.dont_write_bytecode:
        # Installed packages have bytecode: what is timed must not compile it each time.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = _bytecode()
    return subprocess.run(  # noqa: S603 - this interpreter, and the module under test
        [sys.executable, "-m", f"{__package__}.{name}", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=_SECONDS,
        check=False,
    )
