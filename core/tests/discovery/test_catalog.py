"""The catalogue loads and probes on demand, once, and keeps what went wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import ModuleType

import pytest

from ort_py.contracts import ApiRange, Availability
from ort_py.devices import DeviceClass
from ort_py.discovery import ProviderCatalog, ProviderRecord, RecordState, default_catalog
from ort_py.errors import InvalidArgument, PluginError

from .fakes import FakeFactory, FakeInstallation, plugin_module


def _states(records: list[ProviderRecord]) -> dict[str, RecordState]:
    return {record.address: record.state for record in records}


def _record(catalog: ProviderCatalog, name: str) -> ProviderRecord:
    record = catalog.record(name)
    assert record is not None
    return record


def test_installed_loads_nothing(installation: FakeInstallation) -> None:
    """Metadata only: no import, no probe, no thread."""
    factory = FakeFactory("B")
    installation.add(factory)
    installation.add(None, "A")
    threads = threading.active_count()
    records = installation.catalog().installed()
    assert [record.name for record in records] == ["A", "B"]
    assert {record.state for record in records} == {RecordState.INSTALLED}
    assert factory.log == []
    assert installation.hooks.plugins() == []
    assert threading.active_count() == threads


def test_records_are_ranked_and_one_broken_spoils_nothing(installation: FakeInstallation) -> None:
    """Every provider has a record, the broken ones too."""
    installation.add_cpu()
    installation.add(None, "Broken")
    installation.add(FakeFactory("Gpu", device_class=DeviceClass.GPU))
    installation.add(FakeFactory("NoDevice", available=Availability(False, "none"), device_class=DeviceClass.NPU))
    installation.add(FakeFactory("TooNew", api_range=ApiRange(7, 9)))
    records = installation.catalog().records()
    assert [(record.name, record.state.value) for record in records] == [
        ("NoDevice", "unavailable"),
        ("Gpu", "available"),
        ("Broken", "broken"),
        ("TooNew", "incompatible"),
        ("CPUExecutionProvider", "available"),
    ]


def test_loaded_and_probed_once(installation: FakeInstallation) -> None:
    """Answers are kept for the process."""
    factory = FakeFactory("A")
    installation.add(factory)
    catalog = installation.catalog()
    assert catalog.records() == catalog.records()
    assert _record(catalog, "A").usable
    assert factory.log == ["probe A"]


def test_record_loads_only_what_is_asked(installation: FakeInstallation) -> None:
    """Asking for one provider leaves the others alone."""
    other = FakeFactory("B")
    installation.add(FakeFactory("A"))
    installation.add(other)
    catalog = installation.catalog()
    assert _record(catalog, "A").usable
    assert other.log == []
    assert catalog.record("C") is None
    assert catalog.record("pkg-x:A") is None


def test_conflict(installation: FakeInstallation) -> None:
    """By the bare name both are in conflict and not loaded; by address each one can be used."""
    first, second = FakeFactory("Dup"), FakeFactory("Dup")
    installation.add(first, distribution="pkg-one")
    installation.add(second, distribution="pkg-two")
    catalog = installation.catalog()
    assert _states(catalog.records()) == {"pkg-one:Dup": RecordState.CONFLICT, "pkg-two:Dup": RecordState.CONFLICT}
    assert "pkg-one 1.0 and pkg-two 1.0" in _record(catalog, "Dup").reason
    assert first.log == second.log == []
    addressed = _record(catalog, "Pkg_Two:Dup")
    assert addressed.usable
    assert addressed.factory is second
    assert first.log == []
    assert _states(catalog.records())["pkg-two:Dup"] is RecordState.CONFLICT


def test_conflict_inside_one_distribution(installation: FakeInstallation) -> None:
    """Two entry points of one name in one distribution cannot even be distinguished by address."""
    installation.add(FakeFactory("Dup"), distribution="pkg")
    installation.add(FakeFactory("Dup"), distribution="pkg")
    assert _record(installation.catalog(), "pkg:Dup").state is RecordState.CONFLICT


def test_imposter_does_not_disable_ours(installation: FakeInstallation) -> None:
    """The CPU provider stays usable where another package claims its name; that remark is in the record."""
    installation.add(None, "CPUExecutionProvider", distribution="aaa-imposter")
    installation.add_cpu()
    record = _record(installation.catalog(), "CPUExecutionProvider")
    assert record.usable
    assert record.distribution == "ort-py-cpu"
    assert "aaa-imposter 1.0 claims the same name" in record.reason


def test_blocking_is_read_anew(installation: FakeInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocked providers are not loaded; lifting the block needs no reset."""
    factory = FakeFactory("A")
    installation.add(factory)
    catalog = installation.catalog()
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "A")
    assert _record(catalog, "A").state is RecordState.BLOCKED
    assert _states(catalog.records()) == {"pkg-a:A": RecordState.BLOCKED}
    assert factory.log == []
    monkeypatch.delenv("ORT_PY_BLOCK_PROVIDERS")
    assert _record(catalog, "A").usable


