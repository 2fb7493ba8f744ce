"""Computing one node while the graph is optimised, with the kernels of the session's host providers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import Array, IExecutionProvider, KernelContext, NodeSpec, TransformContext
from ort_py.devices import HOST
from ort_py.errors import EngineError
from ort_py.kernels.binding import KernelServices, bind_kernel, make_context
from ort_py.kernels.registry import KernelRegistry
from ort_py.limits import Limits
from ort_py.limits.limits import INITIALIZER_BYTES_ALWAYS_ALLOWED

__all__ = ["KernelEvaluator"]


class KernelEvaluator(TransformContext):
    """Evaluates with the provider that would run a node last: the completing one is asked first.

    Args:
        providers: The session's providers in rank order.
        kernels: Their kernels.
        services: What kernels are bound with.
        held: Bytes of the model's constants.
    """

    def __init__(
        self,
        providers: Sequence[IExecutionProvider],
        kernels: KernelRegistry,
        services: KernelServices,
        held: int = 0,
    ) -> None:
        self._providers = [provider for provider in reversed(providers) if provider.device == HOST]
        self._kernels = kernels
        self._services = services
        self._left = _room(services.limits, held)

    def evaluate(self, node: NodeSpec, inputs: Sequence[Array | None]) -> Sequence[Array] | None:
        for provider in self._providers:
            match = self._kernels.find(provider.name, node)
            if match.kernel is None:
                continue
            constants = {index: value for index, value in enumerate(inputs) if value is not None}
            bound = bind_kernel(node, match.kernel, provider, self._services, constants)
            with np.errstate(all="ignore"):
                result: Any = bound.call(*inputs)
            return [result] if len(node.outputs) == 1 else list(result)
        return None

    def kernel_context(self, node: NodeSpec) -> KernelContext:
        if not self._providers:
            raise EngineError(
                "No provider of this session computes on the host.",
                where=node.location,
                why="the kernel context for transforms requires one",
                fix="Add CPUExecutionProvider to the providers.",
            )
        return make_context(node, self._providers[0], self._services)

    def reserve(self, nbytes: int) -> bool:
        if nbytes > self._left:
            return False
        self._left -= nbytes
        return True


def _room(limits: Limits, held: int) -> int:
    """Bytes that constants may grow by: as many as a file of no size may hold, and a part of what the session has left.

    Computed anew in each run they would take that memory too, but one after the other.
    """
    bounds = [limits.initializer_cap(0), limits.single_allocation_bytes, INITIALIZER_BYTES_ALWAYS_ALLOWED]
    if limits.total_memory_bytes is not None:
        bounds.append(max(0, limits.total_memory_bytes - held) // 4)
    return min(bound for bound in bounds if bound is not None)
