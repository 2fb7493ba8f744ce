"""Values that stay on a device between regions and in bindings: without a copy, in order, alive as long as needed.

onnxruntime's own memory stands for a device's: its values are OrtValues that nothing else reads. Where runs are queued,
a runtime stands in whose work is done when it is waited for, and whose memory is poison until then.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py.contracts import (
    Availability,
    CompiledRegion,
    IDeviceMemory,
    IExecutionProvider,
    IStream,
    NodeSpec,
    ProviderFactory,
    RegionView,
    SessionContext,
)
from ort_py.devices import HOST, Device, DeviceClass
from ort_py_kit.graphs import model_from_text
from ort_py_onnxruntime import device_arrays, device_region, device_values
from ort_py_onnxruntime.device_values import Copies, DeviceValues, Residence, residence_of, values_on
from ort_py_onnxruntime.native import native
from ort_py_onnxruntime.provider import OnnxruntimeProvider
from ort_py_onnxruntime.region import OnnxruntimeRegion
from ort_py_onnxruntime.routes import CPU, ROUTES, Route
from ort_py_onnxruntime.sessions import make_session, model_of
from ort_py_onnxruntime.settings import Settings, Used

NAME = "StandInExecutionProvider"
DEVICE = Device("stand-in", 0)
SETTINGS = Settings((Used(CPU, {}),), 1, completes=True)
X = np.random.default_rng(0).standard_normal((3, 8), np.float32)

AROUND = """g (float[N, 8] x) => (float[N, 8] y) {
    a = Relu(x) b = Cast <to = 16> (a) c = Cast <to = 1> (b) d = Add(a, c) y = Neg(d)
}"""
"""Two regions with a value between them, and another way around over a type that only others take."""

SCAN = """g (float[8, N] x, float[8] i) => (float[8] f, float[8, N] y) {
    z = Neg(x)
    f, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1],
        body = b (float[8] a, float[8] e) => (float[8] c, float[8] d) { c = Add(a, e) d = Neg(c) }> (i, z)
}"""
LOOP = """g (float[N, 8] x, int64 n, bool go) => (float[N, 8] last, float[T, N, 8] all) {
    last, all = Loop (n, go, x) <body = b (int64 i, bool c, float[N, 8] s)
        => (bool d, float[N, 8] t, float[N, 8] u) { d = Constant <value = bool {1}> () t = Add(s, x) u = Neg(t) }>
}"""


def _residence(stream: int = 0) -> Residence:
    real = native()
    place = real.OrtDevice(real.OrtDevice.cpu(), real.OrtDevice.default_memory(), 0)
    return Residence(DEVICE, place, stream)


class _Factory(ProviderFactory):
    """The bridge on a device that is onnxruntime's memory on the host.

    Args:
        make: Makes a provider.
    """

    def __init__(self, make: Callable[[Residence], OnnxruntimeProvider], stream: int = 0) -> None:
        self._make = make
        self._stream = stream
        self._values = DeviceValues(_residence(stream))

    @property
    def name(self) -> str:
        return NAME

    @property
    def device_class(self) -> DeviceClass:
        return DeviceClass.ACCELERATOR

    def probe(self) -> Availability:
        return Availability(True, devices=(DEVICE,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return self._make(_residence(self._stream))

    def device_memory(self, device: Device) -> IDeviceMemory | None:
        return self._values if device == DEVICE else None


@contextlib.contextmanager
def _registered(factory: ProviderFactory) -> Iterator[None]:
    ort.register_provider(factory)
    try:
        yield
    finally:
        ort.discovery.default_catalog().unregister_provider(NAME)


class _Bridge(OnnxruntimeProvider):
    """The provider, whose regions always pay."""

    def __init__(self, residence: Residence) -> None:
        super().__init__(NAME, SETTINGS, residence=residence)

    def estimate_cost(self, node: NodeSpec) -> float | None:
        return -math.inf


@pytest.fixture
def device() -> Iterator[None]:
    """The provider on the device, registered."""
    with _registered(_Factory(_Bridge)):
        yield


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Copies that were made: kinds of both devices."""
    made: list[tuple[str, str]] = []
    copy = Copies.copy

    def counted(self: Copies, array: Any, source: Device, target: Device, stream: IStream | None) -> Any:
        made.append((source.kind, target.kind))
        return copy(self, array, source, target, stream)

    monkeypatch.setattr(Copies, "copy", counted)
    return made


def _session(text: str, *providers: str) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.pin_cpu = True
    settings.add_session_config_entry("session.placement", "order")
    names = list(providers or (NAME, CPU))
    return ort.InferenceSession(model_from_text(text).SerializeToString(), settings, providers=names)


