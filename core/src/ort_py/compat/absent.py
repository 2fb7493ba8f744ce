"""Stand-ins for what onnxruntime's subpackages define and ort-py's do not: they can be imported, and say so when used.

Applications import such names at the top of their files and call them on some paths only. `absent.toml`, beside this
file and written by ``scripts/absent_names.py``, lists them: whole modules, which a finder makes up, and names that
modules of ort-py lack, which their ``__getattr__`` gives. A name that onnxruntime does not have is an AttributeError
here as well, so programs that look whether something is there get the same answer.

Plain constants and the members of enumerations have their values. It does not depend on the contents of subpackages;
the table is read when the first name is missing.
"""

from __future__ import annotations

import enum
import functools
import importlib
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from ort_py.compat.not_yet import missing_class, missing_function

_OWN = "ort_py."
_INSTEAD = {
    "quantization": "Quantise with onnxruntime in an environment of its own, and run the result here.",
    "quantization.matmul_nbits_quantizer": (
        "Write the model with onnxruntime or its generation builder; MatMulNBits runs here."
    ),
    "quantization.shape_inference": (
        "Write the optimised model with SessionOptions.optimized_model_filepath, and its shapes with "
        "onnx.shape_inference.infer_shapes_path()."
    ),
    "tools": "Use onnxruntime's tool in an environment of its own; what it writes runs here.",
    "transformers": "Load the model as it is: sessions fuse these patterns themselves.",
    "transformers.float16": (
        "Export the model in float16, or let a provider compute in it: SessionOptions.precision = 'float16'."
    ),
    "transformers.fusion_options": (
        "Load the model as it is; SessionOptions.disabled_transforms names fusions that are not wanted."
    ),
    "transformers.onnx_model": "Change the graph with onnx.helper and onnx.compose.",
    "transformers.optimizer": (
        "Load the model as it is: sessions fuse these patterns themselves. To keep the result, set "
        "SessionOptions.optimized_model_filepath."
    ),
}
"""Advice on what to use instead, by subpackage or module."""


@functools.cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads((Path(__file__).parent / "absent.toml").read_text(encoding="utf-8"))


def absent_names(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that lacks some of the names it has in onnxruntime.

    Args:
        module: The module's ``__name__``, e.g. ``ort_py.quantization.quant_utils``.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes the module's
        if name.startswith("__"):
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        below = module.removeprefix(_OWN)
        value = _stand_in(below, _table().get(below, {}), name)
        # Kept, so that the name means one object: programs compare classes and subclass them.
        setattr(sys.modules[module], name, value)
        return value

    return __getattr__


def _stand_in(module: str, names: Mapping[str, Any], name: str) -> Any:
    """A stand-in for a name.

    Args:
        names: The table's entry for the module.

    Raises:
        AttributeError: onnxruntime has no such name there either.
    """
    instead = _INSTEAD.get(module) or _INSTEAD[module.partition(".")[0]]
    if name in names.get("classes", ()):
        return missing_class(f"{module}.{name}", instead)
    if name in names.get("functions", ()):
        return missing_function(f"{module}.{name}", instead)
    if name in names.get("values", {}):
        return names["values"][name]
    if name in names.get("enums", {}):
        return enum.Enum(name, names["enums"][name], module=_OWN + module)
    if name in names.get("tables", {}):
        return {key: missing_class(f"{module}.{name}[{key!r}]", instead) for key in names["tables"][name]}
    for origin, imported in names.get("imported", {}).items():
        if name in imported:
            return getattr(importlib.import_module(_OWN + origin), name)
    if f"{module}.{name}" in _table():
        return importlib.import_module(f"{_OWN}{module}.{name}")
    raise AttributeError(f"module '{_OWN}{module}' has no attribute '{name}'")


class _AbsentModule(Loader):
    """Makes a module whose every name is a stand-in."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None  # an ordinary module

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "Not there yet: its names can be imported, and raise NotYetError when they are used."
        module.__getattr__ = absent_names(module.__name__)  # type: ignore[method-assign] # PEP 562


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        below = fullname.removeprefix(_OWN)
        if below == fullname or below.partition(".")[0] not in _INSTEAD or below not in _table():
            return None
        return ModuleSpec(fullname, _AbsentModule(), is_package=bool(_table()[below].get("package")))


def find_absent_modules() -> None:
    """Let modules that only onnxruntime has be found below ort-py's subpackages. Calling it again does nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())  # last: a module that is there is found before
