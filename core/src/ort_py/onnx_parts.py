"""onnx for those who prepare models: its messages and its native library, without the package around them.

Importing the package `onnx` takes three times as long as these two parts of it, because it also imports its tools and,
for its version, the standard library's mail and archives. Here the parts are loaded under their own names, as the
package would load them, so that they exist once in a process. The package is imported when anything else of it is used.
A program that imports it later finds the parts loaded, as its attributes too.

Modules that a session needs import `onnx` from here; everything else imports the package. A leaf.
"""

from __future__ import annotations

import os
import sys
from importlib import _bootstrap, import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

__all__ = ["onnx"]

_MESSAGES, _NATIVE = "onnx.onnx_ml_pb2", "onnx.onnx_cpp2py_export"
_UNUSED = "google.protobuf.internal.python_message"
"""Protobuf's implementation in Python: imported with its pool of messages, used where there is no native one."""


class _Parts:
    """What a session uses of onnx, by the names that it has in the package."""

    def __init__(self) -> None:
        if "onnx" in sys.modules or not _load_parts():
            import_module("onnx")
        self._messages: Any = sys.modules[_MESSAGES]
        self.onnx_cpp2py_export: Any = sys.modules[_NATIVE]
        native = self.onnx_cpp2py_export.defs
        self.defs = SimpleNamespace(
            OpSchema=native.OpSchema,
            SchemaError=native.SchemaError,
            get_all_schemas_with_history=native.get_all_schemas_with_history,
            get_schema=native.get_schema,
            has=native.has_schema,
            onnx_opset_version=lambda: native.schema_version_map()[""][1],
        )

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._messages, name, None)
        if value is None:
            value = getattr(import_module("onnx"), name, None) or import_module(f"onnx.{name}")
        setattr(self, name, value)
        return value


class _Completion:
    """Gives the package the attributes that importing its submodules would, if it is imported after them."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find the package, as `importlib.abc.MetaPathFinder` has it."""
        if name != "onnx":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _CompletingLoader(name, spec.loader.path)
        return spec


class _CompletingLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        for part in (_MESSAGES, _NATIVE):
            if part in sys.modules:
                setattr(module, part.rpartition(".")[2], sys.modules[part])
        super().exec_module(module)


class _Later(ModuleType):
    """Stands for a module until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def _load_parts() -> bool:
    """Load the messages and the native library; False where this onnx or this interpreter is not as expected."""
    package = PathFinder.find_spec("onnx")
    lock, load = (getattr(_bootstrap, name, None) for name in ("_ModuleLockManager", "_load"))
    if package is None or not isinstance(package.loader, SourceFileLoader) or lock is None or load is None:
        return False
    folder = [os.path.dirname(package.loader.path)]
    specs = [spec for name in (_MESSAGES, _NATIVE) if (spec := PathFinder.find_spec(name, folder)) is not None]
    if len(specs) < 2:
        return False
    sys.meta_path.insert(0, _Completion())
    internal, _, name = _UNUSED.rpartition(".")
    if _UNUSED not in sys.modules:
        setattr(import_module(internal), name, _Later(_UNUSED))
    for spec in specs:
        with lock(spec.name):  # another thread may import the package, and the library must not be loaded twice
            if spec.name not in sys.modules:
                load(spec)
    return True


if TYPE_CHECKING:
    import onnx
else:
    onnx = _Parts()
