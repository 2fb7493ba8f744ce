"""Contributions of providers and plug-ins to a session, their exceptions, and their release."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.small_models import RELU, model_bytes
from ort_py import EPFail, PluginError
from ort_py.contracts import IAllocator, IExecutionProvider, KernelDef, ProviderFactory, SessionContext
from ort_py.discovery import default_catalog
from ort_py.hooks import AllocatorContribution, KernelContribution, hookimpl
from ort_py_kit.fake_device import FakeFactory, FakeProvider

FAKE, CPU = "FakeExecutionProvider", "CPUExecutionProvider"
X = np.ones((2, 3), np.float32)
Register = Callable[[ProviderFactory], None]


class Allocator(IAllocator):
    """Writes down its closing; cannot trim."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self._name = name
        self._diary = diary

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        return np.empty(tuple(shape), dtype)

    def trim(self) -> int:
        raise RuntimeError("cannot trim")

    def close(self) -> None:
        self._diary.append(f"close {self._name}")


class Factory(FakeFactory):
    """Makes fake providers with some members replaced."""

    def __init__(self, **members: Callable[[], Any]) -> None:
        super().__init__(FAKE)
        self._members = members

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        members = {name: lambda _self, call=call: call() for name, call in self._members.items()}
        provider: IExecutionProvider = type("Provider", (FakeProvider,), members)(self.owner, name=FAKE)
        return provider


def broken() -> Any:
    """A member that raises."""
    raise RuntimeError("no such luck")


def session(options: ort_py.SessionOptions | None = None, **arguments: Any) -> ort_py.InferenceSession:
    """A session with the fake provider in front."""
    options = options or ort_py.SessionOptions()
    options.cost_model = "always"
    return ort_py.InferenceSession(model_bytes(RELU), options, [FAKE, CPU], **arguments)


@pytest.mark.parametrize("member", ["kernel_registry", "allocator", "transforms", "data_transfers"])
def test_a_provider_that_cannot_say_what_it_brings_is_left_out(register: Register, member: str) -> None:
    """Initialisation fallback: the others run the model, and the report says why."""
    register(Factory(**{member: broken}))
    with session() as made:
        np.testing.assert_array_equal(made.run(None, {"x": X})[0], X)
        assert made.get_providers() == [CPU]
        (record,) = made.fallback_report
        assert (record.kind, record.provider, record.replacement) == ("initialisation", FAKE, CPU)
        assert "RuntimeError: no such luck" in record.reason


def test_where_fallback_is_off_it_is_raised(register: Register) -> None:
    """The provider's own exception is the cause."""
    register(Factory(kernel_registry=broken))
    with pytest.raises(PluginError, match=f"{FAKE} failed while the session was created") as caught:
        session(enable_fallback=0)
    assert caught.value.why == ("another provider may not take over",)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_provider_without_streams_is_named(register: Register) -> None:
    """A device that fails while planning says whose it is."""
    register(Factory(create_stream=broken))
    with pytest.raises(EPFail, match=f"{FAKE} could not make a stream") as caught:
        session()
    assert caught.value.location.provider == FAKE
    assert "RuntimeError: no such luck" in str(caught.value)


def test_closing_waits_for_the_device_and_closes_every_allocator_once(register: Register) -> None:
    """The device is done before anything is released; an allocator that a plug-in's replaces is closed too."""
    diary: list[str] = []

    class Plugin:
        """Contributes an allocator."""

        @hookimpl
        def ort_py_allocators(self) -> list[AllocatorContribution]:
            """One for the fake provider."""
            return [AllocatorContribution(FAKE, Allocator("theirs", diary))]

    register(Factory(synchronize=lambda: diary.append("wait"), allocator=lambda: Allocator("own", diary)))
    hooks = default_catalog().hooks
    hooks.register(Plugin(), "allocator-plugin")
    try:
        session().close()
    finally:
        hooks.unregister("allocator-plugin")
    assert diary == ["wait", "close own", "close theirs"]


def test_an_allocator_that_cannot_trim_is_logged(register: Register, caplog: pytest.LogCaptureFixture) -> None:
    """Trimming goes on with the others."""
    register(Factory(allocator=lambda: Allocator("own", [])))
    with session() as made, caplog.at_level(logging.WARNING, "ort_py.session"):
        made.trim()
    assert f"trim() of the allocator of {FAKE} failed: RuntimeError: cannot trim" in caplog.text


@pytest.mark.parametrize(("value", "left_out"), [(None, True), ("0", True), ("1", False)])
def test_plugins_kernels_fill_gaps_unless_told_otherwise(value: str | None, left_out: bool) -> None:
    """A kernel for what the provider has is left out, and the load report says so; the config entry lets it in."""
    kernel = KernelDef("Relu", lambda _ctx: lambda x: x + 41, since=14, implementation="theirs")
    plugin = SimpleNamespace(ort_py_kernels=hookimpl(lambda: [KernelContribution(CPU, [kernel])]))
    options = ort_py.SessionOptions()
    if value is not None:
        options.add_session_config_entry("session.plugin_kernels_override", value)
    hooks = default_catalog().hooks
    hooks.register(plugin, "kernel-plugin")
    try:
        with ort_py.InferenceSession(model_bytes(RELU), options, [CPU]) as made:
            notes = made.load_report.stages[0].notes
            (y,) = made.run(None, {"x": X})
    finally:
        hooks.unregister("kernel-plugin")
    assert any("left out: Relu(14) (theirs) from kernel-plugin" in note for note in notes) is left_out
    np.testing.assert_array_equal(y, X if left_out else X + 41)


def test_options_without_effect_are_in_the_load_report() -> None:
    """The load report names what was set and changes nothing, and nothing that has an effect."""
    options = ort_py.SessionOptions()
    options.use_per_session_threads = False
    options.enable_mem_pattern = False
    options.enable_mem_reuse = False
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry("session.model_cache", "0")
    with ort_py.InferenceSession(model_bytes(RELU), options, [CPU]) as made:
        notes = made.load_report.stages[0].notes
    assert [note for note in notes if note.endswith("has no effect")] == [
        "the session option use_per_session_threads has no effect",
        "the session option session.use_env_allocators has no effect",
    ]


LONG = "g (float[N, 1024] x) => (float[N, 1024] y) { a = Exp(x) b = Neg(a) c = Exp(b) y = Neg(c) }"


@pytest.mark.parametrize("switched_off", ["enable_mem_pattern", "enable_mem_reuse"])
def test_either_option_of_memory_switches_reserved_memory_off(switched_off: str) -> None:
    """A run of a shape that was met before allocates its results again; with both options it has memory reserved."""
    for options, reserved in ((ort_py.SessionOptions(), True), (ort_py.SessionOptions(), False)):
        if not reserved:
            setattr(options, switched_off, False)
        with ort_py.InferenceSession(model_bytes(LONG), options, [CPU]) as made:
            for _ in range(4):
                made.run(None, {"x": np.ones((64, 1024), np.float32)})
            assert (made.memory_report().workspace > 0) is reserved
