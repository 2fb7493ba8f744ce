"""The providers that a session gets for a request, and the treatment of the others."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest

from ort_py.contracts import ApiRange, Availability, OptionSpec
from ort_py.devices import DeviceClass
from ort_py.discovery import CPU_ROLE, FallbackRecord, Origin, Selection, select_providers
from ort_py.errors import (
    InvalidArgument,
    OptionError,
    PluginError,
    ProviderFallbackWarning,
    ProviderNotAvailableError,
    ProviderNotFoundError,
)

from .fakes import FakeFactory, FakeInstallation

NO_DEVICE = Availability(False, "no GPU found", "plug one in")
DRIVER_ERROR = RuntimeError("driver says no")


def _names(selection: Selection) -> list[str]:
    return [one.record.name for one in selection.selected]


@pytest.fixture
def zoo(installation: FakeInstallation) -> FakeInstallation:
    """A machine with the CPU provider, a stand-in for it, a GPU provider, and one of each kind of trouble."""
    installation.add_cpu()
    installation.add(FakeFactory("FastCpuExecutionProvider", rank=5, stands_in_for=CPU_ROLE))
    installation.add(
        FakeFactory("GpuExecutionProvider", device_class=DeviceClass.GPU, options=[OptionSpec("device_id", int, 0)])
    )
    installation.add(FakeFactory("AbsentExecutionProvider", available=NO_DEVICE, device_class=DeviceClass.GPU))
    installation.add(FakeFactory("BrokenExecutionProvider", available=DRIVER_ERROR))
    installation.add(FakeFactory("TooNewExecutionProvider", api_range=ApiRange(8, 9)))
    installation.add(FakeFactory("DupExecutionProvider"), distribution="pkg-one")
    installation.add(FakeFactory("DupExecutionProvider"), distribution="pkg-two")
    return installation


def _select(installation: FakeInstallation, *providers: Any, **settings: Any) -> Selection:
    return select_providers(list(providers) or None, catalog=installation.catalog(), **settings)


# -- explicit lists ----------------------------------------------------------------------------------------------


def test_order_is_kept(zoo: FakeInstallation) -> None:
    """An explicit list is not ranked; CPU may even come first."""
    selection = _select(zoo, CPU_ROLE, "GpuExecutionProvider", pin_plain_cpu=True)
    assert _names(selection) == [CPU_ROLE, "GpuExecutionProvider"]
    assert selection.names == [CPU_ROLE, "GpuExecutionProvider"]
    assert selection.fallbacks == ()
    assert not selection.automatic


def test_options_are_checked_and_complete(zoo: FakeInstallation) -> None:
    """The provider gets every option it declares; one it lacks but onnxruntime knows is reported."""
    selection = _select(zoo, ("GpuExecutionProvider", {"device_id": "2", "use_tf32": 1}), CPU_ROLE)
    gpu = selection.selected[0]
    assert gpu.options == {"device_id": 2}
    assert list(gpu.ignored_options) == ["use_tf32"]
    with pytest.raises(OptionError, match="device_ids"):
        _select(zoo, ("GpuExecutionProvider", {"device_ids": 2}))


def test_cpu_is_a_role(zoo: FakeInstallation) -> None:
    """Providers that stand in for CPU come before it; the names are as asked."""
    selection = _select(zoo, CPU_ROLE)
    assert _names(selection) == ["FastCpuExecutionProvider", CPU_ROLE]
    assert [one.origin for one in selection.selected] == [Origin.STAND_IN, Origin.NAMED]
    assert [one.requested_as for one in selection.selected] == [CPU_ROLE, CPU_ROLE]
    assert selection.names == [CPU_ROLE]


def test_plain_cpu_can_be_pinned(zoo: FakeInstallation) -> None:
    """Nothing stands in then, in explicit and automatic choices."""
    assert _names(_select(zoo, CPU_ROLE, pin_plain_cpu=True)) == [CPU_ROLE]
    assert "FastCpuExecutionProvider" not in _names(_select(zoo, pin_plain_cpu=True))


@pytest.mark.parametrize("providers", [(), (CPU_ROLE,), ("GpuExecutionProvider",)], ids=["none", "CPU", "GPU"])
def test_a_stand_in_that_lacks_something_is_told(
    zoo: FakeInstallation, providers: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """The CPU is there, so what is missing can be had: on record, and logged with the fix, once a process."""
    lacking = Availability(False, "its library is missing", "pip install the-library")
    zoo.add(FakeFactory("LackingExecutionProvider", available=lacking, stands_in_for=CPU_ROLE))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            selection = _select(zoo, *providers)
            assert FallbackRecord(
                "selection", "LackingExecutionProvider", "it is unavailable: its library is missing"
            ) in (selection.fallbacks)
    (line,) = [record.message for record in caplog.records if "LackingExecutionProvider" in record.message]
    assert line.endswith("is not used: it is unavailable: its library is missing. pip install the-library")


@pytest.mark.parametrize("strict", ["", "provider", "node"])
@pytest.mark.parametrize("providers", [(), (CPU_ROLE,)], ids=["none", "CPU"])
def test_who_pins_plain_cpu_is_not_told_of_stand_ins(
    installation: FakeInstallation, providers: tuple[str, ...], strict: str
) -> None:
    """A stand-in that lacks something does not make the session an error, because it was not requested."""
    installation.add_cpu()
    lacking = Availability(False, "its library is missing")
    installation.add(FakeFactory("LackingExecutionProvider", available=lacking, stands_in_for=CPU_ROLE))
    assert _select(installation, *providers, pin_plain_cpu=True, strict=strict).fallbacks == ()
    assert _names(_select(installation, *providers, strict=strict)) == [CPU_ROLE]


def test_one_that_is_used_by_name_only(zoo: FakeInstallation) -> None:
    """Left to ort-py it is passed over, also as a stand-in; asked for it has its place like any other."""
    name = "OracleExecutionProvider"
    zoo.add(FakeFactory(name, rank=99, automatic=False, stands_in_for=CPU_ROLE))
    automatic = _select(zoo)
    assert name not in _names(automatic)
    assert name in [record.name for record in automatic.passed_over]
    assert automatic.fallbacks == _select(zoo).fallbacks
    assert name not in _names(_select(zoo, CPU_ROLE))
    assert _names(_select(zoo, name))[0] == name


def test_a_stand_in_named_itself_has_its_own_place(zoo: FakeInstallation) -> None:
    """It is not put before CPU a second time, wherever it stands."""
    assert _names(_select(zoo, CPU_ROLE, "FastCpuExecutionProvider")) == [CPU_ROLE, "FastCpuExecutionProvider"]
    selection = _select(zoo, "FastCpuExecutionProvider", CPU_ROLE)
    assert _names(selection) == ["FastCpuExecutionProvider", CPU_ROLE]
    assert selection.names == ["FastCpuExecutionProvider", CPU_ROLE]


def test_a_stand_in_serves_without_plain_cpu(installation: FakeInstallation) -> None:
    """The role is filled, and that the completing provider is missing is said."""
    installation.add(FakeFactory("FastCpuExecutionProvider", stands_in_for=CPU_ROLE))
    with pytest.warns(ProviderFallbackWarning, match="CPUExecutionProvider is not used: it is not installed"):
        selection = _select(installation, CPU_ROLE)
    assert _names(selection) == ["FastCpuExecutionProvider"]
    assert selection.names == [CPU_ROLE]
    assert selection.fallbacks[0].replacement == "FastCpuExecutionProvider"


def test_cpu_completes_a_list_without_it(zoo: FakeInstallation) -> None:
    """The rest of the nodes must run somewhere. The CPU provider was not requested, so the names do not include it."""
    selection = _select(zoo, "GpuExecutionProvider")
    assert _names(selection) == ["GpuExecutionProvider", "FastCpuExecutionProvider", CPU_ROLE]
    assert [one.origin for one in selection.selected][1:] == [Origin.COMPLETION, Origin.COMPLETION]
    assert selection.names == ["GpuExecutionProvider"]
    assert _names(_select(zoo, "GpuExecutionProvider", pin_plain_cpu=True)) == ["GpuExecutionProvider", CPU_ROLE]


def test_address_reaches_one_of_two(zoo: FakeInstallation) -> None:
    """``distribution:Name`` resolves a conflict and is the name as asked."""
    selection = _select(zoo, "pkg-two:DupExecutionProvider", CPU_ROLE)
    assert selection.selected[0].record.distribution == "pkg-two"
    assert selection.names == ["pkg-two:DupExecutionProvider", CPU_ROLE]


def test_two_providers_of_one_name(zoo: FakeInstallation) -> None:
    """A session tells providers apart by name, so it takes one of them."""
    with pytest.raises(InvalidArgument, match="Two providers called DupExecutionProvider") as caught:
        _select(zoo, "pkg-one:DupExecutionProvider", "pkg-two:DupExecutionProvider")
    assert "distribution pkg-one 1.0" in str(caught.value)
    assert "distribution pkg-two 1.0" in str(caught.value)


def test_one_provider_under_two_spellings(zoo: FakeInstallation) -> None:
    """Name and address of the same provider are a duplicate."""
    with pytest.warns(UserWarning, match="GpuExecutionProvider is named twice"):
        selection = _select(zoo, "GpuExecutionProvider", "pkg-gpuexecutionprovider:GpuExecutionProvider", CPU_ROLE)
    assert _names(selection).count("GpuExecutionProvider") == 1


# -- what is skipped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("CUDAExecutionProvider", "it is not installed"),
        ("ROCMExecutionProvider", "it is not installed"),
        ("AbsentExecutionProvider", "it is unavailable: no GPU found"),
    ],
)
def test_skipped_for_a_later_one(zoo: FakeInstallation, name: str, reason: str) -> None:
    """One warning at the caller's line and one record, both with the reason and the replacement."""
    with pytest.warns(ProviderFallbackWarning) as caught:
        selection = _select(zoo, name, "GpuExecutionProvider", CPU_ROLE)
    assert selection.names == ["GpuExecutionProvider", CPU_ROLE]
    assert selection.fallbacks == (FallbackRecord("selection", name, reason, replacement="GpuExecutionProvider"),)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert text.startswith(f"The provider {name} is not used: {reason}. GpuExecutionProvider is used instead.")


