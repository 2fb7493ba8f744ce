"""The provider: what it claims and refuses and why, its wishes, its devices, and how it answers for errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.contracts import SessionContext
from ort_py.devices import Device
from ort_py.dtypes import DataType
from ort_py.errors import EPFail
from ort_py_cuda import held_types, libraries, modules, opening
from ort_py_cuda.options import OPTIONS, WITHOUT_MEANING
from ort_py_cuda.provider import CUDAProvider
from ort_py_kit.graphs import model_from_text

from .stand_in.machine import Machine


def provider(context: SessionContext | None = None, **options: Any) -> CUDAProvider:
    """A provider with these options."""
    values = {spec.name: spec.default for spec in OPTIONS} | options
    return CUDAProvider("CUDAExecutionProvider", values, context or SessionContext())


def session(text: str, **options: Any) -> ort_py.InferenceSession:
    """A session with the provider in front, in which islands need not pay."""
    settings = ort_py.SessionOptions()
    settings.cost_model = "always"
    settings.pin_cpu = True
    settings.cache_dir = "off"
    providers: list[Any] = [("CUDAExecutionProvider", options), "CPUExecutionProvider"]
    return ort_py.InferenceSession(model_from_text(text).SerializeToString(), settings, providers, enable_fallback=0)


def refusals(made: ort_py.InferenceSession) -> str:
    """The provider's refusals of nodes."""
    return str([node for node in made.placement.nodes if node.provider != "CUDAExecutionProvider"])


HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def test_bfloat16_is_held(machine: Machine) -> None:
    """Where `ml_dtypes` is installed CuPy has it: it goes in, is computed, and comes out."""
    import ml_dtypes

    with session(f"{HEAD} g (bfloat16[n] x) => (bfloat16[n] y) {{ y = Add(x, x) }}") as made:
        result = made.run(None, {"x": np.array([1.5, -2], ml_dtypes.bfloat16)})[0]
        assert result.dtype == ml_dtypes.bfloat16
        assert result.tolist() == [3, -4]
        assert [node.provider for node in made.placement.nodes] == ["CUDAExecutionProvider"]


def test_bfloat16_needs_a_numpy_that_casts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older one, and the type is refused with the reason."""
    monkeypatch.setattr(held_types, "version", lambda name: "2.1.1")
    assert DataType.BFLOAT16 not in held_types.held_types()
    assert held_types.unheld(DataType.BFLOAT16) == "CuPy's bfloat16 needs NumPy 2.1.2"


def test_float8_is_refused_with_words(machine: Machine) -> None:
    """CuPy has no such array; the node runs elsewhere, and the placement says why."""
    text = f"{HEAD} g (float[n] x) => (float8e4m3fn[n] y) {{ y = Cast<to: int = 17>(x) }}"
    with session(text) as made:
        assert "CuPy has no float8e4m3fn" in refusals(made)


def test_texts_stay_on_the_host(machine: Machine) -> None:
    with session(f"{HEAD} g (string[n] x) => (string[n] y) {{ y = Identity(x) }}") as made:
        assert "texts live on the host" in refusals(made)


def test_an_operator_whose_library_is_missing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, with the wheel that brings it."""
    monkeypatch.setattr(libraries, "find", lambda name, major=None: None)
    with session(f"{HEAD} g (float[3,3] x) => (float y) {{ y = Det(x) }}") as made:
        assert "cuSOLVER is not installed (pip install nvidia-cusolver" in refusals(made)


def test_old_hardware_computes_bfloat16_in_float32(use_machine: Callable[[Machine], Any]) -> None:
    use_machine(Machine(capability=75))
    assert provider().widened_types == {DataType.BFLOAT16}
    use_machine(Machine(capability=80))
    assert provider().widened_types == frozenset()


def test_lower_precision_is_that_of_products(machine: Machine) -> None:
    """TF32, and what it does not do is in the session's report."""
    assert provider().precision_refusal("float32") is None
    assert provider().settings.tf32 is False
    lower = provider(SessionContext(precision="bfloat16"))
    assert lower.settings.tf32 is True
    assert "TF32" in str(lower.precision_refusal("bfloat16"))
    assert provider(use_tf32=True).settings.tf32 is True


