"""Sessions whose regions take over the constants they pack: memory, reports, and who needs the original again."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py
from core.tests.compiling_provider import NAME, CompilingFactory, CompilingProvider
from ort_py.contracts import CompiledRegion, FunctionRegion, ProviderFactory, RegionInstance, RegionView
from ort_py.graph.weights.weight_store import process_store

Register = Callable[[ProviderFactory], None]
COUNT = 1 << 15
WEIGHT = np.random.default_rng(4).standard_normal(COUNT).astype(np.float32)
FEEDS = {"x": np.ones(COUNT, np.float32)}


class PackedSum(CompiledRegion):
    """``x + w`` with w kept as its negative; packed when it is compiled, or in the first run."""

    def __init__(self, view: RegionView, *, late: bool, fails: bool) -> None:
        (value,) = view.initializers
        weight = view.weight(value.name)
        assert weight is not None
        assert view.weight("x") is None
        self._weight, self._forms, self._fails = weight, view.packed_forms, fails
        self._held: object = weight.held() if late else None
        if not late:
            self._pack()

    def _pack(self) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = self._forms.packed(
            (self._weight.key,), "negative", lambda: np.negative(self._weight.array())
        )
        self._held = restore = lambda: np.negative(found)
        self._weight.replaced(restore)
        return found

    def instantiate(self, frame: Any) -> Any:
        return FunctionRegion(self._run).instantiate(frame)

    def _run(self, x: Any) -> Sequence[Any]:
        packed = self._pack()
        if self._fails:
            raise RuntimeError("set to fail")
        return [x - packed]


def packing(*, late: bool = False, fails: bool = False) -> CompilingFactory:
    """A provider that packs."""
    return CompilingFactory(lambda: CompilingProvider(lambda region: PackedSum(region, late=late, fails=fails)))


def model() -> bytes:
    """``y = x + w``."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [COUNT]) for name in "xy")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    )


@pytest.fixture(params=["file", "bytes"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str | bytes:
    """The model as a file or as bytes."""
    if request.param == "bytes":
        return model()
    path = tmp_path / "model.onnx"
    path.write_bytes(model())
    return str(path)


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """Collect the cycles of other tests, which would be found by their content."""
    gc.collect()


def opened(source: str | bytes) -> ort_py.InferenceSession:
    """A session whose only node the packing provider compiles, the CPU behind it."""
    return ort_py.InferenceSession(source, providers=[NAME, "CPUExecutionProvider"])


def right(session: ort_py.InferenceSession) -> bool:
    """Whether a run gives what it should."""
    return bool((session.run(None, FEEDS)[0] == FEEDS["x"] + WEIGHT).all())


@pytest.mark.parametrize("late", [False, True], ids=["compiling", "first run"])
def test_the_packed_form_takes_the_place_of_the_original(register: Register, source: str | bytes, late: bool) -> None:
    """Counted once, as packed; the original is in memory only until there is a form of it."""
    register(packing(late=late))
    with opened(source) as session:
        assert session.placement.counts() == {NAME: 1}
        before = session.memory_report()
        assert (before.weights, before.packed) == ((WEIGHT.nbytes, 0) if late else (0, WEIGHT.nbytes))
        assert right(session)
        report = session.memory_report()
        assert (report.weights, report.packed, report.weights_released) == (0, WEIGHT.nbytes, WEIGHT.nbytes)
        assert report.devices["cpu:0"].packed == WEIGHT.nbytes


def test_sessions_share_the_form(register: Register, source: str | bytes) -> None:
    """The second session packs nothing, and with the last one the form goes."""
    register(packing())
    before = process_store().stats().packed_bytes
    sessions = [opened(source) for _ in range(3)]
    assert all(right(session) for session in sessions)
    assert process_store().stats().packed_bytes - before == WEIGHT.nbytes
    for session in sessions:
        session.close()
    del session, sessions
    gc.collect()
    assert process_store().stats().packed_bytes == before


def test_run_fallback_gets_the_original_again(register: Register, source: str | bytes) -> None:
    """The provider that takes over reads the constant from the file, or from what the failed one made of it."""
    register(packing(fails=True))
    with opened(source) as session:
        assert right(session)
        assert session.placement.counts() == {"CPUExecutionProvider": 1}
        assert session.memory_report().weights == WEIGHT.nbytes


def test_a_session_of_bytes_is_pickled_with_its_constants(register: Register) -> None:
    """The bytes it was made of are made again, bit for bit."""
    register(packing())
    with opened(model()) as session, pickle.loads(pickle.dumps(session)) as copy:
        assert right(copy)


def test_the_first_run_needs_no_file(register: Register, tmp_path: Path) -> None:
    """A file may be gone once the session is made, though its region packs later."""
    register(packing(late=True))
    path = tmp_path / "model.onnx"
    path.write_bytes(model())
    with opened(str(path)) as session:
        path.unlink()
        assert right(session)


def test_external_data_is_given_up_too(register: Register, tmp_path: Path) -> None:
    """Its pages are the file's; the report counts them no more."""
    register(packing())
    path = tmp_path / "model.onnx"
    loaded = onnx.load_from_string(model())
    onnx.save(loaded, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with opened(str(path)) as session:
        assert right(session)
        report = session.memory_report()
        assert (report.weights, report.weights_mapped, report.packed) == (0, 0, WEIGHT.nbytes)


def test_what_instances_keep_is_workspace(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    """A region's own scratch memory is in the report, by its device; what cannot be asked is logged and left out."""
    register(packing())
    with opened(model()) as session:
        before = session.memory_report().workspace
        session.run(None, FEEDS)
        monkeypatch.setattr(RegionInstance, "reserved_bytes", lambda _: 12345)
        report = session.memory_report()
        assert report.workspace - before == 12345
        assert report.devices["cpu:0"].workspace == report.workspace

        def broken(_: RegionInstance) -> int:
            raise RuntimeError("no answer")

        monkeypatch.setattr(RegionInstance, "reserved_bytes", broken)
        assert session.memory_report().workspace == before
