"""Contributions of providers and plug-ins to one session: kernels, transforms, copies, allocators.

Filled once, before the model is loaded, so that a provider whose code raises is known before anything depends on it. It
does not depend on models or plans; `assembly` takes everything from here. Allocators are released here too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import TYPE_CHECKING

from ort_py.contracts import KernelCatalog
from ort_py.devices import HOST
from ort_py.errors import Location, PluginError
from ort_py.hooks.guard import Raised, guarded
from ort_py.kernels.registry import KernelRegistry
from ort_py.logs import lazy_logger

if TYPE_CHECKING:
    from ort_py.contracts import AllocatorStats, IAllocator, IDataTransfer, IExecutionProvider, Transform
    from ort_py.devices import Device
    from ort_py.graph.checking.schema import SchemaRegistry
    from ort_py.hooks.manager import HookManager

_logger = lazy_logger("ort_py.session")


class Contributions:
    """Contributions of one session's providers and plug-ins.

    Attributes:
        transforms: Plug-ins' graph transforms, then the providers' in rank order.
    """

    def __init__(self) -> None:
        self.kernels = KernelRegistry()
        self.transforms: list[Transform] = []
        self.provider_transfers: dict[str, list[IDataTransfer]] = {}
        self.transfers: list[IDataTransfer] = []
        self._allocators: dict[str, IAllocator] = {}
        self._replaced: list[IAllocator] = []

    def introduce(self, provider: IExecutionProvider, origin: str) -> None:
        """Ask a provider, once, for its contributions. Where that raises, none of them is kept.

        Args:
            origin: Distribution that it comes from, for messages about its kernels.

        Raises:
            KernelConflictError: Two of its kernels claim the same versions and types.
        """
        offered, allocator = provider.kernel_registry(), provider.allocator()
        kernels = offered if isinstance(offered, KernelCatalog) else list(offered)
        transforms, transfers = list(provider.transforms()), list(provider.data_transfers())
        self.kernels.register(provider.name, kernels, origin)
        self.transforms += transforms
        self.provider_transfers[provider.name] = transfers
        if allocator is not None:
            self._allocators[provider.name] = allocator

    def move(self, provider: IExecutionProvider) -> None:
        """Ask a provider again for what belongs to its device, which is another one now."""
        allocator, transfers = provider.allocator(), list(provider.data_transfers())
        former = self._allocators.pop(provider.name, None)
        if former is not None:
            self._replaced.append(former)  # arrays of runs under way: closed with the session
        if allocator is not None:
            self._allocators[provider.name] = allocator
        self.provider_transfers[provider.name] = transfers

    def add_plugins(self, hooks: HookManager, providers: Collection[str], *, override_kernels: bool) -> None:
        """Add what plug-ins contribute.

        Args:
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

    def allocators_on(self, providers: Iterable[IExecutionProvider]) -> dict[Device, IAllocator]:
        """The allocator of each device but the host: that of the first provider there that has one."""
        found: dict[Device, IAllocator] = {}
        for provider in providers:
            allocator = self._allocators.get(provider.name)
            if allocator is not None and provider.device != HOST:
                found.setdefault(provider.device, allocator)
        return found

    def allocator_stats(self) -> dict[str, AllocatorStats]:
        """Statistics of each provider's allocator, if it has one."""
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
    if isinstance(outcome, Raised):
        _logger.warning("%s failed: %s", what, outcome, exc_info=outcome.error)


def provider_failure(provider: str, error: Exception, node: str, *, alone: bool) -> PluginError:
    """The error of a session for a provider that failed and may not be replaced.

    Args:
        alone: Whether there is no other provider.
    """
    return PluginError(
        f"{provider} failed while the session was created: {type(error).__name__}: {error}",
        where=Location(node=node, provider=provider),
        why="there is no other provider" if alone else "another provider may not take over",
        fix=getattr(error, "fix", "") or "Report this to the provider's author, or leave the provider out.",
    )


def schemas_when_needed(hooks: HookManager) -> Callable[[], SchemaRegistry]:
    """Makes the operators' schemas, plug-ins' included, when it is first called: they take the onnx package."""

    @cache
    def make() -> SchemaRegistry:
        from ort_py.engine.loading import schema_registry

        return schema_registry(hooks)

    return make
