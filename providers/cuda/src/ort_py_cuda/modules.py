"""The one door to CuPy: imported when the first session asks for it, never by discovery.

Everything here that needs CuPy takes it from `cupy`. Comes after `installed`, which tells from metadata what is there.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ort_py.errors import EPFail

__all__ = ["cupy"]

_module: Any = None


def cupy() -> Any:
    """CuPy.

    Raises:
        EPFail: It is not installed, installed twice, too old, or does not import; with the command that mends it.
    """
    return _module if _module is not None else _imported()


def _imported() -> Any:
    global _module  # noqa: PLW0603 - what `import` itself does, without its look-up at each call
    from ort_py_cuda.installed import Missing, find_cupy

    found = find_cupy()
    if isinstance(found, Missing):
        raise EPFail(f"CuPy cannot be used: {found.reason}.", fix=found.fix)
    try:
        _module = import_module("cupy")
    except Exception as error:  # a broken installation raises whatever its parts raise
        raise EPFail(
            f"{found.distribution} {found.version} is installed and does not import: {error}.",
            fix=f'pip install --force-reinstall "{found.distribution}>=14.0,<15"',
        ) from error
    return _module
