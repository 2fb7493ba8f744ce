"""Functions of the module, side by side with onnxruntime: devices, seeds, logging, threads, libraries of providers."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.kernels.seeds import set_process_seed
from ort_py.platform.processors import set_default_threads
from tests.drop_in.both_runtimes import OURS, THEIRS, expect_agreement, model

CPU = ["CPUExecutionProvider"]
RANDOM = model("g () => (float[4] a, float[4] b) { a = RandomNormal<shape = [4]>() b = RandomNormal<shape = [4]>() }")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Give the process its settings back."""
    level = logging.getLogger("ort_py").level
    yield
    logging.getLogger("ort_py").setLevel(level)
    THEIRS.set_default_logger_severity(4)
    set_process_seed(None)
    set_default_threads(0)


CALLS: dict[str, Callable[[Any], Any]] = {
    "device": lambda runtime: runtime.get_device(),
    "collective": lambda runtime: runtime.has_collective_ops(),
    "version is a text": lambda runtime: type(runtime.get_version_string()).__name__,
    "build is told": lambda runtime: runtime.get_build_info().startswith("ORT Build Info: "),
    "telemetry": lambda runtime: (runtime.enable_telemetry_events(), runtime.disable_telemetry_events()),
    "preload": lambda runtime: runtime.preload_dlls(),
    "preload some": lambda runtime: runtime.preload_dlls(cuda=True, cudnn=False, msvc=False, directory="/nowhere"),
    "seed": lambda runtime: runtime.set_seed(5),
    "negative seed": lambda runtime: runtime.set_seed(-5),
    "seed of NumPy": lambda runtime: runtime.set_seed(np.int64(5)),
    "seed as text": lambda runtime: runtime.set_seed("5"),
    "seed as float": lambda runtime: runtime.set_seed(5.0),
    "seed of 65 bits": lambda runtime: runtime.set_seed(1 << 64),
    "seed None": lambda runtime: runtime.set_seed(None),
    "no library": lambda runtime: runtime.register_execution_provider_library("mine", "/nowhere/lib.so"),
    "library a number": lambda runtime: runtime.register_execution_provider_library("mine", 3),
    "no such library": lambda runtime: runtime.unregister_execution_provider_library("mine"),
    "no name": lambda runtime: runtime.unregister_execution_provider_library(3),
    "threads as text": lambda runtime: runtime.set_global_thread_pool_sizes("2", 1),
    "all providers": lambda runtime: runtime.get_all_providers(),
    "CPU is there": lambda runtime: runtime.get_available_providers()[-1],
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_functions_answer_alike(name: str) -> None:
    """The same answer, or a refusal by the same class."""
    expect_agreement(CALLS[name])


@pytest.mark.parametrize("severity", [-1, 0, 1, 2, 3, 4, 5, "2", 2.0, True])
def test_severities_are_taken_and_refused_alike(severity: Any) -> None:
    expect_agreement(lambda runtime: runtime.set_default_logger_severity(severity))


@pytest.mark.parametrize("verbosity", [-1, 0, 9, "2", 2.0])
def test_verbosities_are_taken_and_refused_alike(verbosity: Any) -> None:
    expect_agreement(lambda runtime: runtime.set_default_logger_verbosity(verbosity))


@pytest.mark.parametrize("name", ["preload_dlls", "print_debug_info"])
def test_python_functions_have_the_same_parameters(name: str) -> None:
    def parameters(runtime: Any) -> list[tuple[str, Any]]:
        found = inspect.signature(getattr(runtime, name)).parameters.values()
        return [(parameter.name, parameter.default) for parameter in found]

    assert parameters(OURS) == parameters(THEIRS)


def test_devices_are_described_alike() -> None:
    """The CPU provider's device: names, kinds and types of all facts."""

    def case(runtime: Any) -> Any:
        (device,) = [found for found in runtime.get_ep_devices() if found.ep_name == CPU[0]]
        hardware = device.device
        return (
            device.ep_name,
            sorted(set(device.ep_metadata) & {"version"}),
            dict(device.ep_options),
            (hardware.type.name, int(hardware.type), hardware.device_id),
            [type(value).__name__ for value in (device.ep_vendor, hardware.vendor, hardware.vendor_id)],
            device.memory_info(runtime.OrtDeviceMemoryType.DEFAULT),
        )

    expect_agreement(case)


def test_the_host_has_no_streams() -> None:
    expect_agreement(lambda runtime: runtime.get_ep_devices()[-1].create_sync_stream())


def test_native_libraries_of_providers_are_refused(tmp_path: Path) -> None:
    """onnxruntime would load a real one; the error says what to do instead."""
    library = tmp_path / "provider.so"
    library.write_bytes(b"\x7fELF")
    with pytest.raises(ort_py.Fail, match="cannot be loaded") as caught:
        ort_py.register_execution_provider_library("mine", library)
    assert "pip" in caught.value.fix


# -- seeds ---------------------------------------------------------------------------------------------------------


def draws(runtime: Any, seed: int, runs: int = 2) -> list[list[float]]:
    """Results of two random nodes in some runs of a new session, one list per node and run."""
    runtime.set_seed(seed)
    session = runtime.InferenceSession(RANDOM, providers=CPU)
    return [array.tolist() for _ in range(runs) for array in session.run(None, {})]


def test_seeds_repeat_alike() -> None:
    """The same seed gives the same numbers, another one others; nodes and runs differ from each other."""

    def case(runtime: Any) -> Any:
        first, again, other = draws(runtime, 7), draws(runtime, 7), draws(runtime, 8)
        return first == again, first == other, len({tuple(found) for found in first})

    expect_agreement(case)


def test_seeds_repeat_in_another_process() -> None:
    program = (
        "import ort_py, sys; ort_py.set_seed(7); s = ort_py.InferenceSession(bytes.fromhex(sys.argv[1]));"
        "sys.stdout.write(repr([a.tolist() for _ in range(2) for a in s.run(None, {})]))"
    )
    done = subprocess.run([sys.executable, "-c", program, RANDOM.hex()], capture_output=True, text=True, check=True)
    assert done.stdout == repr(draws(ort_py, 7))


# -- logging and threads -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "level"), [(0, "DEBUG"), (1, "INFO"), (2, "WARNING"), (3, "ERROR"), (4, "CRITICAL")]
)
def test_severities_are_levels_of_logging(severity: int, level: str) -> None:
    ort_py.set_default_logger_severity(severity)
    assert logging.getLevelName(logging.getLogger("ort_py").level) == level


