"""The plug-in manager asks and tells each plug-in on its own."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from ort_py.errors import PluginError
from ort_py.hooks import KernelContribution, RunEvent, hookimpl
from ort_py.hooks.entry_points import InstalledEntryPoint, Scan
from ort_py.hooks.guard import Raised
from ort_py.hooks.manager import HookManager, PluginFailure, default_hook_manager

EVENT = RunEvent("session", 0.1)


def _plugin(**functions: Callable[..., Any]) -> ModuleType:
    module = ModuleType("fake_plugin")
    for name, function in functions.items():
        setattr(module, name, hookimpl(function))
    return module


def _contributing(*providers: str) -> ModuleType:
    return _plugin(ort_py_kernels=lambda: [KernelContribution(provider, ()) for provider in providers])


@pytest.fixture
def failures() -> list[PluginFailure]:
    """Failures that the manager reports."""
    return []


@pytest.fixture
def hooks(failures: list[PluginFailure]) -> HookManager:
    """A manager without installed plug-ins."""
    return HookManager(failures.append, entry_points=Scan)


def _asked(hooks: HookManager) -> list[tuple[str, str]]:
    return [(name, item.provider) for name, item in hooks.contributions("ort_py_kernels")]


def test_contributions_come_by_name(hooks: HookManager) -> None:
    """Sorted by plug-in, then in each one's own order, however they were registered."""
    hooks.register(_contributing("X"), "zebra")
    hooks.register(_contributing("Y", "A"), "ant")
    assert _asked(hooks) == [("ant", "Y"), ("ant", "A"), ("zebra", "X")]
    assert hooks.plugins() == ["ant", "zebra"]


def test_a_failing_plugin_stops_no_other(hooks: HookManager, failures: list[PluginFailure]) -> None:
    """Its failure is reported once with its own exception; later questions do not reach it."""
    error = SystemExit(7)

    def fail() -> None:
        raise error

    hooks.register(_plugin(ort_py_kernels=fail), "bad")
    hooks.register(_contributing("X"), "good")
    assert _asked(hooks) == [("good", "X")]
    assert _asked(hooks) == [("good", "X")]
    assert [failure.error for failure in failures] == [error]
    assert str(failures[0]) == "Plug-in 'bad' broke in the hook 'ort_py_kernels': SystemExit: 7"
    assert hooks.failures == tuple(failures)
    assert hooks.plugins() == ["good"]


def test_a_generator_that_breaks_half_way_contributes_nothing(
    hooks: HookManager, failures: list[PluginFailure]
) -> None:
    """Generators run inside the guard, to the end."""

    def half() -> Iterator[KernelContribution]:
        yield KernelContribution("X", ())
        raise OSError("libhalf.so")

    hooks.register(_plugin(ort_py_kernels=half), "half")
    assert _asked(hooks) == []
    assert isinstance(failures[0].error, OSError)


def test_items_of_a_wrong_type_are_refused(hooks: HookManager, failures: list[PluginFailure]) -> None:
    """The message names what was returned and what it must be."""
    hooks.register(_plugin(ort_py_kernels=lambda: ["kernel"]), "bad")
    assert _asked(hooks) == []
    assert "Its items must be KernelContribution, not str." in str(failures[0].error)


def test_none_is_nothing(hooks: HookManager, failures: list[PluginFailure]) -> None:
    """An implementation that returns None contributes nothing."""
    hooks.register(_plugin(ort_py_kernels=lambda: None), "none")
    assert _asked(hooks) == []
    assert not failures


def test_kernels_are_asked_once_allocators_each_time(hooks: HookManager) -> None:
    """Kernels do not depend on a session; allocators do."""
    calls: list[str] = []
    hooks.register(
        _plugin(
            ort_py_kernels=lambda: calls.append("kernels"),
            ort_py_allocators=lambda: calls.append("allocators"),
        ),
        "counting",
    )
    for _ in range(2):
        hooks.contributions("ort_py_kernels")
        hooks.contributions("ort_py_allocators")
    assert sorted(calls) == ["allocators", "allocators", "kernels"]