def test_a_gpu_that_is_not_there(machine: Machine) -> None:
    with pytest.raises(EPFail, match=r"CUDA shows no GPU of the number 3") as caught:
        provider(device_id=3)
    assert "it shows one, number 0" in str(caught.value)


def test_the_second_gpu(use_machine: Callable[[Machine], Any]) -> None:
    """Everything of the session is there: its memory, its streams, its arrays."""
    machine = Machine(devices=2)
    use_machine(machine)
    with session(f"{HEAD} g (float[n] x) => (float[n] y) {{ y = Tanh(x) }}", device_id="1") as made:
        made.run(None, {"x": np.ones(3, np.float32)})
        assert machine.held[0] == 0
        assert machine.held[1] > 0
    assert provider(device_id=1).device == Device("cuda", 1)


def test_cuda_that_does_not_start(machine: Machine) -> None:
    """CUDA's words and what to look at."""
    machine.devices = 0
    with pytest.raises(EPFail, match=r"CUDA does not start") as caught:
        provider()
    assert "cudaErrorNoDevice" in str(caught.value)
    assert "CUDA_VISIBLE_DEVICES" in caught.value.fix


def test_a_forked_child_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA does not survive a fork; the error says what to do instead."""
    monkeypatch.setattr(opening, "_started_by", os.getpid() - 1)
    with pytest.raises(EPFail, match=r"CUDA cannot be used in this process") as caught:
        provider()
    assert "spawn" in caught.value.fix


def test_a_gpu_that_is_too_old(use_machine: Callable[[Machine], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Found out where the probe cannot ask."""
    from ort_py_cuda.installed import CuPy

    use_machine(Machine(capability=70))
    monkeypatch.setattr(opening, "find_cupy", lambda: CuPy("cupy-cuda13x", "14.2.0", 13))
    with pytest.raises(EPFail, match=r"GPU 0 cannot be used") as caught:
        provider()
    assert "compute capability 7.0, and CUDA 13 needs 7.5" in str(caught.value)


def test_options_without_meaning_are_accepted_and_said(machine: Machine) -> None:
    """The load report names options of onnxruntime's provider that change nothing here."""
    declared = {spec.name for spec in OPTIONS}
    assert not declared & set(WITHOUT_MEANING)
    text = f"{HEAD} g (float[n] x) => (float[n] y) {{ y = Tanh(x) }}"
    with session(text, arena_extend_strategy="kSameAsRequested", do_copy_in_default_stream="1") as made:
        report = str([stage.notes for stage in made.load_report.stages])
        assert "arena_extend_strategy" in report
        assert "do_copy_in_default_stream" in report


def test_choices_are_checked(machine: Machine) -> None:
    """A misspelt one is an error with the right ones."""
    with pytest.raises(ort_py.errors.OptionError, match=r"cudnn_conv_algo_search"):
        session(f"{HEAD} g (float[n] x) => (float[n] y) {{ y = Tanh(x) }}", cudnn_conv_algo_search="EXHAUSTIF")


def test_without_cupy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from ort_py_cuda import installed

    monkeypatch.setattr(modules, "_module", None)
    missing = installed.Missing("CuPy is not installed", installed.install_command())
    monkeypatch.setattr(installed, "find_cupy", lambda: missing)
    with pytest.raises(EPFail, match=r"CuPy cannot be used: CuPy is not installed") as caught:
        modules.cupy()
    assert caught.value.fix == 'pip install "ort-py-cuda[cuda13]"'


def test_a_cupy_that_does_not_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own words, and the reinstallation of just that."""
    from ort_py_cuda import installed

    def broken(name: str) -> Any:
        raise ImportError("libcudart.so: wrong ELF class")

    monkeypatch.setattr(modules, "_module", None)
    monkeypatch.setattr(modules, "import_module", broken)
    monkeypatch.setattr(installed, "find_cupy", lambda: installed.CuPy("cupy-cuda13x", "14.2.0", 13))
    with pytest.raises(EPFail, match=r"does not import: libcudart.so: wrong ELF class") as caught:
        modules.cupy()
    assert "--force-reinstall" in caught.value.fix