def test_global_threads_count_for_sessions_that_ask_for_none() -> None:
    """And may be set again, unlike onnxruntime's; a session's own number counts more."""
    relu = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    ort_py.set_global_thread_pool_sizes(1, 1)
    assert ort_py.InferenceSession(relu, providers=CPU).threads.count == 1
    ort_py.set_global_thread_pool_sizes(0)
    assert "set_global_thread_pool_sizes" not in ort_py.InferenceSession(relu, providers=CPU).threads.reason


def test_global_threads_make_no_session_fail() -> None:
    """With onnxruntime, sessions with threads of their own, which is the default, fail afterwards."""
    program = (
        "import {0} as ort, sys; ort.set_global_thread_pool_sizes(1, 1); o = ort.SessionOptions();"
        "o.use_per_session_threads = {1}; ort.InferenceSession(bytes.fromhex(sys.argv[1]), o)"
    )
    relu = model("g (float[2] x) => (float[2] y) { y = Relu(x) }").hex()

    def ends(runtime: str, own: bool) -> bool:
        command = [sys.executable, "-c", program.format(runtime, own), relu]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    assert [ends("ort_py", True), ends("ort_py", False)] == [True, True]
    assert [ends("onnxruntime", True), ends("onnxruntime", False)] == [False, True]


def test_debug_information_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """The one function that writes to stdout, because that is what it is for."""
    ort_py.print_debug_info()
    out = capfd.readouterr().out
    assert f"ort-py version: {ort_py.__version__}" in out
    assert "CPUExecutionProvider" in out
