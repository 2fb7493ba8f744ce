"""Runs a test file of a provider's author with a pytest of its own in this process, as the kit is used.

Must not know what the file tests.
"""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

_loaded: dict[str, ModuleType] = {}


class _Imported:
    """A plugin of the inner pytest that notes which modules are loaded when it ends."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        self.modules.update(sys.modules)


def run_inside(pytester: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    """Run a test file.

    Args:
        pytester: The fixture.
        text: What the test file says.
        arguments: Of the inner pytest, which runs its tests in the order of the file.

    Returns:
        What it has reported.
    """
    file, imported = pytester.makepyfile(text), _Imported()
    result = pytester.runpytest_inprocess(
        str(file), "-p", "no:randomly", "-p", "no:cacheprovider", *arguments, plugins=[imported]
    )
    folder = str(pytester.path)
    _loaded.update(
        {
            name: module
            for name, module in imported.modules.items()
            if not str(getattr(module, "__file__", None) or "").startswith(folder)
        }
    )
    restore_modules()
    return result


def restore_modules() -> None:
    """Load again what an inner pytest was the first to import, except modules in the folder of its test.

    `pytester` removes all of them from `sys.modules`, after each run and once more when its test ends. Modules that
    were loaded before would keep what they have got from the removed ones, so later tests would meet two modules of
    one name, and onnx's native library ends the process when it is loaded twice.
    """
    for name, module in _loaded.items():
        sys.modules.setdefault(name, module)
