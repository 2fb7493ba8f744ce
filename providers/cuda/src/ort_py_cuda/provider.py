"""The provider of a session: claims of kernels, regions and captured runs on one GPU, and the handling of its loss.

Comes after everything else of this package. Kernels are found by `kernels.catalog`, regions are compiled by `regions`,
runs captured by `capture`; memory and streams are those of `opening`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ort_py.contracts import (
    Capability,
    Claim,
    CompiledRegion,
    FailureKind,
    GraphView,
    KernelCatalog,
    KernelLookup,
    NodeSpec,
    Refusal,
    RegionView,
    SessionContext,
)
from ort_py.dtypes import DataType, TensorType
from ort_py_array.provider import ArrayModuleProvider
from ort_py_cuda import capture, float8, regions
from ort_py_cuda.held_types import held_types, missing_library, unheld
from ort_py_cuda.kernels.catalog import CudaKernels
from ort_py_cuda.kernels.pictures import prefers_channels_last
from ort_py_cuda.memory.failures import failure_kind
from ort_py_cuda.modules import cupy
from ort_py_cuda.opening import OpenDevice, device_count, open_device, works
from ort_py_cuda.options import Wishes, wishes_of
from ort_py_cuda.settings import Settings, applied
from ort_py_cuda.sizes import REASON, on_the_host

__all__ = ["CUDAProvider"]

_logger = logging.getLogger("ort_py_cuda.provider")

_BFLOAT16_FROM = 80
"""Compute capability ×10 from which the hardware multiplies bfloat16."""


class CUDAProvider(ArrayModuleProvider):
    """Runs a session's nodes on one GPU.

    Args:
        name: As registered by the plug-in.
        options: Validated options.
        context: The session's wishes.

    Raises:
        OptionError: An option has an invalid value, or two contradict each other.
        EPFail: CuPy does not import, CUDA does not start, or there is no GPU of this number.
    """

    def __init__(self, name: str, options: Mapping[str, Any], context: SessionContext) -> None:
        self._wishes = wishes_of(options, context)
        self._settings = self._wishes.settings
        self._kernels = CudaKernels(lambda: self._settings)
        self._name = name
        self._go_to(open_device(self._wishes))

    def _go_to(self, opened: OpenDevice) -> None:
        """Answer for a GPU from now on."""
        self._opened = opened
        self._settings = replace(self._wishes.settings, device=opened.device.index, capability=opened.capability)
        super().__init__(
            self._name,
            cupy(),
            device=opened.device,
            allocator=opened.allocator,
            transfers=(opened.transfer,),
            new_stream=opened.new_stream,
            element_types=held_types(),
        )

    @property
    def settings(self) -> Settings:
        """Settings that its kernels and regions read."""
        return self._settings

    def kernel_registry(self) -> KernelCatalog:
        """Ours, and behind them the array library."""
        return self._kernels

    def refusal(self, node: NodeSpec) -> str | None:
        """A library of NVIDIA's that a node needs and that is not installed."""
        return missing_library(node)

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Nodes with a kernel whose values can be held; those that go into regions as such."""
        found = super().get_capability(graph, kernels)
        single = {claim.nodes[0]: claim for claim in found.claims}
        sizes = on_the_host(graph, single, kernels)
        for index in sizes:
            del single[index]
        products = float8.find(graph, single.keys(), self._settings.capability)
        able = sorted(single.keys() - {index for group in products.groups for index in group})
        groups: Sequence[Claim]
        if self._settings.graphs:
            groups = applied(self._settings, capture.groups, graph, able, kernels, products.groups)
        else:
            groups = [*products.claims, *applied(self._settings, regions.groups, graph, able)]
        taken = {index for group in groups for index in group.nodes}
        reasons = {one.node: one.reason for one in found.refusals} | dict.fromkeys(sizes, REASON) | products.refusals
        return Capability(
            (*groups, *(claim for index, claim in single.items() if index not in taken)),
            tuple(Refusal(index, reasons[index]) for index in sorted(reasons.keys() - taken - single.keys())),
        )

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """Ask the room that compiles a region whether the rest of it can run."""
        room = capture if self._settings.graphs else float8 if float8.owns(nodes) else regions
        answer: str | None = applied(self._settings, room.group_refusal, nodes, graph)
        return answer

    def compile(self, region: RegionView) -> CompiledRegion:
        """Compile a region to one kernel, or to runs that are captured."""
        compiled: CompiledRegion
        with self._opened.new_stream() as stream:
            if self._settings.graphs and applied(self._settings, capture.owns, region):
                compiled = applied(self._settings, capture.compile, region, self._kernels, cupy())
            elif float8.owns(region.nodes):
                compiled = applied(self._settings, float8.compile_region, region, cupy())
            else:
                compiled = applied(self._settings, regions.compile, region)
            stream.synchronize()
        return compiled

    def precision_refusal(self, precision: str) -> str | None:
        """Lower precision is that of products alone."""
        return None if precision == "float32" else "products of float32 are computed in TF32, all else in float32"

    @property
    def widened_types(self) -> frozenset[DataType]:
        """bfloat16 where the hardware does not multiply it."""
        return frozenset() if self._settings.capability >= _BFLOAT16_FROM else frozenset({DataType.BFLOAT16})

    def prefers_channels_last(self, node: NodeSpec) -> bool:
        """Apply the preference of `kernels.pictures`, if the session allows it: without cuDNN a node costs two
        transposes.
        """
        return self._settings.channels_last and prefers_channels_last(node)

    def failure_kind(self, error: BaseException) -> FailureKind | None:
        """CUDA's own errors by their numbers."""
        return failure_kind(error)

    def reset_device(self) -> bool:
        """Return whether the GPU still works: an error that only ended one call.

        A context that an error has broken cannot be replaced: CuPy's kernels and handles, and those of other libraries
        in the process, belong to it. A new process can use the GPU.
        """
        usable = works(self.device.index)
        if not usable:
            _logger.error(
                "GPU %s cannot be used by this process any more: CUDA gives the error of a broken context to every "
                "call. Start a new process.",
                self.device.index,
            )
        return usable

    def use_backup_device(self) -> bool:
        """Go on with the next GPU that works; contexts of GPUs do not break each other."""
        if self._wishes.user_stream is not None or self._wishes.external is not None:
            return False  # the caller's stream and memory are of the lost one
        lost = self.device.index
        count = device_count()
        for index in (*range(lost + 1, count), *range(lost)):
            if works(index):
                self._go_to(open_device(_on(self._wishes, index)))
                _logger.warning("GPU %s is lost: going on with GPU %s", lost, index)
                return True
        return False

    def synchronize(self) -> None:
        """Wait for all work of the GPU."""
        with cupy().cuda.Device(self.device.index) as device:
            device.synchronize()

    def _foreign(self, node: NodeSpec) -> str | None:
        """Explain why CuPy cannot hold a value of a node."""
        reason = super()._foreign(node)
        if reason is None:
            return None
        types = [value.type for value in (*node.inputs, *node.outputs) if value is not None]
        words = dict.fromkeys(
            unheld(one.data_type)
            for one in types
            if isinstance(one, TensorType) and self._types is not None and one.data_type not in self._types
        )
        return f"{reason}: {'; '.join(words)}" if words else reason


def _on(wishes: Wishes, index: int) -> Wishes:
    return replace(wishes, device=index)