def test_the_warning_says_what_to_do(zoo: FakeInstallation) -> None:
    """The distribution to install, or the provider's own advice."""
    with pytest.warns(ProviderFallbackWarning, match="What to do: pip install ort-py-cuda"):
        _select(zoo, "CUDAExecutionProvider", CPU_ROLE)
    with pytest.warns(ProviderFallbackWarning, match="What to do: plug one in"):
        _select(zoo, "AbsentExecutionProvider", CPU_ROLE)


def test_skipped_also_when_it_comes_last(zoo: FakeInstallation) -> None:
    """Another usable provider asked for is enough, as applications that list CPU first expect."""
    with pytest.warns(ProviderFallbackWarning):
        selection = _select(zoo, CPU_ROLE, "CUDAExecutionProvider")
    assert selection.names == [CPU_ROLE]


def test_blocked_is_skipped(zoo: FakeInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator may block what an application names; the reason names the variable."""
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "GpuExecutionProvider")
    with pytest.warns(ProviderFallbackWarning, match="blocked by the environment variable ORT_PY_BLOCK_PROVIDERS"):
        assert _select(zoo, "GpuExecutionProvider", CPU_ROLE).names == [CPU_ROLE]


def test_nothing_usable_left_lists_every_reason(zoo: FakeInstallation) -> None:
    """A completing CPU provider does not satisfy a list that does not name it."""
    with pytest.raises(ProviderNotAvailableError) as caught:
        _select(zoo, "CUDAExecutionProvider", "AbsentExecutionProvider")
    assert caught.value.why == (
        "CUDAExecutionProvider: it is not installed",
        "AbsentExecutionProvider: it is unavailable: no GPU found",
    )
    assert caught.value.fix == (
        "pip install ort-py-cuda; or plug one in; or add 'CPUExecutionProvider' to the providers"
    )


def test_provider_without_a_distribution_of_ours(zoo: FakeInstallation) -> None:
    """onnxruntime knows it, but it is for browsers: no package provides it, and none is invented."""
    with pytest.raises(ProviderNotAvailableError) as caught:
        _select(zoo, "WebNNExecutionProvider")
    assert "No distribution of ort-py provides it" in caught.value.fix


# -- what raises -----------------------------------------------------------------------------------------------


def test_broken_raises_with_its_own_exception(zoo: FakeInstallation) -> None:
    """Also where others could take over; the text names the distribution."""
    with pytest.raises(PluginError, match="BrokenExecutionProvider is installed, but it is broken") as caught:
        _select(zoo, "BrokenExecutionProvider", CPU_ROLE)
    assert caught.value.__cause__ is DRIVER_ERROR
    assert "its probe() raised RuntimeError: driver says no" in str(caught.value)
    assert "distribution pkg-brokenexecutionprovider 1.0" in str(caught.value)


def test_incompatible_raises_with_both_ranges(zoo: FakeInstallation) -> None:
    """And says which side to upgrade."""
    with pytest.raises(PluginError, match="contract version 8 to 9, and this core supports 1") as caught:
        _select(zoo, "TooNewExecutionProvider", CPU_ROLE)
    assert caught.value.fix == "pip install --upgrade ort-py-core"


def test_conflict_raises_with_both_names(zoo: FakeInstallation) -> None:
    """And how to name one of them."""
    with pytest.raises(ProviderNotAvailableError, match=r"pkg-one 1\.0 and pkg-two 1\.0") as caught:
        _select(zoo, "DupExecutionProvider", CPU_ROLE)
    assert "Ask for 'pkg-one:DupExecutionProvider'" in caught.value.fix


def test_unknown_name_raises_with_a_suggestion(zoo: FakeInstallation) -> None:
    """The name is a mistake, not a missing package, whatever else is in the list."""
    with pytest.raises(ProviderNotFoundError, match="no provider called 'GpuExecutionProvidr'") as caught:
        _select(zoo, "GpuExecutionProvidr", CPU_ROLE)
    assert "Did you mean 'GpuExecutionProvider'" in caught.value.fix
    assert "Installed here: AbsentExecutionProvider," in caught.value.fix


def test_unknown_address_raises_with_addresses(zoo: FakeInstallation) -> None:
    """A misspelt distribution is found as well."""
    with pytest.raises(ProviderNotFoundError) as caught:
        _select(zoo, "pkg-tow:DupExecutionProvider")
    assert "'pkg-two:DupExecutionProvider'" in caught.value.fix


def test_unreadable_distributions_are_mentioned(installation: FakeInstallation) -> None:
    """A name may be unknown because its distribution's metadata is damaged."""
    installation.problems = ("entry points of pkg-x cannot be parsed: ValueError",)
    with pytest.raises(ProviderNotFoundError, match="entry points of pkg-x cannot be parsed"):
        _select(installation, "NobodysExecutionProvider")


def test_only_the_core(installation: FakeInstallation) -> None:
    """Without any provider the error says which package to install, however one asks."""
    for providers in ((), (CPU_ROLE,)):
        with pytest.raises(ProviderNotAvailableError, match="Only the core is installed") as caught:
            _select(installation, *providers)
        assert caught.value.fix == "pip install ort-py-cpu"


def test_options_of_a_skipped_provider_are_not_checked(zoo: FakeInstallation) -> None:
    """The options of a provider that is not installed are unknown."""
    with pytest.warns(ProviderFallbackWarning):
        _select(zoo, ("CUDAExecutionProvider", {"quux": 1}), CPU_ROLE)


# -- strict mode -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error"),
    [("CUDAExecutionProvider", ProviderNotFoundError), ("AbsentExecutionProvider", ProviderNotAvailableError)],
)
@pytest.mark.parametrize("level", ["provider", "node"])
def test_strict_turns_skips_into_errors(
    zoo: FakeInstallation, monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception], level: str
) -> None:
    """By argument or environment; the argument wins."""
    with pytest.raises(error, match=name):
        _select(zoo, name, CPU_ROLE, strict=level)
    monkeypatch.setenv("ORT_PY_STRICT", level)
    with pytest.raises(error, match=name):
        _select(zoo, name, CPU_ROLE)
    with pytest.warns(ProviderFallbackWarning):
        _select(zoo, name, CPU_ROLE, strict="")


