"""What providers and plug-ins bring to one session: kernels, transforms, copies, allocators.

Filled once, before the model is loaded, so that a provider whose code raises is known before anything depends on it.
Knows no model and no plan; `assembly` takes everything from here. Allocators are released here too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from ort_py.contracts import (
    AllocatorStats,
    GraphTransform,
    IAllocator,
    IDataTransfer,
    IExecutionProvider,
    KernelCatalog,
)
from ort_py.hooks.guard import Failure, guarded
from ort_py.hooks.manager import HookManager
from ort_py.kernels.registry import KernelRegistry

__all__ = ["Contributions", "quietly"]

_logger = logging.getLogger("ort_py.session")


class Contributions:
    """Contributions of one session's providers and plug-ins.

    Attributes:
        kernels: Kernels of all providers.
        transforms: Plug-ins' graph transforms, then the providers' in rank order.
        provider_transfers: Copies of each provider.
        transfers: Copies that plug-ins contribute.
    """

    def __init__(self) -> None:
        self.kernels = KernelRegistry()
        self.transforms: list[GraphTransform] = []
        self.provider_transfers: dict[str, list[IDataTransfer]] = {}
        self.transfers: list[IDataTransfer] = []
        self._allocators: dict[str, IAllocator] = {}
        self._replaced: list[IAllocator] = []

    def introduce(self, provider: IExecutionProvider, origin: str) -> None:
        """Ask a provider, once, for what it brings. Where that raises, nothing of it is kept.

        Args:
            provider: The provider.
            origin: Where it comes from, for messages about its kernels.

        Raises:
            KernelConflictError: Two of its kernels claim the same versions and types.
            Exception: Whatever the provider raises.
        """
        offered, allocator = provider.kernel_registry(), provider.allocator()
        kernels = offered if isinstance(offered, KernelCatalog) else list(offered)
        transforms, transfers = list(provider.transforms()), list(provider.data_transfers())
        self.kernels.register(provider.name, kernels, origin)
        self.transforms += transforms
        self.provider_transfers[provider.name] = transfers
        if allocator is not None:
            self._allocators[provider.name] = allocator

    def add_plugins(self, hooks: HookManager, providers: Collection[str], *, override_kernels: bool) -> None:
        """Add what plug-ins contribute.

        Args:
            hooks: The plug-ins' hooks.
            providers: Names of the session's providers.
            override_kernels: Plug-ins' kernels replace those a provider has.
        """
        for plugin, contribution in hooks.contributions("ort_py_kernels"):
            self.kernels.contribute(contribution.provider, contribution.kernels, plugin, override=override_kernels)
        for _, contributed in hooks.contributions("ort_py_allocators"):
            if contributed.provider in providers:
                replaced = self._allocators.get(contributed.provider)
                if replaced is not None:
                    self._replaced.append(replaced)
                self._allocators[contributed.provider] = contributed.allocator
        self.transforms[:0] = [transform for _, transform in hooks.contributions("ort_py_transforms")]
        self.transfers += [transfer for _, transfer in hooks.contributions("ort_py_data_transfers")]

    def allocator_stats(self) -> dict[str, AllocatorStats]:
        """What the allocator of each provider says, where it has one."""
        return {name: allocator.stats() for name, allocator in self._allocators.items()}

    def trim(self) -> None:
        """Let allocators give unused memory back; one that raises is logged."""
        for name, allocator in self._allocators.items():
            quietly(f"trim() of the allocator of {name}", allocator.trim)

    def close(self) -> None:
        """Close the allocators, those that a plug-in's replaced too; what one raises is logged."""
        allocators, self._allocators, self._replaced = [*self._replaced, *self._allocators.values()], {}, []
        for allocator in allocators:
            quietly("closing an allocator", allocator.close)


def quietly(what: str, call: Callable[[], object]) -> None:
    """Call a plug-in's code whose failure must not keep the rest from being released; it is logged."""
    outcome = guarded(call)
    if isinstance(outcome, Failure):
        _logger.warning("%s failed: %s", what, outcome, exc_info=outcome.error)
