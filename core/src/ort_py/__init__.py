"""ort-py: an ONNX runtime whose execution providers are pip packages.

``import ort_py as ort`` stands in for ``import onnxruntime as ort``. Nothing runs at import: names are loaded when
they are first used, no plug-in is looked for, no environment variable is read.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ort_py.api.enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
    from ort_py.api.metadata import ModelMetadata, NodeArg
    from ort_py.api.options import RunOptions, SessionOptions
    from ort_py.api.ort_value import OrtValue
    from ort_py.api.placement import NodePlacement, Placement
    from ort_py.api.session import InferenceSession
    from ort_py.discovery import (
        ProviderRecord,
        get_all_providers,
        get_available_providers,
        get_installed_providers,
        get_provider_records,
        register_provider,
    )
    from ort_py.errors import (
        DeviceReset,
        EngineError,
        EPFail,
        ExecutionError,
        Fail,
        InvalidArgument,
        InvalidGraph,
        InvalidProtobuf,
        KernelConflictError,
        KernelNotFoundError,
        LimitError,
        MissingInputError,
        ModelLoadCanceled,
        ModelLoaded,
        ModelRequiresCompilation,
        NoModel,
        NoSuchFile,
        NotFound,
        NotImplemented,  # noqa: A004 - onnxruntime's public name
        OptionError,
        OrtPyError,
        PluginError,
        ProviderFallbackWarning,
        ProviderNotAvailableError,
        ProviderNotFoundError,
        RuntimeException,
    )
    from ort_py.limits import Limits

# Where each public name lives, by group: sessions, values and metadata, enumerations, providers, limits, errors.
_HOMES: dict[str, tuple[str, ...]] = {
    "ort_py.api.session": ("InferenceSession",),
    "ort_py.api.options": ("RunOptions", "SessionOptions"),
    "ort_py.api.ort_value": ("OrtValue",),
    "ort_py.api.metadata": ("ModelMetadata", "NodeArg"),
    "ort_py.api.placement": ("NodePlacement", "Placement"),
    "ort_py.api.enums": ("ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel"),
    "ort_py.discovery": (
        "ProviderRecord",
        "get_all_providers",
        "get_available_providers",
        "get_installed_providers",
        "get_provider_records",
        "register_provider",
    ),
    "ort_py.limits": ("Limits",),
    "ort_py.errors": (
        "DeviceReset",
        "EPFail",
        "EngineError",
        "ExecutionError",
        "Fail",
        "InvalidArgument",
        "InvalidGraph",
        "InvalidProtobuf",
        "KernelConflictError",
        "KernelNotFoundError",
        "LimitError",
        "MissingInputError",
        "ModelLoadCanceled",
        "ModelLoaded",
        "ModelRequiresCompilation",
        "NoModel",
        "NoSuchFile",
        "NotFound",
        "NotImplemented",
        "OptionError",
        "OrtPyError",
        "PluginError",
        "ProviderFallbackWarning",
        "ProviderNotAvailableError",
        "ProviderNotFoundError",
        "RuntimeException",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "DeviceReset",
    "EPFail",
    "EngineError",
    "ExecutionError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "KernelConflictError",
    "KernelNotFoundError",
    "LimitError",
    "Limits",
    "MissingInputError",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelMetadata",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NodePlacement",
    "NotFound",
    "NotImplemented",
    "OptionError",
    "OrtPyError",
    "OrtValue",
    "Placement",
    "PluginError",
    "ProviderFallbackWarning",
    "ProviderNotAvailableError",
    "ProviderNotFoundError",
    "ProviderRecord",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
    "__version__",
    "get_all_providers",
    "get_available_providers",
    "get_installed_providers",
    "get_provider_records",
    "register_provider",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'ort_py' has no attribute '{name}'")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