def _equal_to_numpys(text: str, feeds: Mapping[str, Any]) -> None:
    with _session(text) as ours, _session(text, CPU) as plain:
        assert ours.placement.counts().get(NAME, 0) > 0, ours.placement
        for _ in range(3):
            for left, right in zip(ours.run(None, dict(feeds)), plain.run(None, dict(feeds)), strict=True):
                np.testing.assert_array_equal(left, right)


def test_values_pass_between_regions_without_a_copy(device: None, copies: list[tuple[str, str]]) -> None:
    """The value that both regions have stays; only what others read and write crosses the border."""
    with _session(AROUND) as session:
        assert session.placement.counts() == {NAME: 3, CPU: 2}
        copies.clear()
        session.run(None, {"x": X})
    assert sorted(copies) == sorted([("cpu", DEVICE.kind), (DEVICE.kind, "cpu")] * 2)


def test_a_mixed_session_equals_each_alone(device: None) -> None:
    _equal_to_numpys(AROUND, {"x": X})
    _equal_to_numpys(AROUND, {"x": X[:1]})


def test_bindings_read_and_write_on_the_device(device: None, copies: list[tuple[str, str]]) -> None:
    """A run whose result is the next one's input copies nothing; the results are values of their own."""
    text = "g (float[N, 8] x) => (float[N, 8] y) { y = Add(x, x) }"
    with _session(text) as session:
        value, seen = ort.OrtValue.ortvalue_from_numpy(X, DEVICE.kind, 0), []
        copies.clear()
        for _ in range(3):
            binding = session.io_binding()
            binding.bind_ortvalue_input("x", value)
            binding.bind_output("y", DEVICE.kind, 0)
            session.run_with_iobinding(binding)
            (value,) = binding.get_outputs()
            seen.append(value)
        assert copies == []
        assert [one.device_name() for one in seen] == [DEVICE.kind] * 3
        for number, one in enumerate(seen, 1):
            np.testing.assert_array_equal(one.numpy(), X * 2**number)
        assert len({one.data_ptr() for one in seen}) == 3


def test_results_are_values_of_their_own(device: None) -> None:
    """Values that onnxruntime passes through are copied."""
    text = "g (float[N, 8] x) => (float[N, 8] y, float[N, 8] z) { y = Identity(x) z = Identity(x) }"
    with _session(text) as session:
        x = ort.OrtValue.ortvalue_from_numpy(X, DEVICE.kind, 0)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_output("y", DEVICE.kind, 0)
        binding.bind_output("z", DEVICE.kind, 0)
        session.run_with_iobinding(binding)
        y, z = binding.get_outputs()
        assert len({x.data_ptr(), y.data_ptr(), z.data_ptr()}) == 3


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        ("g (float[N, 8] x) => (float[8, N] y) { a = Relu(x) y = Transpose <perm = [1, 0]> (a) }", {"x": X}),
        ("g (float[N, 8] x) => (float[N, 8] y) { y = Relu(x) }", {"x": X[:0]}),
        ("g (float x) => (float y) { y = Relu(x) }", {"x": np.float32(-2)}),
        ("g (bool[N] x, float16[N] z) => (bool[N] y, float16[N] w) { y = Not(x) w = Neg(z) }", {"x": [True], "z": [2]}),
        (
            """g (float[N, 8] x, int64 n, bool go) => (float[N, 8] last, float[T, N, 8] all) {
                last, all = Loop (n, go, x) <body = b (int64 i, bool c, float[N, 8] s)
                    => (bool d, float[N, 8] t, float[N, 8] u) { d = Identity(c) t = Add(s, x) u = Neg(t) }>
            }""",
            {"x": X, "n": np.int64(4), "go": np.bool_(True)},
        ),
        (SCAN, {"x": X.T.copy(), "i": X[0]}),
        (
            """g (float[N, 8] x, bool c) => (float[N, 8] y) {
                y = If (c) <then_branch = t () => (float[N, 8] p) { p = Relu(x) },
                    else_branch = e () => (float[N, 8] q) { q = Neg(x) }>
            }""",
            {"x": X, "c": np.bool_(False)},
        ),
    ],
    ids=["strided", "empty", "scalar", "narrow", "loop", "scan", "branches"],
)
def test_results_are_numpys(device: None, text: str, feeds: dict[str, Any]) -> None:
    """Each kind of value crosses the border, and control flow joins values of the device."""
    types = {"x": None, "z": np.float16}
    _equal_to_numpys(text, {name: np.asarray(value, types.get(name)) for name, value in feeds.items()})


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N, 8] x, int64[2] s) => (float[A, B] y) { a = Neg(x) y = Reshape(a, s) }",
        "g (float[N, 8] x) => (int64[2, M] y) { y = NonZero(x) }",
    ],
    ids=["shapes", "sizes by values"],
)
def test_values_that_may_be_empty_are_left_to_numpy(device: None, text: str) -> None:
    """Sizes that follow from the data of a run may be 0, and onnxruntime does not write all sums of nothing."""
    with _session(text) as session:
        assert NAME not in session.placement.counts()


