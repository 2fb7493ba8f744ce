"""`python check.py`: does the installed library load, and is it of the version that the wheel states?

cibuildwheel runs this in a fresh environment. It needs the standard library only, and knows nothing of ort-py.
"""

from __future__ import annotations

import ctypes
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_NAMES = {"linux": "libdnnl.so.3", "darwin": "libdnnl.3.dylib", "win32": "dnnl.dll"}


class _Version(ctypes.Structure):
    """The head of ``dnnl_version_t``."""

    _fields_ = (("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int))


def main() -> None:
    """Raise an exception if the library does not load, or is of another version."""
    package = find_spec("ort_py_onednn_native")
    if package is None or package.origin is None:
        raise SystemExit("The package ort_py_onednn_native is not installed.")
    file = Path(package.origin).with_name(_NAMES[sys.platform])
    library = ctypes.CDLL(str(file))
    library.dnnl_version.restype = ctypes.POINTER(_Version)
    found = library.dnnl_version().contents
    stated = version("ort-py-onednn-native")
    if not f"{stated}.".startswith(f"{found.major}.{found.minor}.{found.patch}."):
        raise SystemExit(f"{file} is oneDNN {found.major}.{found.minor}.{found.patch}, but its wheel states {stated}.")


if __name__ == "__main__":
    main()
