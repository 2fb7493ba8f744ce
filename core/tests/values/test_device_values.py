"""Values on devices: made there, bound there, run there, read back; and what is refused in words."""

from __future__ import annotations

import gc
import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.small_models import model_bytes
from ort_py import BindingError, InvalidArgument, IOBinding, OrtValue, RunOptions, SessionOptions
from ort_py.errors import UsageError
from ort_py_kit.fake_device import FakeArray, FakeBehaviour, FakeDevice, FakeFactory, FakeProvider
from ort_py_kit.fake_values import DLPACK_TYPE

FAKE = "FakeExecutionProvider"
X = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)

CHAIN = "g (float[N, 3] x) => (float[N, 3] y) { a = Relu(x) y = Add(a, x) }"
MIXED = "g (float[N, 3] x) => (float[N, 3] y, int64[2] s) { y = Relu(x) s = Shape(x) }"
VIEWS = (
    "g (float[N, 3] x) => (float[3, N] t, float[N, 3] same) { t = Transpose <perm = [1, 0]> (x) same = Identity(x) }"
)
BRANCH = """g (float[N, 3] x, bool c) => (float[N, 3] y) {
    y = If (c) <
        then_branch = t () => (float[N, 3] p) { p = Relu(x) },
        else_branch = e () => (float[N, 3] q) { q = Neg(x) }
    >
}"""


@pytest.fixture
def factory() -> Iterator[FakeFactory]:
    """A provider on a fake device, whose islands always pay."""
    made = FakeFactory(behaviour=FakeBehaviour(cost_us=-math.inf))
    ort_py.register_provider(made)
    yield made
    ort_py.discovery.default_catalog().unregister_provider(FAKE)


def open_session(text: str, **arguments: Any) -> ort_py.InferenceSession:
    """A session on the fake device, completed by the CPU."""
    return ort_py.InferenceSession(model_bytes(text), providers=[FAKE, "CPUExecutionProvider"], **arguments)


def on_device(array: np.ndarray[Any, Any] = X) -> OrtValue:
    """A value on the fake device."""
    return OrtValue.ortvalue_from_numpy(array, "fake", 0)


def bound(session: ort_py.InferenceSession, value: OrtValue, *outputs: str) -> IOBinding:
    """A binding with input ``x`` and outputs on the device."""
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    for name in outputs:
        binding.bind_output(name, "fake", 0)
    return binding


def copies(factory: FakeFactory) -> list[tuple[str, str, int]]:
    """Copies of the newest session so far, forgotten afterwards."""
    provider: FakeProvider = factory.created[-1]
    found = [(source.kind, target.kind, nbytes) for source, target, nbytes in provider.transfer.copies]
    provider.transfer.copies.clear()
    return found


def test_a_value_says_where_it_is(factory: FakeFactory) -> None:
    """Device, form and content; `value` is the device's own array."""
    value = on_device()
    assert value.device_name() == "fake"
    assert (value.shape(), value.data_type(), value.is_tensor()) == ([2, 3], "tensor(float)", True)
    assert value.tensor_size_in_bytes() == 24
    assert isinstance(value.value, FakeArray)
    assert value.data_ptr() == value.value.raw.ctypes.data
    assert "fake:0" in repr(value)
    np.testing.assert_array_equal(value.numpy(), X)


def test_a_value_is_a_copy(factory: FakeFactory) -> None:
    """Neither the array it was made of nor one read from it shares its memory."""
    given = X.copy()
    value = on_device(given)
    given[:] = 0
    value.numpy()[:] = 0
    np.testing.assert_array_equal(value.numpy(), X)


@pytest.mark.parametrize("array", [np.float32(3).reshape(()), np.empty((0, 3), np.int64), X.T])
def test_all_forms_of_arrays(factory: FakeFactory, array: np.ndarray[Any, Any]) -> None:
    found = on_device(array).numpy()
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_an_empty_value_is_written_in_place(factory: FakeFactory) -> None:
    """`update_inplace` takes arrays and values of any place; the address stays."""
    value = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "fake", 0)
    address = value.data_ptr()
    for source in (X, on_device(X + 1), OrtValue.ortvalue_from_numpy(X + 2), (X + 3).reshape(3, 2)):
        value.update_inplace(source)
    assert value.data_ptr() == address
    np.testing.assert_array_equal(value.numpy(), X + 3)
    host = OrtValue.ortvalue_from_numpy(np.zeros_like(X))
    host.update_inplace(value)
    np.testing.assert_array_equal(host.numpy(), X + 3)


