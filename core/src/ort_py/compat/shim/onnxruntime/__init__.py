"""ort-py under the name of onnxruntime, in processes that have this folder on their path.

Every name is `ort_py`'s; only what tells a version is that of the onnxruntime release whose behaviour is emulated.
Subpackages are `ort_py`'s own modules under a second name (`ort_py.compat.submodules`), so there is one set of classes.
Comes before everything an application does; knows nothing of sessions.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

try:
    import ort_py
except ModuleNotFoundError as error:  # an interpreter of another environment, started by one that has ort-py
    raise ImportError(
        f"{__file__} stands in for onnxruntime, and ort-py is not installed for {sys.executable}: install it there, "
        "or start that interpreter with an environment whose PYTHONPATH does not name this folder."
    ) from error
from ort_py.compat.emulated import PACKAGE, VERSION
from ort_py.compat.emulated import get_version_string as get_version_string
from ort_py.compat.submodules import SUBPACKAGES, install_finder
from ort_py.homes import HOMES

install_finder()

__version__ = version = VERSION
package_name = PACKAGE
cuda_version = ""  # as in the wheel for plain CPUs
import_capi_exception = None

# Without the exception classes: in onnxruntime they are not here, and one would hide the builtin NotImplemented.
__all__ = sorted(  # noqa: PLE0605 - computed, so that it follows ort_py's
    {name for name in ort_py.__all__ if not name.startswith("_")} - set(HOMES["ort_py.errors"].split())
    | {"capi", "cuda_version", "import_capi_exception", "package_name", "version"}
)


def __getattr__(name: str) -> Any:
    if name in SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "onnxruntime_validation":
        return importlib.import_module(f"{__name__}.capi.{name}")
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        return getattr(ort_py, name)
    except AttributeError:
        raise AttributeError(
            f"module '{__name__}' has no attribute '{name}': it is ort-py {ort_py.__version__}, which has no '{name}'"
        ) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
