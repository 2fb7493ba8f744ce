"""Providers of a session are created in guards and closed in reverse."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from ort_py.contracts import IExecutionProvider, SessionContext
from ort_py.discovery import FallbackRecord, Origin, ProviderRecord, Selected, create_instances
from ort_py.discovery.loading import describe_factory
from ort_py.errors import (
    InvalidArgument,
    LimitError,
    NoSuchFile,
    OptionError,
    PluginError,
    ProviderFallbackWarning,
    ProviderNotAvailableError,
)

from .fakes import FakeFactory, FakeProvider

CONTEXT = SessionContext(threads=2)


def _selected(factory: FakeFactory, origin: Origin = Origin.NAMED, **options: Any) -> Selected:
    record = describe_factory(ProviderRecord(factory.name, "pkg", "1", "m"), factory)
    return Selected(record, options, factory.name, origin)


def _factories(*answers: Any, log: list[str]) -> list[FakeFactory]:
    return [FakeFactory(name, created=answer, log=log) for name, answer in zip("ABCD", answers, strict=False)]


def test_created_in_order_with_their_options() -> None:
    """Pairs of record and provider; `create` gets the checked options."""
    log: list[str] = []
    first, second = _factories(None, None, log=log)
    instances = create_instances([_selected(first, device_id=3), _selected(second)], CONTEXT)
    assert [(record.name, provider.name) for record, provider in instances] == [("A", "A"), ("B", "B")]
    assert len(instances) == 2
    provider = instances.providers[0]
    assert isinstance(provider, FakeProvider)
    assert provider.options == {"device_id": 3}
    assert instances.fallbacks == ()


def test_closed_once_in_reverse_order_whatever_raises(caplog: pytest.LogCaptureFixture) -> None:
    """An exception of close is logged; the others are closed all the same."""
    log: list[str] = []

    class Rude(FakeProvider):
        def close(self) -> None:
            super().close()
            raise RuntimeError("cannot close")

    factories = _factories(None, lambda: Rude("B", {}, log), None, log=log)
    instances = create_instances([_selected(factory) for factory in factories], CONTEXT)
    log.clear()
    with caplog.at_level(logging.WARNING):
        instances.close()
        instances.close()
    assert log == ["close C", "close B", "close A"]
    assert "close() of B raised RuntimeError: cannot close" in caplog.text


@pytest.mark.parametrize("origin", [Origin.AUTOMATIC, Origin.STAND_IN])
def test_one_nobody_named_is_dropped(origin: Origin, caplog: pytest.LogCaptureFixture) -> None:
    """It leaves a record of the kind initialisation and a log line."""
    failing, cpu = _factories(OSError("libfoo.so"), None, log=[])
    with caplog.at_level(logging.WARNING):
        instances = create_instances([_selected(failing, origin), _selected(cpu)], CONTEXT)
    assert [provider.name for provider in instances.providers] == ["B"]
    reason = "create() raised OSError: libfoo.so"
    assert instances.fallbacks == (FallbackRecord("initialisation", "A", reason, replacement="B"),)
    assert reason in caplog.text


def test_a_named_one_is_dropped_for_a_later_one_with_a_warning() -> None:
    """The user listed another one: that is the fallback asked for."""
    failing, other = _factories(SystemExit(3), None, log=[])
    with pytest.warns(ProviderFallbackWarning, match="The provider A is not used: create.. raised SystemExit: 3. B is"):
        instances = create_instances([_selected(failing), _selected(other)], CONTEXT)
    assert instances.fallbacks[0].replacement == "B"


def test_the_only_named_one_raises_its_cause() -> None:
    """A completing CPU provider was not requested, so it does not replace the provider; created instances are
    closed.
    """
    log: list[str] = []
    error = OSError("libfoo.so.9: cannot open shared object file")
    failing, cpu = _factories(error, None, log=log)
    with pytest.raises(ProviderNotAvailableError, match="A could not be created") as caught:
        create_instances([_selected(failing), _selected(cpu, Origin.COMPLETION)], CONTEXT)
    assert caught.value.__cause__ is error
    assert "OSError: libfoo.so.9: cannot open shared object file" in str(caught.value)
    assert log[-1] == "close B"


def test_the_provider_s_own_fix_is_kept() -> None:
    """An ort-py error of the provider keeps its advice."""
    (failing,) = _factories(NoSuchFile("no library", fix="pip install it"), log=[])
    with pytest.raises(ProviderNotAvailableError) as caught:
        create_instances([_selected(failing)], CONTEXT)
    assert caught.value.fix == "pip install it"


@pytest.mark.parametrize("error", [OptionError("device_id is 99"), LimitError("too large")])
def test_a_users_mistake_never_falls_back(error: Exception) -> None:
    """A wrong option or a limit is raised as it is, also where another provider could take over."""
    failing, other = _factories(error, None, log=[])
    with pytest.raises((InvalidArgument, LimitError)) as caught:
        create_instances([_selected(failing), _selected(other)], CONTEXT)
    assert caught.value is error


@pytest.mark.parametrize("origin", [Origin.AUTOMATIC, Origin.STAND_IN, Origin.NAMED])
def test_strict_mode_drops_nobody(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    failing, other = _factories(RuntimeError("no"), None, log=[])
    selected: Sequence[Selected] = [_selected(failing, origin), _selected(other)]
    with pytest.raises(ProviderNotAvailableError, match="RuntimeError: no"):
        create_instances(selected, CONTEXT, strict="provider")
    monkeypatch.setenv("ORT_PY_STRICT", "node")
    with pytest.raises(ProviderNotAvailableError, match="RuntimeError: no"):
        create_instances(selected, CONTEXT)


def test_a_warning_turned_into_an_error_closes_what_was_created() -> None:
    """Warnings are errors in these tests; nothing stays open then either."""
    log: list[str] = []
    failing, other = _factories(RuntimeError("no"), None, log=log)
    with pytest.raises(ProviderFallbackWarning):
        create_instances([_selected(failing), _selected(other)], CONTEXT)
    assert log[-1] == "close B"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: "provider", "returned 'provider', which is not an IExecutionProvider"),
        (lambda: FakeProvider("Z", {}, []), "returned a provider called 'Z'"),
    ],
)
def test_wrong_results_of_create(made: Any, text: str) -> None:
    """The result must be a provider of the factory's name."""
    (factory,) = _factories(made, log=[])
    with pytest.raises(ProviderNotAvailableError) as caught:
        create_instances([_selected(factory)], CONTEXT)
    assert text in str(caught.value)
    assert isinstance(caught.value.__cause__, PluginError)


def test_nothing_selected() -> None:
    instances = create_instances([], CONTEXT)
    providers: list[IExecutionProvider] = instances.providers
    assert providers == []
