"""Loading ends in a record whatever the plug-in does."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from ort_py.contracts import ApiRange
from ort_py.devices import DeviceClass
from ort_py.discovery import RecordState
from ort_py.discovery.loading import load_provider
from ort_py.discovery.records import ProviderRecord
from ort_py.errors import PluginError

from .fakes import FakeFactory, FakeInstallation, plugin_module

NAME = "FakeExecutionProvider"


def _load(installation: FakeInstallation, plugin: FakeFactory | ModuleType | None) -> ProviderRecord:
    return load_provider(installation.add(plugin, NAME), installation.hooks, NAME)


def test_a_good_plugin(installation: FakeInstallation) -> None:
    """The record holds the factory and all it declares; the plug-in is registered under the provider's name."""
    factory = FakeFactory(NAME, device_class=DeviceClass.GPU, rank=7, stands_in_for="CPUExecutionProvider")
    record = _load(installation, factory)
    assert record.factory is factory
    assert (record.state, record.device_class, record.rank) == (RecordState.INSTALLED, DeviceClass.GPU, 7)
    assert (record.vendor, record.stands_in_for) == ("nobody", "CPUExecutionProvider")
    assert installation.hooks.plugins() == [NAME]
    assert factory.log == []


def test_import_error(installation: FakeInstallation) -> None:
    """The reason is the original exception's text; the fix names the missing module."""
    record = _load(installation, None)
    assert record.state is RecordState.BROKEN
    assert record.reason.startswith("importing ort_py_test_plugin_0 raised ModuleNotFoundError: ")
    assert isinstance(record.exception, ModuleNotFoundError)
    assert "Install what provides the module 'ort_py_test_plugin_0'" in record.fix


@pytest.mark.parametrize("error", [OSError("libfoo.so.9: cannot open"), SystemExit(2), BaseException("panic")])
def test_other_errors_at_import(
    installation: FakeInstallation, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """A missing library, an exit and a panic are kept as they are."""
    entry = installation.add(None, NAME)

    def fail(_entry: object) -> Any:
        raise error

    monkeypatch.setattr(type(entry), "load", fail)
    record = load_provider(entry, installation.hooks, NAME)
    assert record.state is RecordState.BROKEN
    assert record.exception is error
    assert f"raised {type(error).__name__}: " in record.reason
    assert f"ORT_PY_BLOCK_PROVIDERS={entry.distribution}" in record.fix


def test_misspelt_hook(installation: FakeInstallation) -> None:
    """The hook is named with the one that was meant, and nothing stays registered."""
    record = _load(installation, plugin_module(ort_py_provider=lambda: None))
    assert record.state is RecordState.BROKEN
    assert "'ort_py_provider', which ort-py does not have" in record.reason
    assert "Did you mean 'ort_py_providers'?" in record.reason
    assert isinstance(record.exception, PluginError)
    assert installation.hooks.plugins() == []


def test_hook_that_raises(installation: FakeInstallation) -> None:
    """The exception of ort_py_providers itself is kept."""

    def ort_py_providers() -> None:
        raise RuntimeError("no factories today")

    record = _load(installation, plugin_module(ort_py_providers=ort_py_providers))
    assert record.state is RecordState.BROKEN
    assert record.reason == "its hook ort_py_providers raised RuntimeError: no factories today"


def test_factory_of_another_name(installation: FakeInstallation) -> None:
    """The entry point's name must be the provider's. The error lists the names that the distribution declares."""
    record = _load(installation, plugin_module(FakeFactory("FakExecutionProvider"), FakeFactory("Other")))
    assert record.state is RecordState.BROKEN
    assert "registers 'FakExecutionProvider', 'Other', none of which is called 'FakeExecutionProvider'" in record.reason
    assert record.fix == "Did you mean 'FakExecutionProvider'?"
    assert installation.hooks.plugins() == []


def test_no_factory(installation: FakeInstallation) -> None:
    """A plug-in without providers does not belong behind a provider's entry point."""
    record = _load(installation, plugin_module(ort_py_kernels=lambda: None))
    assert "registers no provider" in record.reason


def test_no_provider_factory(installation: FakeInstallation) -> None:
    """A class instead of an instance is a common slip."""
    record = _load(installation, plugin_module(ort_py_providers=lambda: [FakeFactory]))
    assert "Its items must be ProviderFactory" in record.reason


@pytest.mark.parametrize(
    ("api_range", "fix"),
    [(ApiRange(99, 120), "pip install --upgrade ort-py-core"), (ApiRange(0, 0), "pip install --upgrade pkg-")],
)
def test_contract_version_does_not_fit(installation: FakeInstallation, api_range: ApiRange, fix: str) -> None:
    """Both ranges are in the reason, the fix says which side to upgrade, and the plug-in is not asked anything else."""
    record = _load(installation, FakeFactory(NAME, api_range=api_range, device_class=RuntimeError("not to be read")))
    assert record.state is RecordState.INCOMPATIBLE
    assert record.reason == f"it is written for contract version {api_range}, and this core supports 1"
    assert record.fix.startswith(fix)
    assert record.factory is None
    assert installation.hooks.plugins() == []


def test_property_that_raises(installation: FakeInstallation) -> None:
    """The factory's declarations are read once, inside the guard."""
    record = _load(installation, FakeFactory(NAME, device_class=RuntimeError("no class")))
    assert record.reason == "describing its provider raised RuntimeError: no class"
    assert record.factory is None


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"rank": "high"}, "default_rank is 'high'. It must be int, not str"),
        ({"device_class": "gpu"}, "device_class is 'gpu'. It must be DeviceClass, not str"),
        ({"options": ["x"]}, "option_schema is 'x'. It must be OptionSpec, not str"),
        ({"stands_in_for": 3}, "stands_in_for is 3. It must be str, not int"),
        ({"api_range": 1}, "api_range is 1. It must be ApiRange, not int"),
    ],
)
def test_declaration_of_a_wrong_type(installation: FakeInstallation, wrong: dict[str, Any], text: str) -> None:
    """Ranking must not meet values it cannot compare; the message names the member."""
    record = _load(installation, FakeFactory(NAME, **wrong))
    assert record.state is RecordState.BROKEN
    assert text in record.reason


def test_one_module_for_two_providers(installation: FakeInstallation) -> None:
    """Two entry points may lead to one plug-in; it is registered once and asked once."""
    module = plugin_module(FakeFactory("A"), FakeFactory("B"))
    first, second = installation.add(module, "A"), installation.add(module, "B")
    records = [load_provider(entry, installation.hooks, entry.name) for entry in (first, second)]
    assert [record.factory.name for record in records if record.factory is not None] == ["A", "B"]
    assert installation.hooks.plugins() == ["A"]


def test_real_module_import_is_tried_once_more_after_failure(installation: FakeInstallation) -> None:
    """A load does not hide a later repair: the record belongs to the catalogue, which can be reset."""
    entry = installation.add(None, NAME)
    assert load_provider(entry, installation.hooks, NAME).state is RecordState.BROKEN
    sys.modules[entry.value] = plugin_module(FakeFactory(NAME))
    assert load_provider(entry, installation.hooks, NAME).factory is not None
