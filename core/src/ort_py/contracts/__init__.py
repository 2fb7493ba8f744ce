"""The classes that a plug-in author subclasses or fills in. Import them from here: the modules below may be rearranged.

Reading order: `provider` (what you register), `graph_view` (what you see), `capability` (what you answer),
`kernel` or `compiled` (how you run), `memory` (only with a device of your own), `transform` and `schema` (more to
contribute), `version`. The contracts import leaves of ort_py only, never the engine.

A name is loaded when it is first used: a provider that is created for a restored model needs a third of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# At once, because the module of this name would hide the decorator as soon as anything imported it.
from ort_py.contracts.kernel import (
    ALL_FLOATS,
    ALL_INTEGERS,
    ALL_NUMERIC,
    ALL_TENSORS,
    KernelCallable,
    KernelCatalog,
    KernelContext,
    KernelDef,
    KernelFactory,
    KernelForms,
    KernelLookup,
    KernelMatch,
    Subgraph,
    SubgraphCallable,
    kernel,
    kernel_defs,
    tensors,
)
from ort_py.lazy_names import lazy_names

if TYPE_CHECKING:
    from ort_py.contracts.capability import Capability, Claim, ClaimKind, Refusal
    from ort_py.contracts.compiled import (
        CompiledRegion,
        FrameResources,
        FunctionRegion,
        RegionInstance,
        RequiredOutputs,
        RunDeclined,
    )
    from ort_py.contracts.device_memory import IDeviceMemory
    from ort_py.contracts.failure import FailureKind
    from ort_py.contracts.function_body import FunctionBody, NodeTemplate
    from ort_py.contracts.graph_view import (
        Array,
        AttributeValue,
        GraphView,
        NodeSpec,
        RegionView,
        ValueSpec,
        WeightMode,
    )
    from ort_py.contracts.memory import AllocatorStats, IAllocator, IDataTransfer, IStream
    from ort_py.contracts.pattern import Const, Maybe, OneOf, Op, Pattern, Var
    from ort_py.contracts.pattern_match import Match
    from ort_py.contracts.pattern_rule import PatternRule
    from ort_py.contracts.provider import CHANNELS_LAST, IExecutionProvider, ProviderFactory
    from ort_py.contracts.provider_records import ArtifactValidity, Availability, OptionSpec, SessionContext
    from ort_py.contracts.region_provider import RegionProvider, convex_groups
    from ort_py.contracts.region_weights import PackedForms, RegionWeight
    from ort_py.contracts.schema import FormalParameter, OperatorSchema, TypeFunction
    from ort_py.contracts.transform import (
        GraphEditor,
        GraphTransform,
        Level,
        RewriteRule,
        Transform,
        TransformContext,
        TransformResult,
    )
    from ort_py.contracts.version import API_VERSION, CORE_API_RANGE, ApiRange

__all__ = [
    "ALL_FLOATS",
    "ALL_INTEGERS",
    "ALL_NUMERIC",
    "ALL_TENSORS",
    "API_VERSION",
    "CHANNELS_LAST",
    "CORE_API_RANGE",
    "AllocatorStats",
    "ApiRange",
    "Array",
    "ArtifactValidity",
    "AttributeValue",
    "Availability",
    "Capability",
    "Claim",
    "ClaimKind",
    "CompiledRegion",
    "Const",
    "FailureKind",
    "FormalParameter",
    "FrameResources",
    "FunctionBody",
    "FunctionRegion",
    "GraphEditor",
    "GraphTransform",
    "GraphView",
    "IAllocator",
    "IDataTransfer",
    "IDeviceMemory",
    "IExecutionProvider",
    "IStream",
    "KernelCallable",
    "KernelCatalog",
    "KernelContext",
    "KernelDef",
    "KernelFactory",
    "KernelForms",
    "KernelLookup",
    "KernelMatch",
    "Level",
    "Match",
    "Maybe",
    "NodeSpec",
    "NodeTemplate",
    "OneOf",
    "Op",
    "OperatorSchema",
    "OptionSpec",
    "PackedForms",
    "Pattern",
    "PatternRule",
    "ProviderFactory",
    "Refusal",
    "RegionInstance",
    "RegionProvider",
    "RegionView",
    "RegionWeight",
    "RequiredOutputs",
    "RewriteRule",
    "RunDeclined",
    "SessionContext",
    "Subgraph",
    "SubgraphCallable",
    "Transform",
    "TransformContext",
    "TransformResult",
    "TypeFunction",
    "ValueSpec",
    "Var",
    "WeightMode",
    "convex_groups",
    "kernel",
    "kernel_defs",
    "tensors",
]

_HOMES = {
    "capability": "Capability Claim ClaimKind Refusal",
    "compiled": ("CompiledRegion FrameResources FunctionRegion RegionInstance RequiredOutputs RunDeclined"),
    "device_memory": "IDeviceMemory",
    "failure": "FailureKind",
    "function_body": "FunctionBody NodeTemplate",
    "graph_view": "Array AttributeValue GraphView NodeSpec RegionView ValueSpec WeightMode",
    "memory": "AllocatorStats IAllocator IDataTransfer IStream",
    "pattern": "Const Maybe OneOf Op Pattern Var",
    "pattern_match": "Match",
    "pattern_rule": "PatternRule",
    "provider": "CHANNELS_LAST IExecutionProvider ProviderFactory",
    "provider_records": "ArtifactValidity Availability OptionSpec SessionContext",
    "region_provider": "RegionProvider convex_groups",
    "region_weights": "PackedForms RegionWeight",
    "schema": "FormalParameter OperatorSchema TypeFunction",
    "transform": ("GraphEditor GraphTransform Level RewriteRule Transform TransformContext TransformResult"),
    "version": "API_VERSION CORE_API_RANGE ApiRange",
}
"""Names by the module that has them."""

__getattr__, __dir__ = lazy_names(
    globals(), {f"ort_py.contracts.{module}": names.split() for module, names in _HOMES.items()}
)
