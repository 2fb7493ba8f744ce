"""Malformed plug-ins are refused with the hook's name and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pluggy
import pytest

from ort_py.errors import PluginError
from ort_py.hooks import hookimpl
from ort_py.hooks.validation import HOOK_NAMES, validate_plugin


def _plugin(**functions: Callable[..., Any]) -> ModuleType:
    module = ModuleType("fake_plugin")
    for name, function in functions.items():
        setattr(module, name, function)
    return module


@hookimpl
def _nothing() -> list[Any]:
    return []


def _refusal(plugin: object) -> PluginError:
    with pytest.raises(PluginError) as caught:
        validate_plugin(plugin, "fake")
    return caught.value


def test_hooks_are_known_by_name() -> None:
    """The list of hooks comes from the specifications."""
    assert "ort_py_providers" in HOOK_NAMES
    assert "ort_py_run_finished" in HOOK_NAMES


def test_a_good_plugin_passes() -> None:
    """An implementation may leave out arguments."""
    validate_plugin(_plugin(ort_py_kernels=_nothing, ort_py_run_finished=_nothing), "fake")


def test_misspelt_hooks_are_all_named() -> None:
    """Each unknown hook is named with the one that was meant; pluggy's own exception is the cause."""
    error = _refusal(_plugin(ort_py_provider=_nothing, ort_py_kernals=_nothing, ort_py_transforms=_nothing))
    assert "'ort_py_kernals', 'ort_py_provider'" in str(error)
    assert "Did you mean 'ort_py_providers'?" in str(error)
    assert "Did you mean 'ort_py_kernels'?" in str(error)
    assert isinstance(error.__cause__, pluggy.PluginValidationError)


def test_optional_unknown_hook_passes() -> None:
    """A plug-in may mark a hook of a later core as optional."""

    @hookimpl(optionalhook=True)
    def later() -> None:
        return None

    validate_plugin(_plugin(ort_py_of_tomorrow=later, ort_py_kernels=_nothing), "fake")


def test_unknown_argument() -> None:
    """An argument its hook does not have is named."""

    @hookimpl
    def wrong(wrong_argument: int) -> None:
        return None

    error = _refusal(_plugin(ort_py_session_created=wrong))
    assert "wrong_argument" in str(error)
    assert "ort_py_session_created" in str(error)


def test_forgotten_mark() -> None:
    """A function named like a hook without @hookimpl is not an implementation, although it was probably meant to be
    one.
    """
    error = _refusal(_plugin(ort_py_providers=lambda: None, ort_py_kernels=_nothing))
    assert "'ort_py_providers' without marking it" in str(error)
    assert "@hookimpl" in error.fix


def test_wrapper() -> None:
    """Hook wrappers would wrap other plug-ins."""

    @hookimpl(wrapper=True)
    def wrap() -> Iterator[None]:
        return (yield)

    assert "hook wrapper" in str(_refusal(_plugin(ort_py_kernels=wrap)))


def test_nothing_implemented() -> None:
    """A plug-in without a hook is a mistake; the message lists the hooks."""
    error = _refusal(_plugin())
    assert "implements no hook" in str(error)
    assert "ort_py_providers" in error.fix


def test_hostile_object() -> None:
    """An object that raises when it is looked at is refused like any other."""

    class Hostile:
        def __dir__(self) -> list[str]:
            raise RuntimeError("do not look")

    error = _refusal(Hostile())
    assert "do not look" in str(error)
