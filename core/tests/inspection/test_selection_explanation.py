"""`ort_py.explain_selection` and `session.explain_selection()`: the same answer before and after."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import ort_py
from core.tests.slow_provider import SLOW, slow_factory
from core.tests.small_models import model_bytes
from ort_py.contracts import ProviderFactory
from ort_py.devices import DeviceClass
from ort_py_kit.fake_device import FakeFactory

CPU, CUDA, FAKE = "CPUExecutionProvider", "CUDAExecutionProvider", "FakeExecutionProvider"
MODEL = model_bytes("g (float[3] x) => (float[3] y) { y = Relu(x) }")

Register = Callable[[ProviderFactory], None]
Policy = ort_py.OrtExecutionProviderDevicePolicy


def test_a_session_gives_the_answer_that_was_told_before(register: Register) -> None:
    register(FakeFactory())
    register(slow_factory())
    before = ort_py.explain_selection()
    with ort_py.InferenceSession(MODEL) as session:
        assert session.explain_selection() == before
    assert before.taken == [FAKE, SLOW, CPU]
    assert (before.mode, before.source) == ("automatic", "rank: no providers were named")


def test_it_neither_warns_nor_raises() -> None:
    """The answer contains the warnings and errors of a session."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        skipped = ort_py.explain_selection([CUDA, CPU])
        options = ort_py.SessionOptions()
        options.strict = "provider"
        refused = ort_py.explain_selection([CUDA, CPU], sess_options=options)
    assert skipped.taken == [CPU]
    assert skipped.error == ""
    assert refused.mode == "required"
    assert "The provider CUDAExecutionProvider is not installed." in refused.error
    assert "no session can be created: " in str(refused)


@pytest.mark.parametrize(
    ("policy", "taken"),
    [
        (Policy.PREFER_CPU, [CPU]),
        (Policy.PREFER_NPU, [FAKE, CPU]),
        (Policy.PREFER_GPU, [CPU]),
        (Policy.MAX_EFFICIENCY, [FAKE, CPU]),
        (Policy.MIN_OVERALL_POWER, [FAKE, CPU]),
        (Policy.MAX_PERFORMANCE, [FAKE, CPU]),
        (Policy.DEFAULT, [FAKE, CPU]),
    ],
)
def test_policies_choose_by_kind_of_device(policy: Policy, taken: list[str], register: Register) -> None:
    """An accelerator counts as an NPU, as in `get_ep_devices`; the answer names the policy."""
    register(FakeFactory())
    options = ort_py.SessionOptions()
    options.set_provider_selection_policy(policy)
    found = ort_py.explain_selection(sess_options=options)
    assert found.taken == taken
    assert found.source == f"the policy {policy.name}"
    with ort_py.InferenceSession(MODEL, options) as session:
        assert session.explain_selection().taken == taken


@pytest.mark.parametrize("device_class", [DeviceClass.ACCELERATOR, DeviceClass.CPU])
def test_a_policy_chooses_what_is_used_by_name_for_accelerators_alone(
    device_class: DeviceClass, register: Register
) -> None:
    """A policy asks for a kind of accelerator; the CPU has its own role."""

    class Named(FakeFactory):
        @property
        def automatic(self) -> bool:
            return False

        @property
        def device_class(self) -> DeviceClass:
            return device_class

    register(Named())
    options = ort_py.SessionOptions()
    for policy in (Policy.PREFER_CPU, Policy.PREFER_NPU, Policy.PREFER_GPU):
        options.set_provider_selection_policy(policy)
        chosen = policy is Policy.PREFER_NPU and device_class is DeviceClass.ACCELERATOR
        assert ort_py.explain_selection(sess_options=options).taken == ([FAKE, CPU] if chosen else [CPU])


def test_the_environment_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_PY_PROVIDERS", CPU)
    assert ort_py.explain_selection().source == "the environment variable ORT_PY_PROVIDERS"
    monkeypatch.delenv("ORT_PY_PROVIDERS")
    monkeypatch.setenv("ORT_PY_COMPAT", "1")
    found = ort_py.explain_selection()
    assert found.compat
    assert found.source == f"onnxruntime's default, {CPU}"
    assert "onnxruntime's leniency" in str(found)


def test_providers_of_the_options_are_a_source() -> None:
    options = ort_py.SessionOptions()
    options.add_provider(CPU, {})
    assert ort_py.explain_selection(sess_options=options).source == "the session options"


def test_a_function_needs_a_model() -> None:
    """The function needs facts about the model; the session has the answer."""
    options = ort_py.SessionOptions()
    options.set_provider_selection_policy_delegate(lambda devices, *_: devices[-1:])
    with pytest.raises(ort_py.InvalidArgument, match="a function that needs the model"):
        ort_py.explain_selection(sess_options=options)
    with ort_py.InferenceSession(MODEL, options) as session:
        assert session.explain_selection().source == "a function of the session options"
