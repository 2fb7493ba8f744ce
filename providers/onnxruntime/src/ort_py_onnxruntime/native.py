"""onnxruntime's extension module, loaded once, and the plug-ins registered with it.

Comes after `installed`. Where `import onnxruntime` gives the real package, that is used, as its types can be
registered once in a process only. Where it gives ort-py, the extension alone is loaded under a private name. Telemetry
is off. onnxruntime's log has no door in Python: it writes to the standard error stream itself. So it stays silent
unless the logger of this package is set to a level that wants it; its errors arrive as exceptions in any case.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ort_py.errors import EPFail
from ort_py.platform.forks import ProcessLock
from ort_py_onnxruntime.installed import Build, find

__all__ = ["FORKS", "check_process", "devices_of", "logger", "native", "severity"]

logger = logging.getLogger("ort_py_onnxruntime")

_PRIVATE = "ort_py_onnxruntime._real.onnxruntime_pybind11_state"
_REAL = "onnxruntime.capi.onnxruntime_pybind11_state"
_SILENT = 4

_lock = ProcessLock()
_loaded: list[ModuleType] = []
_registered: dict[str, str] = {}


class _Forks:
    """Counts the forks that made this process."""

    count = 0

    def happened(self) -> None:
        self.count += 1


FORKS = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=FORKS.happened)


def severity() -> int:
    """The least severity of what onnxruntime writes, as its sessions take it."""
    level = logger.getEffectiveLevel() if logger.level else logging.CRITICAL
    return next((number for number, bound in enumerate((10, 20, 30, 40)) if level <= bound), _SILENT)


def native() -> Any:
    """The extension module.

    Raises:
        EPFail: There is none, or it does not load.
    """
    with _lock.held():
        if not _loaded:
            _loaded.append(_load())
        return _loaded[0]


def _load() -> Any:
    build = find().build
    if build is None:
        raise EPFail("There is no package onnxruntime.", fix="pip install onnxruntime, or one of its variants.")
    try:
        module = _import(build)
    except Exception as error:  # whatever a library that does not fit raises
        raise EPFail(
            "onnxruntime does not load.",
            where=str(build.extension),
            why=str(error),
            fix=f"pip install --force-reinstall --no-deps {build.distribution}",
        ) from error
    module.disable_telemetry_events()
    module.set_default_logger_severity(severity())
    return module


def _import(build: Build) -> Any:
    known = sys.modules.get(_REAL)
    if known is not None and Path(getattr(known, "__file__", None) or "").suffix == build.extension.suffix:
        return known
    spec = importlib.util.find_spec("onnxruntime")
    if spec is not None and spec.origin and Path(spec.origin).resolve().parent == build.folder.resolve():
        importlib.import_module("onnxruntime")
        return importlib.import_module(_REAL)
    spec = importlib.util.spec_from_file_location(_PRIVATE, build.extension)
    assert spec is not None, "it is a file with the suffix of an extension"
    assert spec.loader is not None, "it has one for this suffix"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def devices_of(name: str) -> list[Any]:
    """Devices on which a provider of a plug-in can run; its library is registered first. Empty where none has it.

    Args:
        name: The provider's name in onnxruntime.

    Raises:
        EPFail: The plug-in does not register, or finds no device.
    """
    plugin = find().plugin(name)
    if plugin is None:
        return []
    real = native()
    with _lock.held():
        if name not in _registered:
            try:
                path = _library_of(plugin.module)
                real.register_execution_provider_library(name, path)
            except Exception as error:  # of the package, or of onnxruntime
                raise EPFail(
                    f"The plug-in {plugin.module} does not give onnxruntime {real.get_version_string()} its {name}.",
                    why=str(error),
                    fix=f"pip install --upgrade {plugin.module.replace('_', '-')}, or the onnxruntime that it wants.",
                ) from error
            _registered[name] = path
    devices = [device for device in real.get_ep_devices() if device.ep_name == name]
    if not devices:
        raise EPFail(
            f"{name} finds no device on this machine that it can run on.",
            where=f"plug-in {plugin.module}",
            why="it was registered with onnxruntime, and offers none",
            fix="Name another provider.",
        )
    return devices


def _library_of(package: str) -> str:
    module = importlib.import_module(package)
    asked = getattr(module, "get_library_path", None) or module.library_path
    path: str = os.fspath(asked())
    return path


def check_process(forks: int, threads: int) -> None:
    """Refuse a session of the process that forked this one, whose threads did not come along.

    Args:
        forks: `FORKS.count` when the session was made.
        threads: Its threads.

    Raises:
        EPFail: It would wait for them forever.
    """
    if forks != FORKS.count and threads != 1:
        raise EPFail(
            "A session of onnxruntime does not run in a forked process.",
            why="its threads stayed in the process that made it",
            fix="Make the session in the child, or start processes with the method 'spawn'.",
        )
