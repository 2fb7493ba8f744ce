"""The one door to the `cudnn` package of nvidia-cudnn-frontend.

Its versions from 1.18 to 1.28 build graphs in the same way and need nothing beyond cuDNN; from 1.29 on it requires half
a gigabyte of compilers, and its graphs cannot be made without a driver. Its presence is read from metadata.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module, metadata
from typing import Any

from ort_py.errors import EPFail

__all__ = ["frontend", "missing_frontend"]

_DISTRIBUTION = "nvidia-cudnn-frontend"
_FIX = 'pip install "nvidia-cudnn-frontend>=1.18,<1.29"'

_module: Any = None
"""The imported package; tests put a stand-in here."""


def frontend() -> Any:
    """The package.

    Raises:
        EPFail: It is not installed, of a version that is not known to work, or does not import.
    """
    return _module if _module is not None else _imported()


def missing_frontend() -> str | None:
    """Explain why the package cannot be used, or return None. Imports nothing."""
    return None if _module is not None else _unsuitable()


@cache
def _unsuitable() -> str | None:
    try:
        version = metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return f"{_DISTRIBUTION} is not installed"
    found = _release(version)
    if found is None or not (1, 18) <= found < (1, 29):
        return (
            f"{_DISTRIBUTION} {version} is installed; versions from 1.18 up to, not including, 1.29 are known to work"
        )
    return None


def _release(version: str) -> tuple[int, int] | None:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _imported() -> Any:
    global _module  # noqa: PLW0603 - what `import` itself does, without its look-up at each call
    reason = _unsuitable()
    if reason is not None:
        raise EPFail("cuDNN's front end cannot be used.", why=reason, fix=_FIX)
    try:
        _module = import_module("cudnn")
    except Exception as error:  # it loads shared libraries, which fail in their own ways
        raise EPFail(
            "cuDNN's front end is installed and does not import.",
            why=f"{type(error).__name__}: {error}",
            fix=f"{_FIX} --force-reinstall, and install nvidia-cudnn-cu13 (or -cu12) beside it.",
        ) from error
    return _module