def test_update_of_another_form_is_refused(factory: FakeFactory) -> None:
    with pytest.raises(UsageError, match=r"(?s)update_inplace needs.*float64 \(2, 3\) into float32 \(2, 3\) on fake:0"):
        on_device().update_inplace(X.astype(np.float64))


def test_copy_tensors_between_places(factory: FakeFactory) -> None:
    from ort_py.values.copying import copy_tensors

    device, host = on_device(np.zeros_like(X)), OrtValue.ortvalue_from_numpy(np.zeros_like(X))
    copy_tensors([OrtValue.ortvalue_from_numpy(X)], [device])
    copy_tensors([device], [host])
    np.testing.assert_array_equal(host.numpy(), X)


def test_strings_stay_on_the_host(factory: FakeFactory) -> None:
    with pytest.raises(UsageError, match="fake:0 cannot hold strings"):
        on_device(np.array(["a"], object))
    with pytest.raises(UsageError, match="fake:0 cannot hold strings"):
        OrtValue.ortvalue_from_shape_and_type([1], str, "fake", 0)


def test_devices_without_memory_are_refused(factory: FakeFactory) -> None:
    """The cases are an unknown device, another number of a known one, and an unknown kind."""
    with pytest.raises(UsageError, match=r"(?s)no memory of device type 'cuda'.*no usable provider offers"):
        OrtValue.ortvalue_from_numpy(X, "cuda", 0)
    with pytest.raises(InvalidArgument, match="Unsupported device type: 'fake'"):
        OrtValue.ortvalue_from_numpy(X, "fake", 1)
    with pytest.raises(InvalidArgument, match="Unsupported device type: 'no'"):
        OrtValue.ortvalue_from_numpy(X, "no", 0)


def test_pickling_is_refused(factory: FakeFactory) -> None:
    """Memory of a device is its process's."""
    with pytest.raises(UsageError, match="cannot be pickled"):
        pickle.dumps(on_device())


class Foreign:
    """A tensor of another library on the device."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **_options: Any) -> Any:
        return self._array

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_TYPE, 0


def test_dlpack_comes_in(factory: FakeFactory) -> None:
    """Another library's memory is shared; truth values may come as bytes."""
    first = on_device()
    shared = OrtValue.from_dlpack(Foreign(first.value))
    assert (shared.device_name(), shared.data_ptr()) == ("fake", first.data_ptr())
    truths = OrtValue.from_dlpack(Foreign(on_device(np.array([1, 0], np.uint8)).value), is_bool_tensor=True)
    assert truths.numpy().tolist() == [True, False]
    with pytest.raises(UsageError, match="not contiguous"):
        OrtValue.from_dlpack(Foreign(first.value.T))


def test_dlpack_of_arrays_that_have_none(factory: FakeFactory) -> None:
    """The fake device's arrays are not exported."""
    with pytest.raises(BufferError, match="Arrays of fake:0 are not exported"):
        on_device().__dlpack__()
    with pytest.raises(BufferError, match="Arrays of fake:0 are not exported"):
        on_device().__dlpack_device__()


def test_plain_runs_take_values_on_devices(factory: FakeFactory) -> None:
    """They are used like any other value; the result is on the host."""
    np.testing.assert_array_equal(open_session(CHAIN).run(None, {"x": on_device()})[0], np.maximum(X, 0) + X)


def test_nothing_is_copied_where_all_is_on_the_device(factory: FakeFactory) -> None:
    """Input and output stay there, in each run; later results lie where the first did."""
    session = open_session(CHAIN)
    binding = bound(session, on_device(), "y")
    addresses = set()
    for _ in range(3):
        session.run_with_iobinding(binding)
        assert copies(factory) == []
        (y,) = binding.get_outputs()
        addresses.add(y.data_ptr())
        assert y.device_name() == "fake"
        np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0) + X)
    assert len(addresses) == 1
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.maximum(X, 0) + X)


def test_a_value_is_read_when_it_is_run(factory: FakeFactory) -> None:
    """A run sees changes that are made to a bound value before it."""
    session, value = open_session(CHAIN), on_device()
    binding = bound(session, value, "y")
    session.run_with_iobinding(binding)
    value.update_inplace(X * 2)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.maximum(X * 2, 0) + X * 2)
    np.testing.assert_array_equal(value.numpy(), X * 2)