def test_all_blocked_of_one_name(installation: FakeInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every distribution of a name is blocked, the answer is blocked."""
    installation.add(FakeFactory("Dup"), distribution="pkg-one")
    installation.add(FakeFactory("Dup"), distribution="pkg-two")
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "pkg-one")
    catalog = installation.catalog()
    assert _record(catalog, "Dup").distribution == "pkg-two"
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "Dup")
    assert _record(catalog, "Dup").state is RecordState.BLOCKED


def test_plugin_that_breaks_later(installation: FakeInstallation) -> None:
    """A failure in another hook of its plug-in makes a provider broken from then on."""

    def ort_py_kernels() -> None:
        raise RuntimeError("kernels")

    installation.add(plugin_module(FakeFactory("A"), ort_py_kernels=ort_py_kernels), "A")
    catalog = installation.catalog()
    assert _record(catalog, "A").usable
    assert catalog.hooks.contributions("ort_py_kernels") == []
    record = _record(catalog, "A")
    assert record.state is RecordState.BROKEN
    assert "broke in the hook 'ort_py_kernels': RuntimeError: kernels" in record.reason


def test_plugin_that_asks_while_it_is_loaded(installation: FakeInstallation) -> None:
    """A plug-in may list providers in its hook; it sees itself as installed and nothing recurses."""
    seen: list[RecordState] = []

    def ort_py_providers() -> Iterator[FakeFactory]:
        seen.extend(record.state for record in catalog.records())
        yield FakeFactory("A")

    installation.add(plugin_module(ort_py_providers=ort_py_providers), "A")
    catalog = installation.catalog()
    assert _record(catalog, "A").usable
    assert seen == [RecordState.INSTALLED]


def test_threads_load_once(installation: FakeInstallation) -> None:
    """Many threads asking at once get the same record."""
    factory = FakeFactory("A")
    installation.add(factory)
    catalog = installation.catalog()
    found: list[ProviderRecord] = []
    threads = [threading.Thread(target=lambda: found.append(_record(catalog, "A"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(record) for record in found}) == 1
    assert factory.log == ["probe A"]


def test_register_and_reset(installation: FakeInstallation) -> None:
    """A registered provider is like an installed one until the catalogue is reset."""
    factory = FakeFactory("Test", device_class=DeviceClass.GPU)
    catalog = installation.catalog()
    record = catalog.register_provider(factory)
    assert (record.state, record.distribution) == (RecordState.INSTALLED, "")
    assert [found.name for found in catalog.installed()] == ["Test"]
    assert factory.log == []
    assert _record(catalog, "Test").usable
    assert catalog.records()[0].factory is factory
    catalog.reset()
    assert catalog.record("Test") is None


def test_unregister(installation: FakeInstallation) -> None:
    """One registered provider goes, and its name is free; others, and installed ones, stay."""
    installation.add(FakeFactory("A"))
    catalog = installation.catalog()
    for name in ("Test", "Other"):
        catalog.register_provider(FakeFactory(name))
    for name in ("Test", "A", "Nobodys"):
        catalog.unregister_provider(name)
    assert [found.name for found in catalog.installed()] == ["A", "Other"]
    catalog.register_provider(FakeFactory("Test"))
    assert _record(catalog, "Test").usable


def test_registered_provider_can_be_blocked(installation: FakeInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = installation.catalog()
    catalog.register_provider(FakeFactory("Test"))
    monkeypatch.setenv("ORT_PY_ALLOW_PROVIDERS", "Other")
    assert _record(catalog, "Test").state is RecordState.BLOCKED


def test_registered_provider_may_be_incompatible(installation: FakeInstallation) -> None:
    """Its record says so, as that of an installed one does."""
    catalog = installation.catalog()
    catalog.register_provider(FakeFactory("Test", api_range=ApiRange(5, 6)))
    assert _record(catalog, "Test").state is RecordState.INCOMPATIBLE


def test_register_refuses_a_taken_name(installation: FakeInstallation) -> None:
    installation.add(FakeFactory("A"))
    catalog = installation.catalog()
    with pytest.raises(InvalidArgument, match="A provider called 'A' already exists") as caught:
        catalog.register_provider(FakeFactory("A"))
    assert "distribution pkg-a 1.0" in str(caught.value)


def test_register_refuses_what_is_no_factory(installation: FakeInstallation) -> None:
    with pytest.raises(InvalidArgument, match="is not a ProviderFactory"):
        installation.catalog().register_provider(FakeFactory)  # type: ignore[arg-type]  # the mistake under test


def test_register_shows_the_factory_s_own_exception(installation: FakeInstallation) -> None:
    """The caller sees at once what is wrong with the factory."""
    error = RuntimeError("no class")
    with pytest.raises(PluginError, match="RuntimeError: no class") as caught:
        installation.catalog().register_provider(FakeFactory("Test", device_class=error))
    assert caught.value.__cause__ is error


def test_reset_looks_again(installation: FakeInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a repair, a reset is enough; the plug-in is registered again."""
    entry = installation.add(None, "A")
    catalog = installation.catalog()
    assert _record(catalog, "A").state is RecordState.BROKEN
    monkeypatch.setitem(__import__("sys").modules, entry.value, plugin_module(FakeFactory("A")))
    catalog.reset()
    assert _record(catalog, "A").usable
    catalog.reset()
    assert _record(catalog, "A").usable


def test_failures_are_forgotten_by_reset(installation: FakeInstallation) -> None:
    """A plug-in that broke in a hook gets a new chance too."""
    answers: list[BaseException] = [RuntimeError("first time")]

    def ort_py_kernels() -> None:
        if answers:
            raise answers.pop()

    installation.add(plugin_module(FakeFactory("A"), ort_py_kernels=ort_py_kernels), "A")
    catalog = installation.catalog()
    catalog.records()
    catalog.hooks.contributions("ort_py_kernels")
    assert _record(catalog, "A").state is RecordState.BROKEN
    catalog.reset()
    assert _record(catalog, "A").usable


def test_problems_of_the_scan(installation: FakeInstallation) -> None:
    """Distributions that could not be read are known by name."""
    installation.problems = ("entry points of pkg-x cannot be parsed",)
    assert installation.catalog().problems == installation.problems


def test_shared_module_keeps_one_registration(installation: FakeInstallation) -> None:
    """Two providers of one plug-in both work, whichever is loaded first."""
    module: ModuleType = plugin_module(FakeFactory("A"), FakeFactory("B"))
    installation.add(module, "A", "pkg")
    installation.add(module, "B", "pkg")
    catalog = installation.catalog()
    assert _record(catalog, "B").usable
    assert _record(catalog, "A").usable


def test_one_catalogue_for_the_process() -> None:
    """The process's catalogue is always the same."""
    assert default_catalog() is default_catalog()
