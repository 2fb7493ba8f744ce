"""The provider under test: registered from its module, and taken back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from ort_py.discovery import default_catalog
from ort_py.errors import PluginError
from ort_py.hooks import hookimpl
from ort_py_kit.fake_device import FakeFactory
from ort_py_kit.subject import Subject

MODULE, NAME = "a_plugin_of_a_test", "MineExecutionProvider"


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A plug-in that is importable and not installed."""
    made = ModuleType(MODULE)
    made.ort_py_providers = hookimpl(lambda: [FakeFactory(NAME)])  # type: ignore[attr-defined] # a module of a test
    monkeypatch.setitem(sys.modules, MODULE, made)
    yield made
    default_catalog().hooks.unregister(MODULE)
    default_catalog().reset()


def test_what_it_registered_goes_again() -> None:
    """Provider and plug-in, as if they had never been there; a second subject registers them again."""
    catalog = default_catalog()
    for _ in range(2):
        subject = Subject(NAME, plugin=MODULE)
        assert subject.record().usable
        assert MODULE in catalog.hooks.plugins()
        subject.forget()
        assert catalog.record(NAME) is None
        assert MODULE not in catalog.hooks.plugins()


def test_it_comes_back_when_it_is_asked_for() -> None:
    subject = Subject(NAME, plugin=MODULE)
    first = subject.factory()
    subject.forget()
    subject.forget()
    assert subject.factory() is not first


def test_what_others_registered_stays(module: ModuleType) -> None:
    """Whether provider and plug-in, or the plug-in alone."""
    catalog = default_catalog()
    catalog.hooks.register(module, MODULE)
    subject = Subject(NAME, plugin=MODULE)
    subject.record()
    subject.forget()
    assert catalog.record(NAME) is None
    assert MODULE in catalog.hooks.plugins()
    catalog.register_provider(FakeFactory(NAME))
    subject.record()
    subject.forget()
    assert catalog.record(NAME) is not None


def test_another_name_is_refused() -> None:
    """With the names that the plug-in has; nothing of it stays."""
    with pytest.raises(PluginError, match=f"(?s){MODULE} does not register 'Yours'.*{NAME}"):
        Subject("Yours", plugin=MODULE).record()
    assert MODULE not in default_catalog().hooks.plugins()