def test_runs_that_a_device_does_not_compute_are_answered() -> None:
    """A provider that is not trusted with empty values: the session's others run it."""

    class Careful(_Bridge):
        @property
        def computes_empty_values(self) -> bool:
            return False

    text = "g (float[N, 8] x) => (float[N, 8] y) { y = Relu(x) }"
    careful = _Factory(Careful)
    with _registered(careful), _session(text) as session:
        for rows in (3, 0, 2):
            np.testing.assert_array_equal(session.run(None, {"x": X[:rows]})[0], np.maximum(X[:rows], 0))
        assert "declined 1 run(s)" in str(session.plan)


class _Value:
    """A value of the runtime that stands in: memory that is poison until the work that fills it is done."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], dtype: Any, _place: Any) -> _Value:
        return _Value(np.full(shape, np.nan, dtype))

    def shape(self) -> list[int]:
        return list(self.array.shape)

    def element_type(self) -> int:
        return 1

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def device_name(self) -> str:
        return DEVICE.kind

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.array.copy()

    def update_inplace(self, other: Any) -> None:
        self.array[...] = other.array if isinstance(other, _Value) else other


class _Runtime:
    """Stands in for onnxruntime's extension: runs are queued, and keep nothing alive.

    Attributes:
        queue: Work that was not waited for.
        waits: How often somebody waited.
    """

    OrtValue = _Value

    def __init__(self) -> None:
        self.queue: list[Callable[[], None]] = []
        self.waits = 0

    def wait(self) -> None:
        """Do the work in order."""
        self.waits += 1
        while self.queue:
            self.queue.pop(0)()

    class OrtValueVector(list[_Value]):
        """Values that it keeps."""

        push_back = list.append

    def RunOptions(self) -> Any:  # noqa: N802 - onnxruntime's name
        return native().RunOptions()

    def SessionIOBinding(self, session: _QueuedSession) -> _QueuedBinding:  # noqa: N802 - as above
        return _QueuedBinding(self)


class _QueuedBinding:
    def __init__(self, runtime: _Runtime) -> None:
        self._runtime = runtime
        self.inputs: dict[str, _Value] = {}
        self.outputs: list[str] = []
        self.made: list[_Value] = []

    def bind_ortvalue_input(self, name: str, value: _Value) -> None:
        self.inputs[name] = value

    def bind_output(self, name: str, _place: Any) -> None:
        self.outputs.append(name)

    def get_outputs(self) -> list[_Value]:
        return self.made

    def clear_binding_inputs(self) -> None:
        self.inputs = {}

    def clear_binding_outputs(self) -> None:
        self.outputs, self.made = [], []

    def synchronize_outputs(self) -> None:
        self._runtime.wait()


class _QueuedSession:
    """A session of onnxruntime whose runs are queued."""

    def __init__(self, session: Any, runtime: _Runtime) -> None:
        self._session = session
        self._runtime = runtime
        self.inputs_meta, self.outputs_meta = session.inputs_meta, session.outputs_meta

    def run_with_iobinding(self, binding: _QueuedBinding, options: Any) -> None:
        assert options.get_run_config_entry("disable_synchronize_execution_providers") == "1"
        names, given = list(binding.outputs), {name: weakref.ref(value) for name, value in binding.inputs.items()}
        shapes = {name: np.zeros(value.shape(), np.float32) for name, value in binding.inputs.items()}
        binding.made = [_Value(np.full_like(one, np.nan)) for one in self._session.run(names, shapes, None)]
        made = [weakref.ref(value) for value in binding.made]

        def work() -> None:
            feeds = {}
            for name, reference in given.items():
                value = reference()
                assert value is not None, f"the memory of '{name}' was given back before the run that reads it"
                feeds[name] = value.array
            for reference, result in zip(made, self._session.run(names, feeds, None), strict=True):
                value = reference()
                assert value is not None, "the memory of a result was given back before the run that writes it"
                value.array[...] = result

        self._runtime.queue.append(work)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Runtime]:
    """The runtime that stands in, and a provider with a stream of the user's."""
    runtime = _Runtime()
    for module in (device_arrays, device_region, device_values):
        monkeypatch.setattr(module, "native", lambda: runtime)

    class Queued(_Bridge):
        def compile(self, region: RegionView) -> CompiledRegion:
            model = model_of(region)
            session = _QueuedSession(make_session(model, SETTINGS), runtime)
            return OnnxruntimeRegion(session, model.weights, 1, residence=_residence(7))

    with _registered(_Factory(Queued, stream=7)):
        yield runtime