def test_strict_node_adds_no_completing_provider(zoo: FakeInstallation) -> None:
    """Nodes the providers asked for do not run are then the session's error."""
    assert _names(_select(zoo, "GpuExecutionProvider", strict="node")) == ["GpuExecutionProvider"]
    assert CPU_ROLE in _names(_select(zoo, "GpuExecutionProvider", strict="provider"))


def test_strict_automatic_raises_for_what_is_faulty(installation: FakeInstallation) -> None:
    """A test machine reports every broken package; a missing device is not a fault."""
    installation.add_cpu()
    installation.add(FakeFactory("AbsentExecutionProvider", available=NO_DEVICE))
    assert _names(_select(installation, strict="provider")) == [CPU_ROLE]
    installation.add(FakeFactory("BrokenExecutionProvider", available=DRIVER_ERROR))
    with pytest.raises(PluginError, match="driver says no"):
        _select(installation, strict="provider")


# -- automatic choice ------------------------------------------------------------------------------------------


def test_automatic_takes_every_usable_one_by_rank(zoo: FakeInstallation, caplog: pytest.LogCaptureFixture) -> None:
    """CPU last, which is a role here too; faulty ones are recorded and logged, those without a device passed over."""
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        selection = _select(zoo)
    assert _names(selection) == ["GpuExecutionProvider", "FastCpuExecutionProvider", CPU_ROLE]
    assert selection.names == ["GpuExecutionProvider", CPU_ROLE]
    assert selection.automatic
    assert [one.origin for one in selection.selected] == [Origin.AUTOMATIC, Origin.STAND_IN, Origin.AUTOMATIC]
    assert {record.provider for record in selection.fallbacks} == {
        "BrokenExecutionProvider",
        "DupExecutionProvider",
        "TooNewExecutionProvider",
    }
    assert "AbsentExecutionProvider" in {record.name for record in selection.passed_over}
    assert "The provider BrokenExecutionProvider (distribution" in caplog.text