def test_ask_one(hooks: HookManager) -> None:
    """One plug-in is asked alone; the answer is a Raised where it breaks and empty where it has no such hook."""

    def fail() -> None:
        raise ValueError("no")

    hooks.register(_contributing("X"), "good")
    hooks.register(_plugin(ort_py_kernels=fail), "bad")
    assert hooks.ask("good", "ort_py_kernels") == (KernelContribution("X", ()),)
    assert hooks.ask("good", "ort_py_transforms") == ()
    assert isinstance(hooks.ask("bad", "ort_py_kernels"), Raised)
    assert hooks.failure("bad") is not None
    assert hooks.failure("good") is None


def test_modules_that_take_part_in_every_session(hooks: HookManager) -> None:
    """Those that only name providers do not: which are loaded depends on what the process asked for before."""

    def nothing() -> list[object]:
        return []

    def none_either() -> list[object]:
        return []

    contributing, naming = _contributing("X"), _plugin(ort_py_providers=nothing)
    both = _plugin(ort_py_providers=none_either, ort_py_kernels=lambda: [KernelContribution("Y", ())])
    for plugin, name in ((contributing, "contributing"), (naming, "naming"), (both, "both")):
        plugin.__name__ = name
        hooks.register(plugin, name)
    assert hooks.modules() == ["both", "contributing"]


def test_unknown_hook(hooks: HookManager) -> None:
    """Asking for a hook that does not exist lists those that do."""
    with pytest.raises(PluginError, match="There is no hook 'ort_py_kernal'"):
        hooks.contributions("ort_py_kernal")


def test_a_broken_plugin_is_never_registered(hooks: HookManager) -> None:
    """After a refusal nothing of it is left, and the name is free."""
    with pytest.raises(PluginError, match="ort_py_kernles"):
        hooks.register(_plugin(ort_py_kernles=lambda: None), "fake")
    assert hooks.plugins() == []
    assert hooks.register(_contributing("X"), "fake") == "fake"


def test_one_object_for_two_entry_points(hooks: HookManager) -> None:
    """The same plug-in registered again keeps its first name."""
    plugin = _contributing("X")
    assert hooks.register(plugin, "one") == "one"
    assert hooks.register(plugin, "two") == "one"
    assert _asked(hooks) == [("one", "X")]


def test_two_objects_with_one_name(hooks: HookManager) -> None:
    """Names are unique; the message shows both."""
    hooks.register(_contributing("X"), "one")
    with pytest.raises(PluginError, match="Two plug-ins are called 'one'"):
        hooks.register(_contributing("Y"), "one")


def test_unregister(hooks: HookManager) -> None:
    """A removed plug-in is not asked; an unknown name is not an error."""
    hooks.register(_contributing("X"), "one")
    assert _asked(hooks) == [("one", "X")]
    hooks.unregister("one")
    hooks.unregister("never there")
    assert _asked(hooks) == []


def test_observers_hear_and_may_leave_out_the_event(hooks: HookManager) -> None:
    """Each observer is called, also one without arguments."""
    heard: list[Any] = []

    def with_event(event: RunEvent) -> None:
        heard.append(event)

    hooks.register(_plugin(ort_py_run_finished=with_event), "a")
    hooks.register(_plugin(ort_py_run_finished=lambda: heard.append("b")), "b")
    hooks.observe("ort_py_run_finished", EVENT)
    assert heard == [EVENT, "b"]