def test_places_may_be_mixed(factory: FakeFactory) -> None:
    """Only what is bound there is there: one copy up, or one down."""
    session = open_session(CHAIN)
    binding = bound(session, on_device())
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert copies(factory) == [("fake", "cpu", X.nbytes)]
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.maximum(X, 0) + X)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "fake", 0)
    session.run_with_iobinding(binding)
    assert copies(factory) == [("cpu", "fake", X.nbytes)]
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.maximum(X, 0) + X)


def test_what_the_host_reads_is_copied_to_it(factory: FakeFactory) -> None:
    """A node on the CPU gets a bound input by a copy; its result goes to the device by another."""
    factory._behaviour = FakeBehaviour(cost_us=-math.inf, operators=["Relu"])
    session = open_session(MIXED.replace("s = Shape(x)", "d = Neg(x) s = Shape(d)"))
    binding = bound(session, on_device(), "y", "s")
    session.run_with_iobinding(binding)
    y, s = binding.get_outputs()
    assert (y.device_name(), s.device_name()) == ("fake", "fake")
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0))
    assert s.numpy().tolist() == [2, 3]


def test_results_never_alias(factory: FakeFactory) -> None:
    """An output that is a view of the input is copied, and in one piece."""
    session, value = open_session(VIEWS), on_device()
    binding = bound(session, value, "t", "same")
    session.run_with_iobinding(binding)
    t, same = binding.get_outputs()
    value.update_inplace(np.zeros_like(X))
    np.testing.assert_array_equal(t.numpy(), X.T)
    np.testing.assert_array_equal(same.numpy(), X)
    assert len({value.data_ptr(), t.data_ptr(), same.data_ptr()}) == 3


@pytest.mark.parametrize("condition", [True, False])
def test_bodies_read_bound_inputs(factory: FakeFactory, condition: bool) -> None:
    """A body of control flow reads an outer value that is on the device."""
    session = open_session(BRANCH)
    binding = bound(session, on_device(), "y")
    binding.bind_cpu_input("c", np.array(condition))
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.maximum(X, 0) if condition else -X)


def test_regions_read_bound_inputs(factory: FakeFactory) -> None:
    factory._behaviour = FakeBehaviour(cost_us=-math.inf, compiles=True)
    session = open_session(CHAIN)
    binding = bound(session, on_device(), "y")
    for _ in range(2):
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.maximum(X, 0) + X)
    assert copies(factory) == []


def test_memory_at_an_address(factory: FakeFactory) -> None:
    """Input and output in memory that the caller names."""
    session, value = open_session(CHAIN), on_device()
    target = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "fake", 0)
    binding = session.io_binding()
    binding.bind_input("x", "fake", 0, np.float32, [2, 3], value.data_ptr())
    binding.bind_output("y", "fake", 0, np.float32, [2, 3], target.data_ptr())
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), np.maximum(X, 0) + X)
    assert copies(factory) == []


def test_bound_values_are_written_to(factory: FakeFactory) -> None:
    """The caller's value has the result; one that does not fit is refused."""
    session = open_session(CHAIN)
    target = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "fake", 0)
    address, binding = target.data_ptr(), bound(session, on_device())
    binding.bind_ortvalue_output("y", target)
    session.run_with_iobinding(binding)
    assert target.data_ptr() == address
    np.testing.assert_array_equal(target.numpy(), np.maximum(X, 0) + X)
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32, "fake", 0))
    with pytest.raises(BindingError, match=r"(?s)does not fit.*bound: float \[1, 3\]; result: float \[2, 3\]"):
        session.run_with_iobinding(binding)


def test_shapes_may_change(factory: FakeFactory) -> None:
    """A later run with more rows has a result of its own."""
    session = open_session(CHAIN)
    binding = bound(session, on_device(), "y")
    session.run_with_iobinding(binding)
    more = np.ones((5, 3), np.float32)
    binding.bind_ortvalue_input("x", on_device(more))
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), more * 2)


