"""Fresh interpreters, for what a process imports or keeps."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["answer"]


def answer(code: str, *arguments: str) -> str:
    """Return what code prints in a fresh interpreter, without the spaces around it."""
    outcome = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.strip()
