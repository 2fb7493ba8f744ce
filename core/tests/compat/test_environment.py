"""Environment variables that steer sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ort_py
from core.tests.small_models import CPU, RELU, model_bytes, open_model
from ort_py.contracts import ProviderFactory
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

Register = Callable[[ProviderFactory], None]


@pytest.fixture
def fake(register: Register) -> FakeFactory:
    """A usable accelerator."""
    factory = FakeFactory(behaviour=FakeBehaviour(cost_us=-1e9))
    register(factory)
    return factory


def test_every_usable_provider_is_the_default(fake: FakeFactory) -> None:
    """Without names, accelerators come first and CPU last."""
    session = ort_py.InferenceSession(model_bytes(RELU))
    assert session.get_providers() == ["FakeExecutionProvider", *CPU]


def test_providers_variable_replaces_the_default(fake: FakeFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ORT_PY_PROVIDERS`` names the providers of sessions that name none."""
    monkeypatch.setenv("ORT_PY_PROVIDERS", "CPUExecutionProvider")
    assert ort_py.InferenceSession(model_bytes(RELU)).get_providers() == CPU


def test_argument_beats_the_providers_variable(fake: FakeFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that names its providers is not concerned."""
    monkeypatch.setenv("ORT_PY_PROVIDERS", "FakeExecutionProvider")
    assert open_model(RELU).get_providers() == CPU


def test_blocked_provider_is_not_used(fake: FakeFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "FakeExecutionProvider")
    assert ort_py.InferenceSession(model_bytes(RELU)).get_providers() == CPU


def test_compat_variable_means_cpu_only(fake: FakeFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ORT_PY_COMPAT=1`` restores onnxruntime's default, which is CPU alone."""
    monkeypatch.setenv("ORT_PY_COMPAT", "1")
    assert ort_py.InferenceSession(model_bytes(RELU)).get_providers() == CPU


def test_threads_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ORT_PY_NUM_THREADS`` bounds the threads, and is named as the reason."""
    monkeypatch.setenv("ORT_PY_NUM_THREADS", "1")
    threads = open_model(RELU).threads
    assert threads.count == 1
    assert "ORT_PY_NUM_THREADS=1" in threads.reason or "1 processor" in threads.reason


def test_strict_variable_forbids_skipping(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ORT_PY_STRICT=provider`` turns a provider that is not installed into an error."""
    monkeypatch.setenv("ORT_PY_STRICT", "provider")
    with pytest.raises(ort_py.OrtPyError, match="TensorrtExecutionProvider"):
        open_model(RELU, providers=["TensorrtExecutionProvider", *CPU])


def test_without_strict_it_is_skipped_with_a_warning() -> None:
    """A provider that is not installed is skipped, warned about, and in the report."""
    with pytest.warns(ort_py.ProviderFallbackWarning, match="TensorrtExecutionProvider"):
        session = open_model(RELU, providers=["TensorrtExecutionProvider", *CPU])
    (record,) = session.fallback_report
    assert (record.kind, record.provider, record.replacement) == ("selection", "TensorrtExecutionProvider", CPU[0])


def test_option_beats_the_strict_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session may be less strict than its environment."""
    monkeypatch.setenv("ORT_PY_STRICT", "provider")
    options = ort_py.SessionOptions()
    options.strict = ""
    with pytest.warns(ort_py.ProviderFallbackWarning):
        open_model(RELU, options, providers=["TensorrtExecutionProvider", *CPU])


def test_malformed_strict_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_PY_STRICT", "providers")
    with pytest.raises(ort_py.OptionError, match="ORT_PY_STRICT is 'providers'"):
        open_model(RELU)