def test_wrong_forms_are_refused(factory: FakeFactory) -> None:
    """By name, as on the host, and nothing falls back."""
    session = open_session(CHAIN)
    for wrong, text in (
        (X.astype(np.float64), "'x' has element type double"),
        (X[0], "'x' has rank 1"),
        (X[:, :2], "'x' has size 2 along axis 1"),
    ):
        with pytest.raises(BindingError, match=text):
            session.run_with_iobinding(bound(session, on_device(wrong), "y"))
    with pytest.raises(BindingError, match="no output 'z'"):
        session.run_with_iobinding(bound(session, on_device(), "z"))
    with pytest.raises(InvalidArgument, match="no output 'z'"):
        session.run_with_ort_values(["z"], {"x": on_device()})
    assert len(session.fallback_report) == 0


def test_missing_inputs_are_named(factory: FakeFactory) -> None:
    session = open_session("g (float[N, 3] x, float[N, 3] z) => (float[N, 3] y) { y = Add(x, z) }")
    with pytest.raises(BindingError, match=r"(?s)'z' are missing.*fed: 'x'"):
        session.run_with_iobinding(bound(session, on_device(), "y"))


def test_runs_with_values(factory: FakeFactory) -> None:
    """Values on the device are read there; results are on the host."""
    session = open_session(CHAIN)
    (y,) = session.run_with_ort_values(["y"], {"x": on_device()})
    assert copies(factory) == [("fake", "cpu", X.nbytes)]
    assert y.device_name() == "cpu"
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0) + X)


def test_options_profiles_and_callbacks(factory: FakeFactory) -> None:
    """Runs that somebody looks on at use the device too."""
    options = SessionOptions()
    options.enable_profiling = True
    session = open_session(CHAIN, sess_options=options)
    try:
        binding, before = bound(session, on_device(), "y"), factory.created[-1].runs
        session.run_with_iobinding(binding, RunOptions())
        assert copies(factory) == []
        assert factory.created[-1].runs == before + 1
    finally:
        from pathlib import Path

        Path(session.end_profiling()).unlink()


def test_failures_are_answered_over_the_host(factory: FakeFactory) -> None:
    """Where the device fails the CPU goes on; the result is where it is wanted, also in later runs."""
    factory._behaviour = FakeBehaviour(cost_us=-math.inf, fail_runs=range(1, 10))
    session = open_session(CHAIN)
    binding = bound(session, on_device(), "y")
    for _ in range(3):
        session.run_with_iobinding(binding)
        (y,) = binding.get_outputs()
        assert y.device_name() == "fake"
        np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0) + X)
    assert session.fallback_report


def test_sessions_without_the_device_take_copies(factory: FakeFactory) -> None:
    """A session of the CPU alone gets the content, and its result is copied to where it is wanted."""
    session = ort_py.InferenceSession(model_bytes(CHAIN), providers=["CPUExecutionProvider"])
    binding = bound(session, on_device(), "y")
    session.run_with_iobinding(binding)
    (y,) = binding.get_outputs()
    assert y.device_name() == "fake"
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0) + X)


def test_an_output_for_a_device_that_is_not_there(factory: FakeFactory) -> None:
    """Without an address it is on the host; with one it is refused."""
    session = open_session(CHAIN)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cuda", 0)
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].device_name() == "cpu"
    with pytest.raises(UsageError, match="no memory of device type 'cuda'"):
        binding.bind_output("y", "cuda", 0, np.float32, [2, 3], 64)


def test_places_may_be_taken_back(factory: FakeFactory) -> None:
    """An output that is bound again, or cleared, is where it is wanted now."""
    session = open_session(CHAIN)
    binding = bound(session, on_device(), "y")
    session.run_with_iobinding(binding)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].device_name() == "cpu"
    binding.clear_binding_outputs()
    binding.clear_binding_inputs()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.maximum(X, 0) + X)


def test_inputs_are_waited_for(factory: FakeFactory) -> None:
    """`synchronize_inputs` waits for the device, where something is bound on one."""
    session = open_session(CHAIN)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.synchronize_inputs()
    assert factory.memory.waits == 0
    bound(session, on_device(), "y").synchronize_inputs()
    assert factory.memory.waits == 1


def test_nothing_is_kept(factory: FakeFactory) -> None:
    """When session, binding and values are gone, so is their memory; a closed session refuses runs."""
    owner: FakeDevice = factory.owner
    session = open_session(CHAIN)
    binding = bound(session, on_device(), "y")
    for _ in range(3):
        session.run_with_iobinding(binding)
    session.close()
    with pytest.raises(BindingError, match="closed"):
        session.run_with_iobinding(binding)
    del binding, session
    gc.collect()
    assert owner.stats.bytes_in_use == 0
