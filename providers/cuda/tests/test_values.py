"""Values on GPUs as users make and bind them: the arrays are CuPy's, runs read and write them where they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.errors import EPFail, UsageError
from ort_py_kit.graphs import model_from_text

from .stand_in.machine import Machine

X = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
CHAIN = '<ir_version: 10, opset_import: ["" : 21]> g (float[n, 3] x) => (float[n, 3] y) { a = Relu(x) y = Add(a, x) }'


def session(**options: Any) -> ort_py.InferenceSession:
    """A session with the provider in front, in which islands need not pay."""
    settings = ort_py.SessionOptions()
    settings.cost_model = "always"
    settings.pin_cpu = True
    settings.cache_dir = "off"
    providers: list[Any] = [("CUDAExecutionProvider", options), "CPUExecutionProvider"]
    return ort_py.InferenceSession(model_from_text(CHAIN).SerializeToString(), settings, providers, enable_fallback=0)


def on_device(array: np.ndarray[Any, Any] = X) -> ort_py.OrtValue:
    """A value on the first GPU."""
    return ort_py.OrtValue.ortvalue_from_numpy(array, "cuda", 0)


def copied(machine: Machine) -> list[str]:
    """Copies between host and device in the machine's log."""
    return [entry[0] for entry in machine.log if entry[0] in {"upload", "download", "pageable"}]


def test_a_value_on_a_gpu(machine: Machine) -> None:
    """Made, read, written and asked, by onnxruntime's names for the device."""
    value = on_device()
    assert (value.device_name(), value.shape(), value.data_type()) == ("cuda", [2, 3], "tensor(float)")
    assert value.data_ptr() == value.value.data.ptr
    np.testing.assert_array_equal(value.numpy(), X)
    value.update_inplace(X + 1)
    np.testing.assert_array_equal(value.numpy(), X + 1)
    for named in (ort_py.OrtDevice.make("cuda", 0), ort_py.OrtDevice.make("gpu", 0, 0x10DE)):
        assert ort_py.OrtValue.ortvalue_from_shape_and_type([2], np.float32, named).device_name() == "cuda"


def test_a_gpu_that_is_not_there(machine: Machine) -> None:
    """Another number is refused by the provider, with what there is."""
    with pytest.raises(EPFail, match=r"(?s)no GPU of the number 3.*it shows one, number 0"):
        ort_py.OrtValue.ortvalue_from_numpy(X, "cuda", 3)


def test_types_that_cupy_lacks(machine: Machine) -> None:
    import ml_dtypes

    with pytest.raises(EPFail, match="cuda:0 holds no arrays of float8_e4m3fn"):
        on_device(X.astype(ml_dtypes.float8_e4m3fn))


class Torch:
    """A tensor as torch shows it."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_dlpack_both_ways(machine: Machine) -> None:
    """Memory is shared with other libraries."""
    value = on_device()
    shared = ort_py.OrtValue.from_dlpack(Torch(value.value))
    assert (shared.device_name(), shared.data_ptr()) == ("cuda", value.data_ptr())
    assert value.__dlpack_device__() == (2, 0)
    assert value.to_dlpack().data.ptr == value.data_ptr()


def test_runs_copy_nothing(machine: Machine) -> None:
    """Input and output stay on the GPU; each run has ended when it returns."""
    value, made = on_device(), session()
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "cuda", 0)
    made.run_with_iobinding(binding)
    machine.log.clear()
    made.run_with_iobinding(binding)
    assert copied(machine) == []
    (y,) = binding.get_outputs()
    assert y.device_name() == "cuda"
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0) + X)


def test_memory_of_other_libraries(machine: Machine) -> None:
    """By address, for input and output."""
    value, target, made = on_device(), on_device(np.zeros_like(X)), session()
    binding = made.io_binding()
    binding.bind_input("x", "cuda", 0, np.float32, X.shape, value.data_ptr())
    binding.bind_output("y", "cuda", 0, np.float32, X.shape, target.data_ptr())
    binding.synchronize_inputs()
    made.run_with_iobinding(binding)
    binding.synchronize_outputs()
    np.testing.assert_array_equal(target.numpy(), np.maximum(X, 0) + X)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.maximum(X, 0) + X)


def test_addresses_that_are_no_gpus(machine: Machine) -> None:
    """CUDA is asked whose they are, so that no kernel reads what is not there."""
    binding = session().io_binding()
    with pytest.raises(UsageError, match=r"(?s)no memory of cuda:0 at address 0x1000.*cudaErrorInvalidValue"):
        binding.bind_input("x", "cuda", 0, np.float32, X.shape, 0x1000)


def test_memory_of_another_gpu(use_machine: Callable[[Machine], Any]) -> None:
    """An address of the second GPU is none of the first; a value there is read through the host by sessions here."""
    use_machine(Machine(devices=2))
    second = ort_py.OrtValue.ortvalue_from_numpy(X, "cuda", 1)
    made = session()
    binding = made.io_binding()
    with pytest.raises(UsageError, match=r"(?s)no memory of cuda:0.*of device 1"):
        binding.bind_input("x", "cuda", 0, np.float32, X.shape, second.data_ptr())
    binding.bind_ortvalue_input("x", second)
    binding.bind_output("y", "cuda", 1)
    made.run_with_iobinding(binding)
    (y,) = binding.get_outputs()
    assert "cuda:1" in repr(y)
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0) + X)
