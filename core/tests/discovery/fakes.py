"""Providers without hardware, and catalogues that find them as if they were installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from ort_py.contracts import (
    CORE_API_RANGE,
    ApiRange,
    Availability,
    IExecutionProvider,
    OptionSpec,
    ProviderFactory,
    SessionContext,
)
from ort_py.devices import DeviceClass
from ort_py.discovery import CPU_ROLE, ProviderCatalog
from ort_py.discovery.entry_points import PROVIDER_GROUP
from ort_py.hooks import hookimpl
from ort_py.hooks.entry_points import InstalledEntryPoint, Scan
from ort_py.hooks.manager import HookManager, PluginFailure

USABLE = Availability(True)


class FakeProvider(IExecutionProvider):
    """Remembers what it was created with and whether it was closed."""

    def __init__(self, name: str, options: Mapping[str, Any], log: list[str]) -> None:
        self._name = name
        self.options = dict(options)
        self._log = log

    @property
    def name(self) -> str:
        return self._name

    def close(self) -> None:
        self._log.append(f"close {self._name}")


class FakeFactory(ProviderFactory):
    """A factory whose every answer is an argument; an exception given for one is raised."""

    def __init__(
        self,
        name: str = "FakeExecutionProvider",
        *,
        available: Availability | BaseException | Any = USABLE,
        created: BaseException | Any = None,
        device_class: DeviceClass | Any = DeviceClass.CPU,
        rank: int | Any = 0,
        stands_in_for: str | None = None,
        automatic: bool = True,
        options: Sequence[OptionSpec] = (),
        api_range: ApiRange | Any = CORE_API_RANGE,
        fills_role: Callable[[Mapping[str, Any]], bool] | BaseException | None = None,
        assisting: Mapping[str, Any] | BaseException | None = None,
        log: list[str] | None = None,
    ) -> None:
        self._assisting = assisting
        self._name = name
        self._available = available
        self._created = created
        self._device_class = device_class
        self._rank = rank
        self._stands_in_for = stands_in_for
        self._automatic = automatic
        self._options = options
        self._api_range = api_range
        self._fills_role = fills_role
        self.log: list[str] = [] if log is None else log

    @property
    def name(self) -> str:
        return self._name

    @property
    def vendor(self) -> str:
        return "nobody"

    @property
    def api_range(self) -> ApiRange:
        return self._api_range

    @property
    def device_class(self) -> DeviceClass:
        return _value(self._device_class)  # type: ignore[no-any-return]  # tests pass wrong values on purpose

    @property
    def default_rank(self) -> int:
        return self._rank

    @property
    def stands_in_for(self) -> str | None:
        return self._stands_in_for

    def fills_role(self, options: Mapping[str, Any]) -> bool:
        if isinstance(self._fills_role, BaseException):
            raise self._fills_role
        return super().fills_role(options) if self._fills_role is None else self._fills_role(options)

    @property
    def assisting_options(self) -> Mapping[str, Any] | None:
        return _value(self._assisting)  # type: ignore[no-any-return]  # as above

    @property
    def automatic(self) -> bool:
        return self._automatic

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        return self._options

    def probe(self) -> Availability:
        self.log.append(f"probe {self._name}")
        return _value(self._available)  # type: ignore[no-any-return]  # as above

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        self.log.append(f"create {self._name}")
        made = _value(self._created)
        return FakeProvider(self._name, options, self.log) if made is None else made


def _value(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer() if callable(answer) else answer


def plugin_module(*factories: ProviderFactory, **hooks: Callable[..., Any]) -> ModuleType:
    """A plug-in that contributes these factories, and implements further hooks."""
    module = ModuleType("fake_plugin")

    def ort_py_providers() -> list[ProviderFactory]:
        return list(factories)

    functions: dict[str, Callable[..., Any]] = {
        **({"ort_py_providers": ort_py_providers} if factories else {}),
        **hooks,
    }
    for name, function in functions.items():
        setattr(module, name, hookimpl(function))
    return module


class FakeInstallation:
    """Distributions that are installed as far as a catalogue can tell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.entries: list[InstalledEntryPoint] = []
        self.problems: tuple[str, ...] = ()
        self.failures: list[PluginFailure] = []
        self.hooks = HookManager(self.failures.append, entry_points=Scan)

    def add(
        self, plugin: ProviderFactory | ModuleType | None, name: str = "", distribution: str = "", version: str = "1.0"
    ) -> InstalledEntryPoint:
        """Install a plug-in, or a factory in one; None makes its import fail."""
        if isinstance(plugin, ProviderFactory):
            name = name or plugin.name
            plugin = plugin_module(plugin)
        module = f"ort_py_test_plugin_{len(self.entries)}"
        self._monkeypatch.setitem(sys.modules, module, plugin)
        entry = InstalledEntryPoint(
            name, distribution or f"pkg-{name.lower()}", version, module, PROVIDER_GROUP, "/site-packages"
        )
        self.entries.append(entry)
        return entry

    def add_cpu(self, **answers: Any) -> InstalledEntryPoint:
        """Install a provider that plays ort-py-cpu."""
        return self.add(FakeFactory(CPU_ROLE, **answers), distribution="ort-py-cpu")

    def catalog(self) -> ProviderCatalog:
        """A new catalogue of what is installed."""
        return ProviderCatalog(self.hooks, lambda: Scan(tuple(sorted(self.entries)), self.problems))
