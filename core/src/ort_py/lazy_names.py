"""Names of a module that are loaded when they are first used, so that importing it loads nothing else.

A leaf. `ort_py` itself, its test kit and the stand-in for onnxruntime's binding use it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    namespace: dict[str, Any], homes: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """A module's ``__getattr__``, ``__dir__`` and ``__all__``.

    Args:
        namespace: The module's ``globals()``; a name is kept there once it was loaded.
        homes: Names, separated by spaces, by the module that has them.
        modules: Modules that are attributes themselves, by their name here.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    whole = modules or {}

    def load(name: str) -> Any:
        if name in whole:
            return importlib.import_module(whole[name])
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module '{namespace['__name__']}' has no attribute '{name}'")
        from ort_py.collection import paused_collection  # importing `ort_py` imports nothing that it may not need

        with paused_collection(stays=True):
            value = namespace[name] = getattr(importlib.import_module(home), name)
        return value

    def names() -> list[str]:
        return sorted({*namespace, *home_of})

    return load, names, sorted(home_of)