def test_queued_runs_are_in_order_and_keep_their_values(runtime: _Runtime) -> None:
    """Poison would show where somebody reads too early, and an error where a value goes too early."""
    with _session(AROUND) as session:
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal((3, 8)).round(1).astype(np.float32)
            a = np.maximum(x, 0)
            rounded = ort.InferenceSession(model_from_text(AROUND).SerializeToString(), providers=[CPU])
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], rounded.run(None, {"x": x})[0])
            np.testing.assert_allclose(session.run(None, {"x": x})[0], -2 * a, atol=1e-2)
        assert not runtime.queue


def test_queued_runs_are_waited_for_once(runtime: _Runtime) -> None:
    """Two regions in a row are queued; the wait comes with the copy to the host, or at the end of a binding's run."""
    text = """g (float[N, 8] x) => (float[N, 8] y) {
        a = Relu(x) s = Cast <to = 16> (x) t = Cast <to = 1> (s) u = Add(t, a) v = Cast <to = 16> (x)
        w = Cast <to = 1> (v) y = Sub(u, w)
    }"""
    with _session(text) as session:
        runtime.waits = 0
        result = session.run(None, {"x": X})[0]
        waits = runtime.waits
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(X, DEVICE.kind, 0))
        binding.bind_output("y", DEVICE.kind, 0)
        session.run_with_iobinding(binding)
        assert not runtime.queue
        np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), result)
    assert waits == 1


@pytest.mark.parametrize(
    ("text", "feeds"),
    [(SCAN, {"x": X.T.copy(), "i": X[0]}), (LOOP, {"x": X, "n": np.int64(4), "go": np.bool_(True)})],
    ids=["scan", "loop"],
)
def test_control_flow_waits_for_what_it_joins(runtime: _Runtime, text: str, feeds: dict[str, Any]) -> None:
    """Results of queued runs are cut and stacked on the host, no copy of the engine's in between."""
    _equal_to_numpys(text, feeds)


def test_nothing_is_kept_after_a_run(runtime: _Runtime) -> None:
    """Values that were held for the queue go when the run has ended."""
    with _session(AROUND) as session:
        made: list[weakref.ref[_Value]] = []
        init = _Value.__init__

        def noted(self: _Value, array: np.ndarray[Any, Any]) -> None:
            init(self, array)
            made.append(weakref.ref(self))

        _Value.__init__ = noted  # type: ignore[method-assign]
        try:
            session.run(None, {"x": X})
        finally:
            _Value.__init__ = init  # type: ignore[method-assign]
        assert len(made) >= 4
        assert [one for one in made if one() is not None] == []


def test_a_device_that_onnxruntime_does_not_reach_is_not_used() -> None:
    """This onnxruntime has no memory of such devices: values go through the host, as without one."""
    for name in ("CUDAExecutionProvider", "WebGpuExecutionProvider", "DmlExecutionProvider"):
        assert residence_of(Settings((Used(name, {"device_id": "0"}),), 1, completes=False)) is None
        assert values_on(Device(ROUTES[name].memory_kind), name) is None
    assert _Bridge(_residence()).device == DEVICE
    assert OnnxruntimeProvider(NAME, SETTINGS).device == HOST


def test_a_plugin_says_where_its_values_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its device has memory that onnxruntime copies to, or none of its own."""

    class Plugged:
        def __init__(self, info: Any) -> None:
            self._info = info

        def memory_info(self, kind: Any) -> Any:
            return self._info

    real = native()
    kinds = real.OrtMemoryInfoDeviceType.CPU, 0, 0, real.OrtDeviceMemoryType.DEFAULT, 0
    host = real.OrtMemoryInfo.create_v2("Cpu", *kinds, real.OrtAllocatorType.ORT_DEVICE_ALLOCATOR)
    monkeypatch.setitem(ROUTES, "ggml", Route("nobody", DeviceClass.GPU, memory="cpu"))
    for info, wanted in ((host, Device("cpu", 0)), (None, None)):
        used = Used("ggml", {}, (Plugged(info),))
        found = residence_of(Settings((used,), 1, completes=False))
        assert (None if found is None else found.device) == wanted


def test_devices_have_onnxruntimes_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a package of ort-py has arrays of another library under the name, they have another one."""
    kinds = {route.memory for route in ROUTES.values()} - {""}
    assert kinds == {"cuda", "gpu", "dml", "webgpu", "cann"}
    assert all(hasattr(native().OrtDevice, kind) for kind in kinds)
    assert ROUTES["WebGpuExecutionProvider"].memory_kind == "webgpu"
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name == "ort_py_cuda" else found(name))
    assert ROUTES["CUDAExecutionProvider"].memory_kind == "onnxruntime-cuda"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert ROUTES["CUDAExecutionProvider"].memory_kind == "cuda"
