"""Forwards to `ort_py_kit`, the conformance kit, which is a distribution of its own: ``pip install ort-py-kit``.

``import ort_py.testing`` gives `ort_py_kit` itself, and ``ort_py.testing.x`` gives `ort_py_kit.x`: the same module
objects, so that classes and fixtures are the same under both names. New code imports `ort_py_kit`. This module knows
nothing of the kit but its name; nothing else in the core imports the kit or this module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_KIT = "ort_py_kit"
_OLD_NAME = "ort_py.testing"


class _Forwarder(MetaPathFinder, Loader):
    """Imports modules below the old name as modules of the kit."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(f"{_OLD_NAME}.") else None

    def exec_module(self, module: ModuleType) -> None:
        # The import system hands out what it finds in `sys.modules` after this call. Returning the kit's module from
        # `create_module` would not do: the import system would overwrite its `__spec__`.
        name = module.__name__
        sys.modules[name] = importlib.import_module(_KIT + name.removeprefix(_OLD_NAME))


try:
    kit = importlib.import_module(_KIT)
except ModuleNotFoundError as error:
    if error.name != _KIT:
        raise
    raise ImportError(
        "The module 'ort_py.testing' cannot be imported: the conformance kit is not installed. Since it became a "
        "distribution of its own, ort-py-core does not bring it. What to do: `pip install ort-py-kit`, and import "
        "'ort_py_kit' in place of 'ort_py.testing'.",
        name=_KIT,
    ) from error

if not any(isinstance(finder, _Forwarder) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Forwarder())
sys.modules[__name__] = kit
