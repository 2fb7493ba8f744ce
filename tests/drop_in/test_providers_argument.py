"""The providers a session is asked for, side by side with onnxruntime: strictly by default, leniently on request."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ort_py
from tests.drop_in.both_runtimes import OURS, THEIRS, Case, expect_agreement, expect_difference, model, outcome

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
RELU = model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }")
X = np.ones((1, 3), np.float32)

REQUESTS: dict[str, tuple[Any, Any]] = {
    "none": (None, None),
    "empty": ([], None),
    "CPU": ([CPU], None),
    "CPU in a tuple": ((CPU,), None),
    "with options": ([(CPU, {"use_arena": "1"})], None),
    "options beside": ([CPU], [{"use_arena": 0}]),
    "options without providers": (None, [{}]),
    "absent, then CPU": ([CUDA, CPU], None),
    "twice": ([CPU, CPU], None),
    "absent only": ([CUDA], None),
    "unknown": (["Bogus"], None),
    "unknown, then CPU": (["Bogus", CPU], None),
    "wrong case": (["cpu"], None),
    "a bare text": (CPU, None),
    "a set": ({CPU}, None),
    "a mapping": ({CPU: {}}, None),
    "numbers": ([3], None),
    "a pair without options": ([(CPU,)], None),
    "a pair with None": ([(CPU, None)], None),
    "more options than providers": ([CPU], [{}, {}]),
    "fewer options than providers": ([CPU], []),
    "options no mapping": ([CPU], [3]),
    "options a mapping": ([CPU], {}),
    "options twice": ([(CPU, {})], [{}]),
    "any option": ([(CPU, {"zzz": 5})], None),
    "two of one vendor": (["TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"], None),
    "a generator": ("generator", None),
    "pairs as lists": ([[CPU, {}]], None),
}


def opens(name: str, **arguments: Any) -> Case:
    """A case that opens a session and runs it; warnings of both are looked at elsewhere."""
    providers, options = REQUESTS[name]

    def case(runtime: Any) -> Any:
        given = (entry for entry in [CPU]) if providers == "generator" else providers
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session = runtime.InferenceSession(RELU, None, given, options, **arguments)
        return session.get_providers(), session.get_provider_options(), session.run(None, {"x": X})

    return case


@pytest.fixture
def no_output() -> Iterator[None]:
    """Swallow the banner onnxruntime prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


ALIKE = (
    "none",
    "empty",
    "CPU",
    "CPU in a tuple",
    "with options",
    "options beside",
    "options without providers",
    "absent, then CPU",
    "twice",
    "any option",
    "pairs as lists",
    "a generator",
    "options twice",
    "fewer options than providers",
)

REFUSED: dict[str, tuple[type[Exception], str]] = {
    "absent only": (ort_py.ProviderNotAvailableError, "nothing that was asked for is there"),
    "unknown": (ort_py.ProviderNotFoundError, "a misspelling, in most cases"),
    "unknown, then CPU": (ort_py.ProviderNotFoundError, "as above"),
    "wrong case": (ort_py.ProviderNotFoundError, "as above"),
    "a bare text": (ort_py.OptionError, "a list of letters, to onnxruntime"),
    "a set": (ort_py.OptionError, "it has no order"),
    "a mapping": (ort_py.OptionError, "as above"),
    "numbers": (ort_py.OptionError, "no names"),
    "a pair without options": (ort_py.OptionError, "no pair"),
    "a pair with None": (ort_py.OptionError, "no options"),
    "more options than providers": (ort_py.OptionError, "one of them is meant for another provider"),
    "options no mapping": (ort_py.OptionError, "no options"),
    "options a mapping": (ort_py.OptionError, "no list"),
}
"""Requests onnxruntime answers with its CPU provider and a banner on stdout, and ort-py refuses by name."""


@pytest.mark.parametrize("name", sorted(ALIKE))
@pytest.mark.usefixtures("no_output")
def test_requests_are_answered_alike(name: str) -> None:
    """The same providers, options and results."""
    expect_agreement(opens(name))


