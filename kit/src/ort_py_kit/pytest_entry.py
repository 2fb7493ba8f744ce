"""The module that pytest loads in every environment where ort-py-kit is installed. It does next to nothing.

The kit's options are general words (``--provider``), so they exist only where the kit is asked for: on a command line
that names ``ort_py_kit``, or ``ort_py.testing``, its name while it was a part of the core.
"""

from __future__ import annotations

from typing import Any

_KIT = "ort_py_kit"
_OLD_NAME = "ort_py.testing"


def pytest_load_initial_conftests(early_config: Any, args: list[str]) -> None:
    """Load the plug-in where the kit is named, before pytest parses the whole command line."""
    args[:] = [
        _KIT + argument.removeprefix(_OLD_NAME) if _names(argument, _OLD_NAME) else argument for argument in args
    ]
    if any(_names(argument, _KIT) for argument in args):
        early_config.pluginmanager.import_plugin(f"{_KIT}.plugin")
        # An author's conftest.py may name the same module by its old name, and pytest refuses to register it twice.
        early_config.pluginmanager.set_blocked(f"{_OLD_NAME}.plugin")


def _names(argument: str, package: str) -> bool:
    """Return whether a command-line argument names a package, a module of it, or a test in it."""
    return argument == package or argument.startswith((f"{package}.", f"{package}::"))