def test_a_failing_observer_is_logged_once(hooks: HookManager, caplog: pytest.LogCaptureFixture) -> None:
    """It stays registered and is called again, without an effect on others and without filling the log."""
    heard: list[str] = []

    def fail(event: RunEvent) -> None:
        heard.append("bad")
        raise RuntimeError("observer")

    hooks.register(_plugin(ort_py_run_finished=fail), "bad")
    hooks.register(_plugin(ort_py_run_finished=lambda: heard.append("good")), "good")
    with caplog.at_level(logging.WARNING):
        hooks.observe("ort_py_run_finished", EVENT)
        hooks.observe("ort_py_run_finished", EVENT)
    assert heard == ["bad", "good"] * 2
    assert len(caplog.records) == 1
    assert "Plug-in 'bad' raised in the observing hook 'ort_py_run_finished'" in caplog.text
    assert "RuntimeError: observer" in caplog.text


def test_has_observers_follows_registration(hooks: HookManager) -> None:
    """The answer changes as plug-ins come and go."""
    assert not hooks.has_observers("ort_py_run_finished")
    hooks.register(_plugin(ort_py_run_finished=lambda: None), "one")
    assert hooks.has_observers("ort_py_run_finished")
    assert not hooks.has_observers("ort_py_session_created")
    hooks.unregister("one")
    assert not hooks.has_observers("ort_py_run_finished")


def _installed(monkeypatch: pytest.MonkeyPatch, **plugins: ModuleType | None) -> Callable[[], Scan]:
    for name, plugin in plugins.items():
        monkeypatch.setitem(sys.modules, f"ort_py_test_{name}", plugin)
    entries = [InstalledEntryPoint(name, f"pkg-{name}", "1.0", f"ort_py_test_{name}", "g") for name in plugins]
    return lambda: Scan(tuple(entries))


def test_installed_plugins_are_loaded_at_the_first_question(
    monkeypatch: pytest.MonkeyPatch, failures: list[PluginFailure]
) -> None:
    """Plug-ins of entry points load by themselves; one that cannot be imported does not affect others."""
    find = _installed(monkeypatch, broken=None, good=_contributing("X"))  # None in sys.modules: ModuleNotFoundError
    hooks = HookManager(failures.append, find)
    assert _asked(hooks) == [("pkg-good:good", "X")]
    assert [failure.plugin for failure in failures] == ["pkg-broken:broken"]
    assert isinstance(failures[0].error, ModuleNotFoundError)
    assert "broke while being loaded" in str(failures[0])


def test_observing_loads_installed_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in that only observes is heard without anybody asking for contributions."""
    hooks = HookManager(entry_points=_installed(monkeypatch, good=_plugin(ort_py_run_finished=lambda: None)))
    assert hooks.has_observers("ort_py_run_finished")


def test_blocked_plugins_are_not_imported(monkeypatch: pytest.MonkeyPatch, failures: list[PluginFailure]) -> None:
    """Blocking by distribution keeps a plug-in out: not even its import is tried."""
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "pkg-broken")
    hooks = HookManager(failures.append, _installed(monkeypatch, broken=None))
    assert hooks.plugins() == []
    assert not failures


def test_failures_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """Without a callback a broken plug-in is a warning in the log."""

    def fail() -> None:
        raise ValueError("no")

    hooks = HookManager(entry_points=Scan)
    hooks.register(_plugin(ort_py_kernels=fail), "bad")
    hooks.contributions("ort_py_kernels")
    assert "Plug-in 'bad' broke in the hook 'ort_py_kernels': ValueError: no" in caplog.text


def test_threads_see_all_installed_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that asks while another one loads waits for the end of it."""
    started = threading.Event()
    plugin = _plugin(ort_py_run_finished=lambda: None)

    def slow() -> Scan:
        started.set()
        threading.Event().wait(0.05)
        return _installed(monkeypatch, good=plugin)()

    hooks = HookManager(entry_points=slow)
    thread = threading.Thread(target=hooks.plugins)
    thread.start()
    started.wait(10)
    assert hooks.has_observers("ort_py_run_finished")
    thread.join()


def test_one_manager_for_the_process() -> None:
    """The process's manager is always the same."""
    assert default_hook_manager() is default_hook_manager()