@pytest.mark.parametrize("name", sorted(REFUSED))
@pytest.mark.usefixtures("no_output")
def test_requests_are_a_contract(name: str) -> None:
    """A request that cannot be fulfilled raises."""
    expect_difference(opens(name), REFUSED[name][0])


@pytest.mark.parametrize("name", sorted(REFUSED.keys() - {"absent only", "a bare text"}))
@pytest.mark.usefixtures("no_output")
def test_without_fallback_both_refuse(name: str) -> None:
    """With `enable_fallback=0` onnxruntime raises too; every `except` clause for it catches ours.

    For a bare text it complains about a provider called C, and ort-py about the text.
    """
    expect_agreement(opens(name, enable_fallback=0))


@pytest.mark.parametrize("name", sorted(REQUESTS.keys() - {"two of one vendor"}))
@pytest.mark.usefixtures("no_output")
def test_compatibility_mode_answers_as_onnxruntime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that runs unchanged gets the CPU provider where onnxruntime gives it."""
    monkeypatch.setenv("ORT_PY_COMPAT", "1")
    expect_agreement(opens(name))


@pytest.mark.parametrize(
    "name", ["unknown", "wrong case", "absent only", "absent, then CPU", "CPU", "a set", "numbers"]
)
@pytest.mark.usefixtures("no_output")
def test_compatibility_mode_without_fallback(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown names and malformed requests raise; absent providers do not."""
    monkeypatch.setenv("ORT_PY_COMPAT", "1")
    expect_agreement(opens(name, enable_fallback=0))


