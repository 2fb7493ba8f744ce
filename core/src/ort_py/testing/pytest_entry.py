"""What pytest loads in every environment where ort-py is installed: next to nothing.

The kit's options are general words (``--provider``), so they exist only where the kit is asked for: a command line that
names ``ort_py.testing``. Imports nothing of ort-py before.
"""

from __future__ import annotations

from typing import Any

__all__ = ["pytest_load_initial_conftests"]

_KIT = "ort_py.testing"


def pytest_load_initial_conftests(early_config: Any, args: list[str]) -> None:
    """Load the plug-in where the kit is named, before the command line is read for good."""
    if any(argument == _KIT or argument.startswith((f"{_KIT}.", f"{_KIT}::")) for argument in args):
        early_config.pluginmanager.import_plugin(f"{_KIT}.plugin")
