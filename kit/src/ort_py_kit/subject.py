"""The provider under test: found or registered, and its sessions, made so that nothing hides what it does.

Comes before the suites. It does not depend on tests: what goes wrong is raised as it is, or returned as a record.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import onnx

import ort_py
from ort_py.contracts import (
    Capability,
    GraphView,
    IExecutionProvider,
    KernelLookup,
    OptionSpec,
    ProviderFactory,
    SessionContext,
)
from ort_py.discovery import CPU_ROLE, check_options, default_catalog
from ort_py.errors import PluginError, ProviderNotFoundError
from ort_py.fallback.lost_devices import process_lost_devices
from ort_py.hooks import DeclinedEvent, hookimpl
from ort_py.hooks.guard import Raised, guarded
from ort_py.kernels.registry import KernelRegistry
from ort_py_kit.graphs import graph_view

__all__ = ["CPU_ROLE", "Subject", "forget_providers"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A provider and how it is asked for.

    Attributes:
        name: The provider's name.
        options: Its options, as a user writes them.
        plugin: Module that registers it, for a provider that is not installed; ``""`` otherwise.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    plugin: str = ""
    _registration: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def record(self) -> ort_py.ProviderRecord:
        """The record of discovery. A plug-in that is not installed is registered first, until `forget`.

        Raises:
            ProviderNotFoundError: No plug-in provides it.
            PluginError: The plug-in does not register it.
        """
        catalog = default_catalog()
        record = catalog.record(self.name)
        if record is None and self.plugin:
            self._register()
            record = catalog.record(self.name)
        if record is None:
            raise ProviderNotFoundError(
                f"No provider is called '{self.name}'.",
                why=f"Installed are: {', '.join(ort_py.get_installed_providers()) or 'none'}.",
                fix="Install its distribution, whose entry point in the group ort_py.providers has its name; "
                "or name the module that registers it: `plugin` of the suite, --provider-plugin on the command line.",
            )
        return record

    def factory(self) -> ProviderFactory:
        """Its factory.

        Raises:
            PluginError: It is broken, incompatible, in conflict or blocked.
        """
        record = self.record()
        if record.factory is None:
            raise PluginError(f"{self.name} is {record.state.value}.", why=record.reason, fix=record.fix)
        return record.factory

    def create(self) -> IExecutionProvider:
        """The bare provider, without a session; to be closed by the caller."""
        factory = self.factory()
        return factory.create(self.read_options(self.options), SessionContext(threads=2))

    def read_options(self, given: Mapping[str, Any], schema: Sequence[OptionSpec] | None = None) -> Mapping[str, Any]:
        """Check options as a session does.

        Args:
            given: Values as users write them.
            schema: The options that exist; the provider's where None.

        Returns:
            A value for each option of the schema.
        """
        schema = self.factory().option_schema if schema is None else schema
        return check_options(self.name, schema, given).values

    def ask(self, model: onnx.ModelProto | str, provider: IExecutionProvider) -> tuple[Capability, GraphView]:
        """Its answer for a model's main graph, and the graph it was asked about."""
        view = graph_view(model)
        return provider.get_capability(view, self.kernels(provider)), view

    def kernels(self, provider: IExecutionProvider) -> KernelLookup:
        """A look-up in its own kernels.

        Raises:
            KernelConflictError: Two of them claim the same.
        """
        registry = KernelRegistry()
        registry.register(self.name, provider.kernel_registry(), self.name)
        return registry.lookup(self.name)

    def session(
        self, model: onnx.ModelProto, *, optimise: bool = True, arguments: Mapping[str, Any] | None = None
    ) -> ort_py.InferenceSession:
        """A session with the provider in front, in which every failure of it is raised, completed by the plain CPU
        provider; islands need not pay, so that small graphs are run on it.

        Args:
            model: The model.
            optimise: Whether the graph is optimised before the provider sees it.
            arguments: More attributes of `SessionOptions`.
        """
        names = [self.name, CPU_ROLE] if self.name != CPU_ROLE else [CPU_ROLE]
        options: Sequence[Any] = [dict(self.options), {}][: len(names)]
        self.record()
        return ort_py.InferenceSession(
            model.SerializeToString(),
            _session_options(optimise, arguments),
            providers=names,
            provider_options=options,
            enable_fallback=0,
        )

    def reference(self, model: onnx.ModelProto) -> ort_py.InferenceSession:
        """A session of the plain CPU provider, unoptimised: what results are compared with."""
        return ort_py.InferenceSession(
            model.SerializeToString(), _session_options(False, None), providers=[CPU_ROLE], provider_options=[{}]
        )

    def forget(self) -> None:
        """Take back what `record` registered, so that nothing else of this process sees the provider."""
        self._registration.close()

    @contextmanager
    def declined_runs(self) -> Iterator[list[str]]:
        """Collect the reasons why regions of the provider leave runs to other kernels, as they occur."""
        hooks, observer = default_catalog().hooks, _Observer(self.name)
        name = f"ort_py_kit {id(observer)}"
        hooks.register(observer, name)
        try:
            yield observer.reasons
        finally:
            hooks.unregister(name)

    def operators_run(self, session: ort_py.InferenceSession) -> list[tuple[str, str]]:
        """(domain, operator) of each node that runs on it."""
        return [(node.domain, node.op_type) for node in session.placement.nodes if node.provider == self.name]

    def _register(self) -> None:
        catalog = default_catalog()
        module = importlib.import_module(self.plugin)
        contribute = getattr(module, "ort_py_providers", None)
        factories = list(contribute()) if contribute is not None else []
        fitting = [factory for factory in factories if factory.name == self.name]
        if not fitting:
            raise PluginError(
                f"{self.plugin} does not register '{self.name}'.",
                why=f"Its hook ort_py_providers gives: {', '.join(one.name for one in factories) or 'nothing'}.",
                fix="Return a factory of that name from a function ort_py_providers that is marked @hookimpl.",
            )
        ours = self.plugin not in catalog.hooks.plugins()
        registered = guarded(lambda: catalog.hooks.register(module, self.plugin))
        if isinstance(registered, Raised):
            raise registered.error
        if ours and registered == self.plugin:  # not where the module serves an entry point too
            self._registration.callback(catalog.hooks.unregister, registered)
        catalog.register_provider(fitting[0])
        self._registration.callback(catalog.unregister_provider, self.name)


class _Observer:
    """Collects the runs that regions of one provider decline."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.reasons: list[str] = []

    @hookimpl
    def ort_py_run_declined(self, event: DeclinedEvent) -> None:
        if event.provider == self._provider:
            self.reasons.append(event.reason)


def forget_providers() -> None:
    """Forget the providers that tests registered and the devices that were lost, and look again at what is
    installed."""
    default_catalog().reset()
    process_lost_devices().forget()


def _session_options(optimise: bool, arguments: Mapping[str, Any] | None) -> ort_py.SessionOptions:
    options = ort_py.SessionOptions()
    options.pin_cpu = True  # another provider in the CPU role would hide the nodes that the one under test leaves over
    options.cost_model = "always"
    options.cache_dir = "off"
    if not optimise:
        options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, value in (arguments or {}).items():
        setattr(options, name, value)
    return options
