"""ort-py: an ONNX runtime whose execution providers are pip packages.

``import ort_py as ort`` stands in for ``import onnxruntime as ort``. Next to nothing runs at import: an onnx that is
too old is refused, names are loaded when they are first used, no plug-in is looked for, no environment variable is
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py import bytecode
from ort_py.collection import paused_collection
from ort_py.homes import HOMES
from ort_py.lazy_names import lazy_names
from ort_py.onnx_version import refuse_older

with paused_collection(stays=True):  # else all that was imported before, such as NumPy, is looked through now
    refuse_older()
    bytecode.open_archive(__spec__)

__version__ = "0.1.0"

version = __version__
package_name = "ort-py"
cuda_version = ""
"""onnxruntime's names for what a build is; nothing is built here."""

if TYPE_CHECKING:
    from ort_py.api.compiling import CompileReport as CompileReport
    from ort_py.api.compiling import compile_model as compile_model
    from ort_py.api.io_binding import IOBinding as IOBinding
    from ort_py.api.session import InferenceSession as InferenceSession
    from ort_py.api.session_io_binding import SessionIOBinding as SessionIOBinding
    from ort_py.api.session_manager import SessionLease as SessionLease
    from ort_py.api.session_manager import SessionManager as SessionManager
    from ort_py.api.session_manager import SessionManagerStats as SessionManagerStats
    from ort_py.compat.adapters import AdapterFormat as AdapterFormat
    from ort_py.compat.adapters import LoraAdapter as LoraAdapter
    from ort_py.compat.alias import install_as_onnxruntime as install_as_onnxruntime
    from ort_py.compat.environment import disable_telemetry_events as disable_telemetry_events
    from ort_py.compat.environment import enable_telemetry_events as enable_telemetry_events
    from ort_py.compat.environment import get_build_info as get_build_info
    from ort_py.compat.environment import get_device as get_device
    from ort_py.compat.environment import get_version_string as get_version_string
    from ort_py.compat.environment import has_collective_ops as has_collective_ops
    from ort_py.compat.environment import print_debug_info as print_debug_info
    from ort_py.compat.environment import set_default_logger_severity as set_default_logger_severity
    from ort_py.compat.environment import set_default_logger_verbosity as set_default_logger_verbosity
    from ort_py.compat.environment import set_global_thread_pool_sizes as set_global_thread_pool_sizes
    from ort_py.compat.environment import set_seed as set_seed
    from ort_py.compat.graph_assignment import OrtEpAssignedNode as OrtEpAssignedNode
    from ort_py.compat.graph_assignment import OrtEpAssignedSubgraph as OrtEpAssignedSubgraph
    from ort_py.compat.model_compiler import ModelCompiler as ModelCompiler
    from ort_py.compat.model_compiler import OrtExternalInitializerInfo as OrtExternalInitializerInfo
    from ort_py.compat.preloading import preload_dlls as preload_dlls
    from ort_py.discovery import ProviderRecord as ProviderRecord
    from ort_py.discovery import RecordState as RecordState
    from ort_py.discovery import get_all_providers as get_all_providers
    from ort_py.discovery import get_available_providers as get_available_providers
    from ort_py.discovery import get_installed_providers as get_installed_providers
    from ort_py.discovery import get_provider_records as get_provider_records
    from ort_py.discovery import register_provider as register_provider
    from ort_py.discovery.ep_devices import OrtEpDevice as OrtEpDevice
    from ort_py.discovery.ep_devices import OrtHardwareDevice as OrtHardwareDevice
    from ort_py.discovery.ep_devices import OrtSyncStream as OrtSyncStream
    from ort_py.discovery.ep_devices import get_ep_devices as get_ep_devices
    from ort_py.discovery.ep_devices import register_execution_provider_library as register_execution_provider_library
    from ort_py.discovery.ep_devices import (
        unregister_execution_provider_library as unregister_execution_provider_library,
    )
    from ort_py.discovery.explanation import SelectionExplanation as SelectionExplanation
    from ort_py.engine.metadata import ModelMetadata as ModelMetadata
    from ort_py.engine.metadata import NodeArg as NodeArg
    from ort_py.enums import ExecutionMode as ExecutionMode
    from ort_py.enums import ExecutionOrder as ExecutionOrder
    from ort_py.enums import GraphOptimizationLevel as GraphOptimizationLevel
    from ort_py.enums import OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
    from ort_py.errors import AbsentInputError as AbsentInputError
    from ort_py.errors import ArgumentTypeError as ArgumentTypeError
    from ort_py.errors import BindingError as BindingError
    from ort_py.errors import CompiledModelError as CompiledModelError
    from ort_py.errors import DanglingInputError as DanglingInputError
    from ort_py.errors import DeviceReset as DeviceReset
    from ort_py.errors import EngineError as EngineError
    from ort_py.errors import EPFail as EPFail
    from ort_py.errors import ExecutionError as ExecutionError
    from ort_py.errors import Fail as Fail
    from ort_py.errors import InconsistentGraph as InconsistentGraph
    from ort_py.errors import InvalidArgument as InvalidArgument
    from ort_py.errors import InvalidGraph as InvalidGraph
    from ort_py.errors import InvalidProtobuf as InvalidProtobuf
    from ort_py.errors import KernelConflictError as KernelConflictError
    from ort_py.errors import KernelInputError as KernelInputError
    from ort_py.errors import KernelNotFoundError as KernelNotFoundError
    from ort_py.errors import LimitError as LimitError
    from ort_py.errors import MemoryLimitError as MemoryLimitError
    from ort_py.errors import MissingInputError as MissingInputError
    from ort_py.errors import ModelLoadCanceled as ModelLoadCanceled
    from ort_py.errors import ModelLoaded as ModelLoaded
    from ort_py.errors import ModelRequiresCompilation as ModelRequiresCompilation
    from ort_py.errors import NoModel as NoModel
    from ort_py.errors import NoSuchFile as NoSuchFile
    from ort_py.errors import NotFound as NotFound
    from ort_py.errors import NotImplemented as NotImplemented  # noqa: A004 - onnxruntime's public name
    from ort_py.errors import NotYetError as NotYetError
    from ort_py.errors import OptionError as OptionError
    from ort_py.errors import OrtPyError as OrtPyError
    from ort_py.errors import PluginError as PluginError
    from ort_py.errors import ProviderFallbackWarning as ProviderFallbackWarning
    from ort_py.errors import ProviderNotAvailableError as ProviderNotAvailableError
    from ort_py.errors import ProviderNotFoundError as ProviderNotFoundError
    from ort_py.errors import RuntimeException as RuntimeException
    from ort_py.errors import RunTimeoutError as RunTimeoutError
    from ort_py.errors import UsageError as UsageError
    from ort_py.fallback.policy import SessionState as SessionState
    from ort_py.inspection.calibration import calibrate as calibrate
    from ort_py.inspection.comparison.bisection import bisect as bisect
    from ort_py.inspection.comparison.compare import compare as compare
    from ort_py.inspection.comparison.configuration import SessionConfiguration as SessionConfiguration
    from ort_py.inspection.comparison.report import BisectionReport as BisectionReport
    from ort_py.inspection.comparison.report import ComparisonReport as ComparisonReport
    from ort_py.inspection.fingerprint import Fingerprint as Fingerprint
    from ort_py.inspection.placement import NodePlacement as NodePlacement
    from ort_py.inspection.placement import Placement as Placement
    from ort_py.inspection.selection_explanation import explain_selection as explain_selection
    from ort_py.inspection.tuning import TuningReport as TuningReport
    from ort_py.inspection.tuning import tune as tune
    from ort_py.inspection.warmup import WarmedShape as WarmedShape
    from ort_py.inspection.warmup import WarmupReport as WarmupReport
    from ort_py.limits import Limits as Limits
    from ort_py.options import RunOptions as RunOptions
    from ort_py.options import SessionOptions as SessionOptions
    from ort_py.options.ep_context import OrtEpContextData as OrtEpContextData
    from ort_py.options.ep_context import OrtEpContextDataBuffer as OrtEpContextDataBuffer
    from ort_py.value_enums import OrtAllocatorType as OrtAllocatorType
    from ort_py.value_enums import OrtCompileApiFlags as OrtCompileApiFlags
    from ort_py.value_enums import OrtDeviceMemoryType as OrtDeviceMemoryType
    from ort_py.value_enums import OrtHardwareDeviceType as OrtHardwareDeviceType
    from ort_py.value_enums import OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType
    from ort_py.value_enums import OrtMemType as OrtMemType
    from ort_py.value_enums import OrtSparseFormat as OrtSparseFormat
    from ort_py.values.copying import copy_tensors as copy_tensors
    from ort_py.values.device import OrtDevice as OrtDevice
    from ort_py.values.device_table import OrtDeviceVendorId as OrtDeviceVendorId
    from ort_py.values.memory_info import OrtArenaCfg as OrtArenaCfg
    from ort_py.values.memory_info import OrtMemoryInfo as OrtMemoryInfo
    from ort_py.values.memory_info import create_and_register_allocator as create_and_register_allocator
    from ort_py.values.memory_info import create_and_register_allocator_v2 as create_and_register_allocator_v2
    from ort_py.values.ort_value import OrtValue as OrtValue
    from ort_py.values.sparse import SparseTensor as SparseTensor

    __all__: list[str]
else:  # a type checker that saw this would take every misspelt name for one of ort_py's
    # onnxruntime's own module imports its `capi`; here it is loaded when it is asked for.
    __getattr__, __dir__, __all__ = lazy_names(globals(), HOMES, {"capi": "ort_py.capi"})
    __all__ += ["__version__", "cuda_version", "package_name", "version"]
