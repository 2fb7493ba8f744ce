"""``import onnxruntime.capi…`` gives the module ``ort_py.capi…``: the same object under both names.

One object, because a second copy would have a second set of exception classes, which no ``except`` clause written for
the first would catch. Only the subpackages that onnxruntime has are there; other modules of `ort_py` are not reachable
through its name. It knows the names of the subpackages, but not their contents.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

from ort_py.compat.emulated import PACKAGE

SUBPACKAGES = frozenset({"backend", "capi", "datasets", "quantization", "tools", "transformers"})


_TOOLS = frozenset({"quantization", "tools", "transformers"})
TOOL_GROUP = "ort_py.tools"
"""Entry points of functions that find onnxruntime's own tools: the specification of a module, given its name, or None.
Where one answers, programs get the real tool in place of what `ort_py` has of it."""


@cache
def _tool_finders() -> tuple[Callable[[str], ModuleSpec | None], ...]:
    from ort_py.hooks.entry_points import scan  # few programs import a tool

    return tuple(entry.load() for entry in scan(TOOL_GROUP).entries)


class _SharedModule(Loader):
    """Gives the module of another name instead of making one.

    Args:
        original: Specification of the module as `ort_py` knows it.
    """

    def __init__(self, original: ModuleSpec) -> None:
        self._original = original

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(self._original.name)

    def exec_module(self, module: ModuleType) -> None:
        # It ran when it was imported under its own name. The import system has just put the other name's
        # specification into it.
        module.__spec__ = self._original
        # Modules below that are there already get their second name at once: importing one later would set it as an
        # attribute of this package, over a function of the same name (`quantization.quantize` is both).
        for name in [name for name in sys.modules if name.startswith(f"{self._original.name}.")]:
            sys.modules.setdefault(PACKAGE + name.removeprefix("ort_py"), sys.modules[name])

    def get_code(self, fullname: str) -> CodeType | None:
        """For ``python -m onnxruntime.tools.…``."""
        loader = self._original.loader
        return loader.get_code(self._original.name) if isinstance(loader, InspectLoader) else None


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, below = fullname.partition(".")
        if package != PACKAGE or below.partition(".")[0] not in SUBPACKAGES:
            return None
        if below.partition(".")[0] in _TOOLS:
            for find_tool in _tool_finders():
                if (tool := find_tool(fullname)) is not None:
                    return tool
        try:
            original = importlib.util.find_spec(f"ort_py.{below}")
        except ModuleNotFoundError:
            return None
        if original is None:
            return None
        is_package = original.submodule_search_locations is not None
        return ModuleSpec(fullname, _SharedModule(original), origin=original.origin, is_package=is_package)


def install_finder() -> None:
    """Let submodules of onnxruntime be found in this process. Calling it again does nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
