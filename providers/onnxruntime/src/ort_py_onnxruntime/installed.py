"""Installed parts of onnxruntime, from their files: builds, the libraries beside them, and packages of plug-ins.

Comes before `plugin` and `native`. Imports nothing of onnxruntime's and starts nothing: the answers are what stands on
the disk, and `native` learns what is true.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from pathlib import Path

import ort_py.contracts
from ort_py.lazy_dataclass import dataclass
from ort_py_onnxruntime.routes import ROUTES

__all__ = ["Build", "Plugin", "find", "look"]

_OURS = Path(ort_py.contracts.__file__).resolve().parent.parent
_EXTENSION = "onnxruntime_pybind11_state"
_NAMED = re.compile(r"""["'](\w+ExecutionProvider)["']|\bEP_NAME\s*=\s*["'](\w+)["']""")
_OFFERS = ("def get_library_path(", "def library_path(")
_PACKAGE_INFO = re.compile(r"""(package_name|__version__)\s*=\s*["']([^"']+)["']""")


@dataclass(frozen=True, slots=True)
class Build:
    """The installed onnxruntime.

    Attributes:
        folder: Its package.
        extension: The file of its extension module.
        distribution: Name of the distribution whose files these are, as they say themselves.
        version: Its version.
        claimed_by: Every distribution that wrote this package; more than one overwrote each other's files.
    """

    folder: Path
    extension: Path
    distribution: str
    version: str
    claimed_by: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Return whether its files say that a provider is built in. False for some that are; none of them tells."""
        route = ROUTES.get(name)
        if route is None:
            return False
        if route.library and any(self.extension.parent.glob(f"*onnxruntime_providers_{route.library}.*")):
            return True
        return bool({self.distribution, f"{self.distribution}/{sys.platform}"} & set(route.builds))


@dataclass(frozen=True, slots=True)
class Plugin:
    """A package that shares a library with a provider in it.

    Attributes:
        module: Name of the package.
        names: Names of providers that its text mentions.
    """

    module: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """All that is installed: `build` is None where there is no onnxruntime."""

    build: Build | None
    plugins: tuple[Plugin, ...]

    def plugin(self, name: str) -> Plugin | None:
        """The package whose library has a provider, or None."""
        return next((plugin for plugin in self.plugins if name in plugin.names), None)


def find() -> Found:
    """Look along the path of this process. The answer is kept until a folder on it changes."""
    folders = []
    for entry in dict.fromkeys(sys.path):
        folder = Path(entry or ".")
        try:
            folders.append((str(folder.resolve()), folder.stat().st_mtime_ns))
        except OSError:  # a path that does not exist, or may not be read: Python leaves it out as well
            continue
    return look(tuple(folders))


@lru_cache(maxsize=4)
def look(folders: tuple[tuple[str, int], ...]) -> Found:
    """The contents of these folders, given with the time of their last change."""
    build: Build | None = None
    plugins: dict[str, Plugin] = {}
    for name, _ in folders:
        folder = Path(name)
        if folder.is_relative_to(_OURS) or not folder.is_dir():
            continue  # ort-py itself can stand in for onnxruntime
        build = build or _build(folder)
        for package in sorted(folder.glob("*onnxruntime_*")):
            if package.name not in plugins and (plugin := _plugin(package)) is not None:
                plugins[package.name] = plugin
    return Found(build, tuple(plugins.values()))


def _build(folder: Path) -> Build | None:
    package = folder / "onnxruntime"
    extension = next((file for file in sorted(package.glob(f"capi/{_EXTENSION}.*")) if file.suffix in _SUFFIXES), None)
    if extension is None:
        return None
    told = dict(_PACKAGE_INFO.findall(_text(package / "capi" / "build_and_package_info.py")))
    claimed = sorted(
        info.name.removesuffix(".dist-info").rpartition("-")[0].replace("_", "-")
        for info in folder.glob("*.dist-info")
        if info.name.startswith(("onnxruntime", "ort_")) and "\nonnxruntime/capi/" in _text(info / "RECORD")
    )
    distribution = told.get("package_name", "onnxruntime")
    return Build(package, extension, distribution, told.get("__version__", ""), tuple(claimed) or (distribution,))


def _plugin(package: Path) -> Plugin | None:
    text = _text(package / "__init__.py")
    if not any(offer in text for offer in _OFFERS):
        return None
    return Plugin(package.name, tuple(dict.fromkeys(one or other for one, other in _NAMED.findall(text))))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # missing or unreadable: as good as not installed
        return ""


_SUFFIXES = (".so", ".pyd")
