"""The classes that a plug-in author subclasses or fills in. Import them from here: the modules below may be rearranged.

Reading order: `provider` (what you register), `graph_view` (what you see), `capability` (what you answer),
`kernel` or `compiled` (how you run), `memory` (only with a device of your own), `transform` and `schema` (more to
contribute), `version`. The contracts import leaves of ort_py only, never the engine.

A name is loaded when it is first used: a provider that is created for a restored model needs a third of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.contracts.kernel import kernel as kernel  # at once: the module of this name would hide the decorator
from ort_py.lazy_names import lazy_names

if TYPE_CHECKING:
    from ort_py.contracts.capability import Capability as Capability
    from ort_py.contracts.capability import Claim as Claim
    from ort_py.contracts.capability import ClaimKind as ClaimKind
    from ort_py.contracts.capability import Refusal as Refusal
    from ort_py.contracts.compiled import CompiledRegion as CompiledRegion
    from ort_py.contracts.compiled import FrameResources as FrameResources
    from ort_py.contracts.compiled import FunctionRegion as FunctionRegion
    from ort_py.contracts.compiled import RegionInstance as RegionInstance
    from ort_py.contracts.compiled import RegionNotReady as RegionNotReady
    from ort_py.contracts.compiled import RequiredOutputs as RequiredOutputs
    from ort_py.contracts.compiled import RunDeclined as RunDeclined
    from ort_py.contracts.device_memory import IDeviceMemory as IDeviceMemory
    from ort_py.contracts.failure import FailureKind as FailureKind
    from ort_py.contracts.function_body import FunctionBody as FunctionBody
    from ort_py.contracts.function_body import NodeTemplate as NodeTemplate
    from ort_py.contracts.graph_view import Array as Array
    from ort_py.contracts.graph_view import AttributeValue as AttributeValue
    from ort_py.contracts.graph_view import GraphView as GraphView
    from ort_py.contracts.graph_view import NodeSpec as NodeSpec
    from ort_py.contracts.graph_view import RegionView as RegionView
    from ort_py.contracts.graph_view import ValueSpec as ValueSpec
    from ort_py.contracts.graph_view import WeightMode as WeightMode
    from ort_py.contracts.kernel import ALL_FLOATS as ALL_FLOATS
    from ort_py.contracts.kernel import ALL_INTEGERS as ALL_INTEGERS
    from ort_py.contracts.kernel import ALL_NUMERIC as ALL_NUMERIC
    from ort_py.contracts.kernel import ALL_TENSORS as ALL_TENSORS
    from ort_py.contracts.kernel import KernelCallable as KernelCallable
    from ort_py.contracts.kernel import KernelCatalog as KernelCatalog
    from ort_py.contracts.kernel import KernelContext as KernelContext
    from ort_py.contracts.kernel import KernelDef as KernelDef
    from ort_py.contracts.kernel import KernelFactory as KernelFactory
    from ort_py.contracts.kernel import KernelForms as KernelForms
    from ort_py.contracts.kernel import KernelLookup as KernelLookup
    from ort_py.contracts.kernel import KernelMatch as KernelMatch
    from ort_py.contracts.kernel import Subgraph as Subgraph
    from ort_py.contracts.kernel import SubgraphCallable as SubgraphCallable
    from ort_py.contracts.kernel import kernel_defs as kernel_defs
    from ort_py.contracts.kernel import tensors as tensors
    from ort_py.contracts.memory import AllocatorStats as AllocatorStats
    from ort_py.contracts.memory import IAllocator as IAllocator
    from ort_py.contracts.memory import IDataTransfer as IDataTransfer
    from ort_py.contracts.memory import IStream as IStream
    from ort_py.contracts.pattern import Const as Const
    from ort_py.contracts.pattern import Maybe as Maybe
    from ort_py.contracts.pattern import OneOf as OneOf
    from ort_py.contracts.pattern import Op as Op
    from ort_py.contracts.pattern import Pattern as Pattern
    from ort_py.contracts.pattern import Var as Var
    from ort_py.contracts.pattern_match import Match as Match
    from ort_py.contracts.pattern_rule import PatternRule as PatternRule
    from ort_py.contracts.provider import CHANNELS_LAST as CHANNELS_LAST
    from ort_py.contracts.provider import IExecutionProvider as IExecutionProvider
    from ort_py.contracts.provider import ProviderFactory as ProviderFactory
    from ort_py.contracts.provider_records import ArtifactValidity as ArtifactValidity
    from ort_py.contracts.provider_records import Availability as Availability
    from ort_py.contracts.provider_records import OptionSpec as OptionSpec
    from ort_py.contracts.provider_records import SessionContext as SessionContext
    from ort_py.contracts.region_provider import RegionProvider as RegionProvider
    from ort_py.contracts.region_provider import convex_groups as convex_groups
    from ort_py.contracts.region_weights import PackedForms as PackedForms
    from ort_py.contracts.region_weights import RegionWeight as RegionWeight
    from ort_py.contracts.running_time import check_time as check_time
    from ort_py.contracts.running_time import current_time_check as current_time_check
    from ort_py.contracts.schema import FormalParameter as FormalParameter
    from ort_py.contracts.schema import OperatorSchema as OperatorSchema
    from ort_py.contracts.schema import TypeFunction as TypeFunction
    from ort_py.contracts.transform import GraphEditor as GraphEditor
    from ort_py.contracts.transform import GraphTransform as GraphTransform
    from ort_py.contracts.transform import Level as Level
    from ort_py.contracts.transform import RewriteRule as RewriteRule
    from ort_py.contracts.transform import Transform as Transform
    from ort_py.contracts.transform import TransformContext as TransformContext
    from ort_py.contracts.transform import TransformResult as TransformResult
    from ort_py.contracts.version import API_VERSION as API_VERSION
    from ort_py.contracts.version import CORE_API_RANGE as CORE_API_RANGE
    from ort_py.contracts.version import ApiRange as ApiRange

    __all__: list[str]
else:
    __getattr__, __dir__, __all__ = lazy_names(
        globals(),
        {
            "ort_py.contracts.capability": "Capability Claim ClaimKind Refusal",
            "ort_py.contracts.compiled": (
                "CompiledRegion FrameResources FunctionRegion RegionInstance RegionNotReady RequiredOutputs RunDeclined"
            ),
            "ort_py.contracts.device_memory": "IDeviceMemory",
            "ort_py.contracts.failure": "FailureKind",
            "ort_py.contracts.function_body": "FunctionBody NodeTemplate",
            "ort_py.contracts.graph_view": "Array AttributeValue GraphView NodeSpec RegionView ValueSpec WeightMode",
            "ort_py.contracts.kernel": (
                "ALL_FLOATS ALL_INTEGERS ALL_NUMERIC ALL_TENSORS KernelCallable KernelCatalog KernelContext KernelDef "
                "KernelFactory KernelForms KernelLookup KernelMatch Subgraph SubgraphCallable kernel kernel_defs "
                "tensors"
            ),
            "ort_py.contracts.memory": "AllocatorStats IAllocator IDataTransfer IStream",
            "ort_py.contracts.pattern": "Const Maybe OneOf Op Pattern Var",
            "ort_py.contracts.pattern_match": "Match",
            "ort_py.contracts.pattern_rule": "PatternRule",
            "ort_py.contracts.provider": "CHANNELS_LAST IExecutionProvider ProviderFactory",
            "ort_py.contracts.provider_records": "ArtifactValidity Availability OptionSpec SessionContext",
            "ort_py.contracts.region_provider": "RegionProvider convex_groups",
            "ort_py.contracts.region_weights": "PackedForms RegionWeight",
            "ort_py.contracts.running_time": "check_time current_time_check",
            "ort_py.contracts.schema": "FormalParameter OperatorSchema TypeFunction",
            "ort_py.contracts.transform": (
                "GraphEditor GraphTransform Level RewriteRule Transform TransformContext TransformResult"
            ),
            "ort_py.contracts.version": "API_VERSION CORE_API_RANGE ApiRange",
        },
    )