@pytest.mark.parametrize("compat", ["0", "1"])
@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_nothing_is_printed(
    name: str, compat: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORT_PY_COMPAT", compat)
    outcome(opens(name), OURS)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", ["absent, then CPU", "twice", "CPU"])
def test_skipped_providers_are_warned_of_alike(name: str) -> None:
    """A UserWarning where one of the list is skipped or stands twice, none otherwise."""

    def case(runtime: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            runtime.InferenceSession(RELU, providers=REQUESTS[name][0])
        return any(issubclass(warning.category, UserWarning) for warning in caught)

    expect_agreement(case)


def test_fallback_does_not_hide_a_wrong_model() -> None:
    """No other provider could run the model either."""
    expect_agreement(lambda runtime: runtime.InferenceSession(b"junk", providers=[CPU, CUDA]))


def test_a_skipped_provider_is_told() -> None:
    """By a warning of a class that `except` and filters for UserWarning catch, and in the session's report."""
    with pytest.warns(UserWarning, match="not used") as caught:
        session = ort_py.InferenceSession(RELU, providers=[CUDA, CPU])
    assert issubclass(caught[0].category, ort_py.ProviderFallbackWarning)
    assert [record.provider for record in session.fallback_report] == [CUDA]


# -- set_providers -------------------------------------------------------------------------------------------------


def changed(providers: Any, options: Any = None) -> Case:
    """A case that changes a session's providers and runs it."""

    def case(runtime: Any) -> Any:
        session = runtime.InferenceSession(RELU, providers=[CPU])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.set_providers(providers, options)
        return session.get_providers(), session.run(None, {"x": X}), [found.name for found in session.get_inputs()]

    return case


@pytest.mark.parametrize("providers", [None, [], [CPU], [(CPU, {})], ["Bogus"], {CPU}])
def test_providers_are_changed_alike(providers: Any) -> None:
    """Another list of providers, or a refusal by the same class."""
    expect_agreement(changed(providers))


@pytest.mark.parametrize("source", ["bytes", "path"])
def test_a_refused_change_leaves_the_session_as_it_was(source: str, tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(RELU)
    session = ort_py.InferenceSession(RELU if source == "bytes" else path, providers=[CPU])
    with pytest.raises(RuntimeError):
        session.set_providers(["Bogus"])
    assert session.run(None, {"x": X})[0].tolist() == [[1, 1, 1]]
    session.set_providers([CPU])
    assert session.run(None, {"x": X})[0].tolist() == [[1, 1, 1]]


def test_a_closed_session_has_no_providers_to_change() -> None:
    session = ort_py.InferenceSession(RELU, providers=[CPU])
    session.close()
    with pytest.raises(ort_py.InvalidArgument):
        session.set_providers([CPU])


# -- providers of the options --------------------------------------------------------------------------------------

Prepare = Callable[[Any, Any], Any]


def delegates(result: Callable[[Any], Any]) -> Prepare:
    """Choose devices by a function of those there are."""

    def prepare(_runtime: Any, options: Any) -> None:
        options.set_provider_selection_policy_delegate(lambda devices, *_: result(devices))

    return prepare


def cpu_devices(runtime: Any) -> list[Any]:
    """The CPU provider's devices."""
    return [device for device in runtime.get_ep_devices() if device.ep_name == CPU]


PREPARED: dict[str, Prepare] = {
    "nothing": lambda runtime, options: None,
    "CPU": lambda runtime, options: options.add_provider(CPU, {}),
    "absent": lambda runtime, options: options.add_provider(CUDA, {}),
    "unknown": lambda runtime, options: options.add_provider("Bogus", {}),
    "short name": lambda runtime, options: options.add_provider("CPU", {}),
    "options no texts": lambda runtime, options: options.add_provider(CPU, {"a": 1}),
    "options missing": lambda runtime, options: options.add_provider(CPU),
    "devices": lambda runtime, options: options.add_provider_for_devices(cpu_devices(runtime), {}),
    "no devices": lambda runtime, options: options.add_provider_for_devices([], {}),
    "devices no devices": lambda runtime, options: options.add_provider_for_devices(["CPU"], {}),
    "device options None": lambda runtime, options: options.add_provider_for_devices(cpu_devices(runtime), None),
    "policy a number": lambda runtime, options: options.set_provider_selection_policy(1),
    "delegate": delegates(lambda devices: [device for device in devices if device.ep_name == CPU]),
    "delegate chooses none": delegates(lambda devices: []),
    "delegate fails": delegates(lambda devices: devices[99]),
    "delegate gives names": delegates(lambda devices: ["x"]),
    "delegate gives nothing": delegates(lambda devices: None),
    "delegate no function": lambda runtime, options: options.set_provider_selection_policy_delegate(3),
}


def prepared(prepare: Prepare) -> Case:
    """A case that prepares options and opens a session without naming providers."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        prepare(runtime, options)
        session = runtime.InferenceSession(RELU, options)
        return options.has_providers(), session.get_providers(), session.run(None, {"x": X})

    return case


@pytest.mark.parametrize("name", sorted(PREPARED))
def test_options_choose_providers_alike(name: str) -> None:
    """By name, by device, by policy or by a function."""
    expect_agreement(prepared(PREPARED[name]))


def test_a_provider_added_twice_is_used_once() -> None:
    twice = prepared(lambda runtime, options: [options.add_provider(CPU, {}) for _ in range(2)])
    expect_difference(twice, (True, [CPU], [X]))


@pytest.mark.parametrize("policy", sorted(OURS.OrtExecutionProviderDevicePolicy.__members__))
def test_policies_choose_alike(policy: str) -> None:
    """On a machine without accelerators all of them give the CPU."""
    expect_agreement(
        prepared(
            lambda runtime, options: options.set_provider_selection_policy(
                getattr(runtime.OrtExecutionProviderDevicePolicy, policy)
            )
        )
    )


def test_arguments_beat_the_options() -> None:
    for runtime in (OURS, THEIRS):
        options = runtime.SessionOptions()
        options.add_provider(CPU, {})
        with pytest.warns(UserWarning, match="providers"):
            session = runtime.InferenceSession(RELU, options, providers=[CPU])
        assert session.get_providers() == [CPU]


def test_a_delegate_is_told_about_the_model() -> None:
    """The same facts, and how many devices it may choose."""

    def case(runtime: Any) -> Any:
        told: list[Any] = []

        def choose(devices: Any, about: Any, around: Any, most: int) -> Any:
            # Which providers there are depends on what is installed: the CPU's is there once, and last.
            told.append(([device.ep_name for device in devices][-1:], dict(about), dict(around), most))
            return devices

        prepared(lambda _, options: options.set_provider_selection_policy_delegate(choose))(runtime)
        return told[0]

    expect_agreement(case)


# -- who runs what -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", ["1", "0"])
def test_the_assignment_is_told_alike(recorded: str) -> None:
    """The recorded placement: each provider with the operators of its nodes."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", recorded)
        session = runtime.InferenceSession(RELU, options, providers=[CPU])
        found = session.get_provider_graph_assignment_info()
        return [(part.ep_name, [(node.domain, node.op_type) for node in part.get_nodes()]) for part in found]

    expect_agreement(case)


DYNAMIC: dict[str, Any] = {
    "a number as value": {"ep.dynamic.workload_type": 1},
    "a number as key": {1: "a"},
    "another value": {"ep.dynamic.workload_type": "zzz"},
    "another key": {"foo": "bar"},
    "an empty key": {"": "x"},
    "two": {"ep.dynamic.workload_type": "Default", "x": "y"},
    "pairs": [("a", "b")],
    "a text": "abc",
}

TUNED: dict[str, Any] = {
    "a text": "abc",
    "a mapping": {},
    "None": None,
    "a tuple": (),
    "numbers": [1],
    "of the CPU": [{"ep": CPU, "results": {}, "validators": {}}],
    "with more in it": [{"ep": "X", "results": {}, "validators": {}, "q": 1}],
    "results a number": [{"ep": "X", "results": 3, "validators": {}}],
    "provider a number": [{"ep": 3, "results": {}, "validators": {}}],
    "with kernels": [{"ep": "X", "results": {"op": {"p": 1}}, "validators": {"v": "1"}}],
    "with a kernel that is not a number": [{"ep": "X", "results": {"op": {"p": "a"}}, "validators": {"v": 1}}],
}


def runs_after(session: Any, told: Any) -> Any:
    """Run the session after a setting was passed to it."""
    return told, session.run(None, {"x": X})


LATER: dict[str, Callable[[Any], Any]] = {
    "tuning results": lambda session: session.get_tuning_results(),
    "no tuning results": lambda session: session.set_tuning_results([]),
    "foreign tuning results": lambda session: session.set_tuning_results(
        [{"ep": "X", "results": {}, "validators": {}}]
    ),
    "foreign tuning results refused": lambda session: session.set_tuning_results(
        [{"ep": "X", "results": {}, "validators": {}}], error_on_invalid=True
    ),
    "malformed tuning results": lambda session: session.set_tuning_results([{}]),
    "tuning results a number": lambda session: session.set_tuning_results(3),
    "no dynamic options": lambda session: session.set_ep_dynamic_options({}),
    "dynamic options": lambda session: session.set_ep_dynamic_options({"ep.dynamic.workload_type": "Efficient"}),
    "dynamic options None": lambda session: session.set_ep_dynamic_options(None),
    "captured graph": lambda session: session.release_captured_graph(),
    "another captured graph": lambda session: session.release_captured_graph(3),
    "fallback off and on": lambda session: (session.disable_fallback(), session.enable_fallback()),
    "devices of inputs": lambda session: [device.ep_name for device in session.get_input_epdevices()],
    "error_on_invalid by place": lambda session: session.set_tuning_results([], True),
    "run after dynamic options": lambda session: runs_after(session, session.set_ep_dynamic_options({"foo": "bar"})),
    "run after tuning results": lambda session: runs_after(session, session.set_tuning_results(TUNED["with kernels"])),
}


def telling(what: str, given: Any, **arguments: Any) -> Callable[[Any], Any]:
    """A function that tells a session something."""
    return lambda session: getattr(session, what)(given, **arguments)


LATER |= {f"dynamic options, {name}": telling("set_ep_dynamic_options", given) for name, given in DYNAMIC.items()}
LATER |= {
    f"tuning results, {name}, {'checked' if checked else 'as they are'}": telling(
        "set_tuning_results", given, error_on_invalid=checked
    )
    for name, given in TUNED.items()
    for checked in (False, True)
}


@pytest.mark.parametrize("name", sorted(LATER))
def test_sessions_answer_alike(name: str) -> None:
    """Both answer questions about the providers of a session in the same way."""
    expect_agreement(lambda runtime: LATER[name](runtime.InferenceSession(RELU, providers=[CPU])))
