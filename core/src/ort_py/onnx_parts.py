"""onnx for those who prepare models: its messages and its native library, without the package around them.

Importing the package `onnx` takes three times as long as these two parts of it, because it also imports its tools and,
for its version, the standard library's mail and archives. Here the parts are loaded under their own names, as the
package would load them, so that they exist once in a process, each when it is asked for: most sessions do without.
The package is imported when anything else of it is used. A program that imports it later finds the parts loaded, as its
attributes too.

Modules that a session needs import `onnx` from here; everything else imports the package. A leaf.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import _bootstrap, import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeGuard

__all__ = ["is_message", "is_native_loaded", "native_file", "onnx"]

_MESSAGES, _NATIVE = "onnx.onnx_ml_pb2", "onnx.onnx_cpp2py_export"
_UNUSED = "google.protobuf.internal.python_message"
"""Protobuf's implementation in Python: imported with its pool of messages, used where there is no native one."""
_CALENDAR = "calendar"
"""A module that protobuf imports for conversions of points in time, and that imports `locale` and twelve classes."""


class _Parts:
    """Parts of onnx, by the names that they have in the package."""

    @cached_property
    def _messages(self) -> Any:
        if "onnx" in sys.modules or not _load_messages():
            import_module("onnx")
        return sys.modules[_MESSAGES]

    @cached_property
    def onnx_cpp2py_export(self) -> Any:
        """The native library."""
        if _NATIVE not in sys.modules:
            folder = _folder()
            if folder is None or not _load(_NATIVE, folder):
                import_module("onnx")
        return sys.modules[_NATIVE]

    @cached_property
    def defs(self) -> SimpleNamespace:
        """The library's table of operators; `ort_py.onnx_operators` has what sessions ask about them."""
        native = self.onnx_cpp2py_export.defs
        return SimpleNamespace(
            OpSchema=native.OpSchema,
            SchemaError=native.SchemaError,
            get_all_schemas_with_history=native.get_all_schemas_with_history,
            get_schema=native.get_schema,
            has=native.has_schema,
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
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def is_message(value: object) -> TypeGuard[onnx.ModelProto]:
    """Return whether a value is a model as a message of protobuf. There is none before its class is loaded."""
    messages = sys.modules.get(_MESSAGES)
    return messages is not None and isinstance(value, messages.ModelProto)


def is_native_loaded() -> bool:
    """Return whether the native library is loaded: by the program, which may have registered operators with it, too."""
    return _NATIVE in sys.modules


def native_file() -> str | None:
    """The file of the native library, whether it is loaded or not; None where it is not found."""
    loaded = sys.modules.get(_NATIVE)
    if loaded is not None:
        return loaded.__file__
    folder = _folder()
    spec = None if folder is None else PathFinder.find_spec(_NATIVE, [folder])
    return None if spec is None else spec.origin


@cache
def _folder() -> str | None:
    """The package's folder; None where this onnx or this interpreter is not as expected."""
    package = PathFinder.find_spec("onnx")
    able = hasattr(_bootstrap, "_ModuleLockManager") and hasattr(_bootstrap, "_load")
    if package is None or not isinstance(package.loader, SourceFileLoader) or not able:
        return None
    return os.path.dirname(package.loader.path)


def _load(name: str, folder: str) -> bool:
    """Load one part, as the package would; False where it is not there."""
    spec = PathFinder.find_spec(name, [folder])
    if spec is None:
        return False
    if not any(isinstance(finder, _Completion) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Completion())
    machinery: Any = _bootstrap
    # Another thread may import the package, and the library must not be loaded twice.
    with machinery._ModuleLockManager(name):
        if name not in sys.modules:
            machinery._load(spec)
    return True


def _load_messages() -> bool:
    """Load the messages; False where that takes the package."""
    folder = _folder()
    if folder is None or PathFinder.find_spec(_NATIVE, [folder]) is None:
        return False
    internal, _, name = _UNUSED.rpartition(".")
    if _UNUSED not in sys.modules:
        setattr(import_module(internal), name, _Later(_UNUSED))
    with _standing_in(_CALENDAR):
        return _load(_MESSAGES, folder)


@contextmanager
def _standing_in(name: str) -> Iterator[None]:
    """Let modules that are imported meanwhile have a stand-in for a module that is not loaded yet."""
    later = _Later(name)
    is_used = sys.modules.setdefault(name, later) is later
    try:
        yield
    finally:
        if is_used and sys.modules.get(name) is later:
            del sys.modules[name]


if TYPE_CHECKING:
    import onnx
else:
    onnx = _Parts()