def test_the_role_is_named_last(installation: FakeInstallation) -> None:
    """The order also holds where something ranks between CPU and its stand-in."""
    installation.add_cpu()
    installation.add(FakeFactory("FastCpuExecutionProvider", rank=5, stands_in_for=CPU_ROLE))
    installation.add(FakeFactory("OtherExecutionProvider", rank=1))
    selection = _select(installation)
    assert _names(selection) == ["FastCpuExecutionProvider", "OtherExecutionProvider", CPU_ROLE]
    assert selection.names == ["OtherExecutionProvider", CPU_ROLE]


def test_faulty_ones_are_logged_once_a_process(zoo: FakeInstallation, caplog: pytest.LogCaptureFixture) -> None:
    """Every session has the record; the log is not repeated."""
    with caplog.at_level(logging.WARNING):
        first = _select(zoo)
        logged = len(caplog.records)
        second = _select(zoo)
    assert logged == 4  # broken, too new, and both in conflict
    assert len(caplog.records) == logged
    assert first.fallbacks == second.fallbacks


def test_environment_names_providers(zoo: FakeInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ORT_PY_PROVIDERS`` is an explicit list for sessions that ask for nothing."""
    monkeypatch.setenv("ORT_PY_PROVIDERS", f"{CPU_ROLE},GpuExecutionProvider")
    assert _select(zoo).names == [CPU_ROLE, "GpuExecutionProvider"]
    monkeypatch.setenv("ORT_PY_PROVIDERS", "BrokenExecutionProvider")
    with pytest.raises(PluginError):
        _select(zoo)


def test_automatic_with_nothing_usable(installation: FakeInstallation) -> None:
    """All reasons, and the original exception of the first that has one as the cause."""
    installation.add(FakeFactory("AbsentExecutionProvider", available=NO_DEVICE))
    installation.add(FakeFactory("BrokenExecutionProvider", available=DRIVER_ERROR))
    with pytest.raises(ProviderNotAvailableError) as caught:
        _select(installation)
    assert len(caught.value.why) == 2
    assert caught.value.fix.endswith("pip install ort-py-cpu")
    assert caught.value.__cause__ is DRIVER_ERROR


def test_a_broken_stand_in_is_on_record(installation: FakeInstallation, caplog: pytest.LogCaptureFixture) -> None:
    """The record explains why a request for CPU got only the slow provider."""
    installation.add_cpu()
    installation.add(FakeFactory("FastCpuExecutionProvider", available=DRIVER_ERROR, stands_in_for=CPU_ROLE))
    installation.add(None, "UnknownExecutionProvider")
    with caplog.at_level(logging.WARNING):
        selection = _select(installation, CPU_ROLE)
    assert _names(selection) == [CPU_ROLE]
    assert [record.provider for record in selection.fallbacks] == ["FastCpuExecutionProvider"]
    assert "UnknownExecutionProvider" in caplog.text  # it might have filled the role, which cannot be known


# -- compatibility mode ------------------------------------------------------------------------------------------


def test_compat_default_is_cpu(zoo: FakeInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like onnxruntime's, a session without a list runs on CPU only."""
    assert _select(zoo, compat=True).names == [CPU_ROLE]
    monkeypatch.setenv("ORT_PY_COMPAT", "1")
    assert _select(zoo).names == [CPU_ROLE]
    assert _select(zoo, compat=False).automatic


@pytest.mark.parametrize("name", ["NobodysExecutionProvider", "BrokenExecutionProvider", "CUDAExecutionProvider"])
def test_compat_falls_back_to_cpu(zoo: FakeInstallation, name: str) -> None:
    """Every provider that cannot be used is skipped with a warning, also where nothing else is asked for."""
    with pytest.warns(ProviderFallbackWarning, match=name):
        selection = _select(zoo, name, compat=True)
    assert selection.names == [CPU_ROLE]
    assert selection.fallbacks[0].provider == name


def test_compat_without_cpu_still_raises(installation: FakeInstallation) -> None:
    """Leniency cannot run a model on nothing."""
    with pytest.raises(ProviderNotAvailableError):
        _select(installation, "NobodysExecutionProvider", compat=True)


def test_strict_beats_compat(zoo: FakeInstallation) -> None:
    with pytest.raises(ProviderNotFoundError):
        _select(zoo, "CUDAExecutionProvider", CPU_ROLE, compat=True, strict="provider")
