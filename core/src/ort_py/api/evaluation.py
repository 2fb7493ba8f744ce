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

__all__ = ["KernelEvaluator"]


class KernelEvaluator(TransformContext):
    """Evaluates with the provider that would run a node last: the completing one is asked first.

    Args:
        providers: The session's providers in rank order.
        kernels: Their kernels.
        services: What kernels are bound with.
    """

    def __init__(
        self, providers: Sequence[IExecutionProvider], kernels: KernelRegistry, services: KernelServices
    ) -> None:
        self._providers = [provider for provider in reversed(providers) if provider.device == HOST]
        self._kernels = kernels
        self._services = services

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
                why="a kernel context for transforms needs one",
                fix="Add CPUExecutionProvider to the providers.",
            )
        return make_context(node, self._providers[0], self._services)
