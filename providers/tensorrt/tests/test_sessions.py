"""Sessions on a simulated GPU: engines that TensorRT-RTX built, run by a stand-in for its runtime.

Shown are copies, order, lifetimes, shapes and the choice of engines. What an engine computes on a device is not.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ort_py as ort
from ort_py.errors import EPFail
from ort_py_cuda import libraries
from ort_py_kit.tolerances import assert_close
from ort_py_tensorrt import engine_source
from ort_py_tensorrt.building import build
from ort_py_tensorrt.engine_cache import EngineCache
from ort_py_tensorrt.engine_source import EngineSource
from ort_py_tensorrt.job_files import Request
from ort_py_tensorrt.parsing import ask
from ort_py_tensorrt.questions import Asker
from ort_py_tensorrt.region import EngineRegion
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.workers import Worker
from providers.cuda.tests.stand_in.machine import Stream
from providers.tensorrt.tests.asking import left_behind
from providers.tensorrt.tests.models import bert, cnn, mlp, vit, with_weights
from providers.tensorrt.tests.stand_in import StandInLibrary

pytestmark = pytest.mark.usefixtures("toolkit", "gpu")

NAME = "NvTensorRTRTXExecutionProvider"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "cache"))
    gc.collect()  # engines of other tests that were built in the background, which no stand-in knows any longer


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Requests of the builds."""
    found: list[Any] = []
    build: Any = getattr(engine_source, "run_build")  # noqa: B009 - what `gpu` has put there

    def noting(request: Any, **options: Any) -> Any:
        found.append(request)
        return build(request, **options)

    monkeypatch.setattr(engine_source, "run_build", noting)
    return found


def _open(model: onnx.ModelProto, precision: str = "float32", **options: Any) -> ort.InferenceSession:
    chosen = ort.SessionOptions()
    chosen.precision = precision
    chosen.pin_cpu = True
    chosen.cost_model = "always"  # small models are not worth the copies
    given = {"claim_small": True, **options}
    return ort.InferenceSession(
        model.SerializeToString(), chosen, providers=[NAME, "CPUExecutionProvider"], provider_options=[given, {}]
    )


def _feeds(model: onnx.ModelProto, size: int = 3, seed: int = 5) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for one in model.graph.input:
        kind = one.type.tensor_type
        shape = [dim.dim_value or size for dim in kind.shape.dim]
        floats = kind.elem_type == onnx.TensorProto.FLOAT
        feeds[one.name] = random.normal(0, 1, shape).astype(np.float32) if floats else random.integers(0, 50, shape)
    return feeds


def _wanted(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


@pytest.mark.parametrize("model", [mlp(), cnn(), vit()], ids=["mlp", "cnn", "vit"])
def test_whole_models_run_as_one_engine(model: onnx.ModelProto) -> None:
    feeds = _feeds(model)
    with _open(model) as session:
        assert set(session.placement.counts()) == {NAME}
        for _ in range(3):
            assert_close(session.run(None, feeds), _wanted(model, feeds))
        assert not session.fallback_report


def test_an_encoder_runs_behind_its_embedding() -> None:
    model = bert(2, 8)
    feeds = _feeds(model)
    with _open(model) as session:
        assert set(session.placement.counts()) == {NAME, "CPUExecutionProvider"}
        assert_close(session.run(None, feeds), _wanted(model, feeds))


def test_open_sizes_are_built_at_the_first_run_and_again_for_others(builds: list[Any]) -> None:
    model = mlp("N")
    with _open(model) as session:
        assert not builds
        for size in (4, 4, 5, 8, 3, 9):
            feeds = _feeds(model, size)
            assert_close(session.run(None, feeds), _wanted(model, feeds))
    found = [request.profile.ranges[0] for request in builds]
    assert [(one.least[0], one.best[0], one.largest[0]) for one in found] == [
        (4, 4, 4),
        (4, 5, 8),
        (3, 3, 8),
        (3, 9, 16),
    ]


def test_a_graph_around_an_operator_that_the_parser_refuses() -> None:
    """Two engines, and the operator between them on the processor."""
    text = """g (float[2, 8] x) => (float[2, 8] y) {
        a = MatMul(x, w) b = Relu(a) c = Cast<to = 6>(b) d = BitwiseNot(c) e = Cast<to = 1>(d) y = MatMul(e, v) }"""
    model = with_weights(text, {"w": (8, 8), "v": (8, 8)})
    feeds = _feeds(model)
    with _open(model) as session:
        by_operator = {one.op_type: one for one in session.placement.nodes}
        assert by_operator["BitwiseNot"].provider == "CPUExecutionProvider"
        assert by_operator["MatMul"].provider == NAME
        assert "UNSUPPORTED_NODE: the operator is not supported" in str(by_operator["BitwiseNot"].refusals)
        assert_close(session.run(None, feeds), _wanted(model, feeds))


def test_the_next_session_builds_nothing(builds: list[Any]) -> None:
    feeds = _feeds(cnn())
    for _ in range(2):
        with _open(cnn()) as session:
            assert_close(session.run(None, feeds), _wanted(cnn(), feeds))
    assert len(builds) == 1


def test_the_next_session_finds_the_widest_engine(builds: list[Any]) -> None:
    """Shapes that one session has seen are no reason for another to build."""
    model = mlp("N")
    for sizes in ((2, 7), (2, 3, 7)):
        with _open(model) as session:
            for size in sizes:
                feeds = _feeds(model, size)
                assert_close(session.run(None, feeds), _wanted(model, feeds))
    assert len(builds) == 2


def test_given_shapes_are_built_at_once(builds: list[Any]) -> None:
    model = mlp("N")
    shapes = {f"nv_profile_{kind}_shapes": f"x:{size}x32" for kind, size in (("min", 1), ("opt", 4), ("max", 9))}
    with _open(model, **shapes) as session:
        assert len(builds) == 1
        for size in (1, 9):
            feeds = _feeds(model, size)
            assert_close(session.run(None, feeds), _wanted(model, feeds))
    assert len(builds) == 1


def test_an_engine_is_built_again_only_so_often() -> None:
    """Then the next provider runs the session, and the report says what to do."""
    model = mlp("N")
    with _open(model, max_rebuilds=1) as session:
        for size in (1, 2):
            session.run(None, _feeds(model, size))
        assert not session.fallback_report
        assert "built again 1 times" in str(session.plan)
        feeds = _feeds(model, 3)
        assert_close(session.run(None, feeds), _wanted(model, feeds))
        (entry,) = session.fallback_report
        assert "nv_profile_min_shapes" in str(entry)


def test_float16_is_the_precision_of_products(builds: list[Any]) -> None:
    feeds = _feeds(mlp())
    with _open(mlp(), precision="float16") as session:
        (found,), (wanted,) = session.run(None, feeds), _wanted(mlp(), feeds)
    assert builds[0].wishes.precision == "float16"
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 0 < error < 8 * 2.0**-11


def test_outputs_whose_shape_the_run_decides_come_from_an_allocator(gpu: StandInLibrary) -> None:
    gpu.hides_shapes = True
    feeds = _feeds(mlp())
    with _open(mlp()) as session:
        for _ in range(3):
            assert_close(session.run(None, feeds), _wanted(mlp(), feeds))
        assert not session.fallback_report


def test_threads_have_contexts_of_their_own() -> None:
    """The stand-in fails where two streams use one context."""
    feeds = [_feeds(mlp(), seed=seed) for seed in range(8)]
    wanted = [_wanted(mlp(), one) for one in feeds]
    found: dict[int, list[Any]] = {}
    with _open(mlp()) as session:
        barrier = threading.Barrier(4)

        def run(first: int) -> None:
            barrier.wait()
            for place in (first, first + 4):
                found[place] = session.run(None, feeds[place])

        threads = [threading.Thread(target=run, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not session.fallback_report
    for place, results in found.items():
        assert_close(results, wanted[place])
    assert len(found) == 8


def test_a_closed_session_has_released_its_contexts_then_its_engine_then_its_runtime(gpu: StandInLibrary) -> None:
    with _open(mlp()) as session:
        session.run(None, _feeds(mlp()))
    assert gpu.events == ["context gone", "engine gone", "runtime gone"]


def test_an_engine_that_is_replaced_is_released(gpu: StandInLibrary) -> None:
    model = mlp("N")
    with _open(model) as session:
        for size in (1, 2, 3):
            session.run(None, _feeds(model, size))
        gc.collect()
        assert gpu.events.count("engine gone") >= 1


def test_runs_are_captured_where_asked(gpu: StandInLibrary) -> None:
    for wanted in (False, True):
        with _open(mlp(), nv_cuda_graph_enable=wanted) as session:
            session.run(None, _feeds(mlp()))
        assert gpu.graphs.pop() is wanted


def test_kernels_that_are_compiled_at_loading_are_kept(tmp_path: Path) -> None:
    """By engine, for the next process."""
    for _ in range(3):
        with _open(mlp(), nv_runtime_cache_path=str(tmp_path / "kernels")) as session:
            session.run(None, _feeds(mlp()))
    (file,) = (tmp_path / "kernels").iterdir()
    assert file.read_bytes().endswith(b"kernels++")


def test_runs_go_to_the_callers_stream(gpu: StandInLibrary) -> None:
    stream = Stream(gpu.machine, 0, gpu.machine.new_handle())
    feeds = _feeds(mlp())
    with _open(mlp(), user_compute_stream=str(stream.ptr)) as session:
        assert_close(session.run(None, feeds), _wanted(mlp(), feeds))
    assert ("engine", stream.ptr, 0) in gpu.machine.log


@pytest.mark.parametrize(
    "call", ["create_execution_context", "set_input_shape", "set_tensor_address", "execute_async_v3"]
)
def test_a_call_that_fails_falls_back_and_says_why(call: str, gpu: StandInLibrary) -> None:
    feeds = _feeds(mlp())
    with _open(mlp()) as session:
        gpu.refuses = call
        assert_close(session.run(None, feeds), _wanted(mlp(), feeds))
        (entry,) = session.fallback_report
        assert f"{call} was refused" in str(entry)


def test_an_engine_that_does_not_load_falls_back_and_says_why(gpu: StandInLibrary) -> None:
    gpu.refuses = "deserialize_cuda_engine"
    feeds = _feeds(mlp())
    with _open(mlp()) as session:
        assert set(session.placement.counts()) == {"CPUExecutionProvider"}
        assert "deserialize_cuda_engine was refused" in str(session.fallback_report)
        assert_close(session.run(None, feeds), _wanted(mlp(), feeds))


def test_a_build_that_takes_too_long_falls_back() -> None:
    feeds = _feeds(cnn())
    with _open(cnn(), build_seconds=0.01) as session:
        assert "took longer than 0.01 seconds" in str(session.fallback_report)
        assert_close(session.run(None, feeds), _wanted(cnn(), feeds))


def _wait_for_builds() -> None:
    for thread in engine_source.background_builds():
        thread.join()


def test_the_next_provider_runs_until_the_background_has_built() -> None:
    """The same session then uses the engine, and so does the next one from its start."""
    feeds = _feeds(cnn())
    with _open(cnn(), build_in_background=True) as session:
        assert set(session.placement.counts()) == {"CPUExecutionProvider"}
        assert "is being built in the background" in str(session.fallback_report)
        assert_close(session.run(None, feeds), _wanted(cnn(), feeds))
        _wait_for_builds()
        assert_close(session.run(None, feeds), _wanted(cnn(), feeds))
        assert set(session.placement.counts()) == {NAME}
        assert session.state == "ready"
    with _open(cnn(), build_in_background=True) as session:
        assert set(session.placement.counts()) == {NAME}
        assert_close(session.run(None, feeds), _wanted(cnn(), feeds))


def test_the_next_provider_runs_shapes_whose_engine_is_built_in_the_background(builds: list[Any]) -> None:
    """At the first run, and when the shapes grow."""
    model = mlp("N")
    with _open(model, build_in_background=True) as session:
        for count, size in enumerate((3, 40), 1):
            feeds = _feeds(model, size)
            assert_close(session.run(None, feeds), _wanted(model, feeds))
            assert set(session.placement.counts()) == {"CPUExecutionProvider"}
            _wait_for_builds()
            assert_close(session.run(None, feeds), _wanted(model, feeds))
            assert set(session.placement.counts()) == {NAME}
            assert len(builds) == count
        feeds = _feeds(model, 3)
        assert_close(session.run(None, feeds), _wanted(model, feeds))
        assert set(session.placement.counts()) == {NAME}


def test_builds_in_the_background_are_counted(builds: list[Any]) -> None:
    """A session that changes to an engine and back does not begin to count again."""
    model = mlp("N")
    with _open(model, build_in_background=True, max_rebuilds=1) as session:
        for size in (3, 40, 300, 5000):
            feeds = _feeds(model, size)
            assert_close(session.run(None, feeds), _wanted(model, feeds))
            _wait_for_builds()
            session.run(None, feeds)
        assert len(builds) == 2
        assert "was built again 1 times" in str(session.fallback_report)


def test_threads_that_wait_for_one_build_count_it_once(builds: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them have begun with the engine that is too small when the first one leaves it."""
    model = mlp("N")
    together = threading.Barrier(4)
    engine_for = EngineRegion.engine_for
    found: list[Any] = []

    def waiting(*args: Any) -> Any:
        try:
            return engine_for(*args)
        except EPFail:
            together.wait(60)
            raise

    with _open(model, build_in_background=True, max_rebuilds=1) as session:
        session.run(None, _feeds(model, 3))
        _wait_for_builds()
        session.run(None, _feeds(model, 3))
        feeds = _feeds(model, 40)
        with monkeypatch.context() as patched:
            patched.setattr(EngineRegion, "engine_for", waiting)
            threads = [threading.Thread(target=lambda: found.extend(session.run(None, feeds))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        _wait_for_builds()
        for result in [*found, *session.run(None, feeds)]:
            assert_close([result], _wanted(model, feeds))
        assert len(found) == 4
        assert set(session.placement.counts()) == {NAME}


def test_a_given_profile_that_grows_in_the_background_is_counted_once(builds: list[Any]) -> None:
    """The region is compiled with the given shapes again, and wants the engine that was built meanwhile."""
    model = mlp("N")
    given = {f"nv_profile_{part}_shapes": f"x:{size}x32" for part, size in (("min", 1), ("opt", 2), ("max", 2))}
    with _open(model, build_in_background=True, max_rebuilds=1, **given) as session:
        _wait_for_builds()
        for size in (2, 5):
            feeds = _feeds(model, size)
            assert_close(session.run(None, feeds), _wanted(model, feeds))
            _wait_for_builds()
        assert_close(session.run(None, feeds), _wanted(model, feeds))
        assert set(session.placement.counts()) == {NAME}
        assert len(builds) == 2


def test_an_engine_that_the_cache_cannot_keep_is_used(monkeypatch: pytest.MonkeyPatch, builds: list[Any]) -> None:
    """A full disk does not make the session build again and again."""
    monkeypatch.setattr(EngineCache, "put_engine", lambda *_: None)
    feeds = _feeds(cnn())
    with _open(cnn(), build_in_background=True) as session:
        _wait_for_builds()
        for _ in range(3):
            assert_close(session.run(None, feeds), _wanted(cnn(), feeds))
        assert set(session.placement.counts()) == {NAME}
    assert len(builds) == 1


def test_a_build_that_ends_while_a_session_looks_for_it_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, builds: list[Any]
) -> None:
    """The session has not found the engine; it has to find the build."""
    find = EngineSource.find

    def late(self: EngineSource, profile: Any) -> bytes | None:
        found = find(self, profile)
        if threading.current_thread() is threading.main_thread():
            _wait_for_builds()
        return found

    monkeypatch.setattr(EngineCache, "put_engine", lambda *_: None)
    monkeypatch.setattr(EngineSource, "find", late)
    feeds = _feeds(cnn())
    with _open(cnn(), build_in_background=True) as first, _open(cnn(), build_in_background=True) as second:
        for session in (first, second):
            assert_close(session.run(None, feeds), _wanted(cnn(), feeds))
            assert set(session.placement.counts()) == {NAME}
    assert len(builds) == 1


def test_a_build_in_the_background_that_fails_is_reported_once() -> None:
    feeds = _feeds(cnn())
    with _open(cnn(), build_in_background=True, build_seconds=0.01) as session:
        _wait_for_builds()
        for _ in range(3):
            assert_close(session.run(None, feeds), _wanted(cnn(), feeds))
        assert set(session.placement.counts()) == {"CPUExecutionProvider"}
        assert str(session.fallback_report).count("took longer than 0.01 seconds") == 1


def test_native_regions_run_until_the_background_has_built() -> None:
    """The provider that takes over may change the graph for itself; the engine's nodes are found again."""
    pytest.importorskip("ort_py_onednn", reason="a native provider on the host")
    feeds = _feeds(cnn())
    chosen = ort.SessionOptions()
    chosen.pin_cpu, chosen.cost_model = True, "always"
    names: list[Any] = [
        (NAME, {"claim_small": True, "build_in_background": True}),
        "DnnlExecutionProvider",
        "CPUExecutionProvider",
    ]
    with ort.InferenceSession(cnn().SerializeToString(), chosen, providers=names) as session:
        assert NAME not in session.placement.counts()
        _wait_for_builds()
        for _ in range(2):
            assert_close(session.run(None, feeds), _wanted(cnn(), feeds))
        assert set(session.placement.counts()) == {NAME}


@pytest.fixture
def stripping(gpu: StandInLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build engines with their weights where they are to have none, which TensorRT-RTX needs a GPU for."""
    build: Any = getattr(engine_source, "run_build")  # noqa: B009 - what `gpu` has put there

    def built(request: Request, **options: Any) -> Any:
        whole = replace(request, wishes=replace(request.wishes, stripped=False))
        plan, times = build(whole, **options)
        return gpu.know(b"without weights" + plan[:64], request), times

    monkeypatch.setattr(engine_source, "run_build", built)


@pytest.mark.usefixtures("stripping")
@pytest.mark.parametrize("rows", [3, "N"])
def test_an_engine_without_weights_gets_those_of_the_model(rows: int | str, gpu: StandInLibrary) -> None:
    """Before its first context, and again in the next session, which finds it in the cache."""
    model = mlp(rows)
    feeds = _feeds(model)
    for _ in range(2):
        gpu.events.clear()
        with _open(model, nv_weight_stripped_engine_enable=True) as session:
            assert_close(session.run(None, feeds), _wanted(model, feeds))
            assert set(session.placement.counts()) == {NAME}
            assert gpu.events == ["refitted"]


@pytest.mark.usefixtures("stripping")
def test_engines_with_and_without_weights_are_not_confused(gpu: StandInLibrary, builds: list[Any]) -> None:
    feeds = _feeds(mlp())
    for stripped in (True, False, True):
        with _open(mlp(), nv_weight_stripped_engine_enable=stripped) as session:
            assert_close(session.run(None, feeds), _wanted(mlp(), feeds))
            assert set(session.placement.counts()) == {NAME}
    assert [request.wishes.stripped for request in builds] == [True, False]


@pytest.mark.usefixtures("stripping")
@pytest.mark.parametrize("call", ["refit_model_proto", "refit_cuda_engine"])
def test_weights_that_an_engine_does_not_take_fall_back_and_say_why(call: str, gpu: StandInLibrary) -> None:
    gpu.refuses = call
    feeds = _feeds(mlp())
    with _open(mlp(), nv_weight_stripped_engine_enable=True) as session:
        assert set(session.placement.counts()) == {"CPUExecutionProvider"}
        assert "does not take the weights of an engine" in str(session.fallback_report)
        assert f"{call} was refused" in str(session.fallback_report)
        assert_close(session.run(None, feeds), _wanted(mlp(), feeds))


def test_a_run_that_is_ended_ends_its_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And leaves nothing of it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model, options = cnn("N"), ort.RunOptions()
    send = Worker.send

    def sending(worker: Worker, kind: str, request: Any) -> Path:
        options.terminate = options.terminate or kind == "build"
        return send(worker, kind, request)

    monkeypatch.setattr(Worker, "send", sending)
    with _open(model) as session, pytest.raises(ort.OrtPyError):
        session.run(None, _feeds(model), options)
    assert not left_behind(tmp_path)


def test_values_without_elements_are_left_to_the_next_provider() -> None:
    model = mlp("N")
    feeds = _feeds(model)
    feeds["x"] = feeds["x"][:0]
    with _open(model) as session:
        assert_close(session.run(None, feeds), _wanted(model, feeds))
        assert "declined 1 run(s)" in session.plan


def test_a_compiled_model_holds_the_engine(builds: list[Any], tmp_path: Path) -> None:
    """`.ortpy` files start without building."""
    model = tmp_path / "m.onnx"
    onnx.save(cnn(), model)
    given: list[Any] = [(NAME, {"claim_small": True}), "CPUExecutionProvider"]
    options = ort.SessionOptions()
    options.pin_cpu, options.cost_model = True, "always"
    ort.compile_model(str(model), str(tmp_path / "m.ortpy"), options, providers=given)
    assert len(builds) == 1
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    feeds = _feeds(cnn())
    with ort.InferenceSession(str(tmp_path / "m.ortpy")) as session:
        assert set(session.placement.counts()) == {NAME}
        assert_close(session.run(None, feeds), _wanted(cnn(), feeds))
    assert len(builds) == 1


def test_values_stay_on_the_gpu_between_engines_and_kernels(gpu: StandInLibrary) -> None:
    """With the CUDA provider behind it, the embedding runs there, and nothing comes to the host in between."""
    model = bert(2, 8)
    feeds = _feeds(model)
    chosen = ort.SessionOptions()
    chosen.cost_model = "always"
    names: list[Any] = [(NAME, {"claim_small": True}), "CUDAExecutionProvider", "CPUExecutionProvider"]
    with ort.InferenceSession(model.SerializeToString(), chosen, providers=names) as session:
        assert set(session.placement.counts()) == {NAME, "CUDAExecutionProvider"}
        session.run(None, feeds)
        gpu.machine.log.clear()
        assert_close(session.run(None, feeds), _wanted(model, feeds))
        moved = [what for what, _, _ in gpu.machine.log if what in {"upload", "download", "engine", "pageable"}]
    assert moved.count("upload") == 1
    assert moved[-2:] == ["engine", "download"]


def test_inputs_and_outputs_may_be_bound_to_the_gpu(gpu: StandInLibrary) -> None:
    feeds = _feeds(mlp())
    with _open(mlp()) as session:
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(feeds["x"], "cuda", 0))
        binding.bind_output("y", "cuda", 0)
        for _ in range(2):
            gpu.machine.log.clear()
            session.run_with_iobinding(binding)
            assert not [what for what, _, _ in gpu.machine.log if what in {"upload", "download", "pageable"}]
        (found,) = binding.get_outputs()
        assert found.device_name() == "cuda"
        assert_close([found.numpy()], _wanted(mlp(), feeds))


def test_bodies_of_control_flow_have_engines_of_their_own(builds: list[Any]) -> None:
    text = """g (bool c, float[2, 8] x) => (float[2, 8] y) { y = If(c) <
        then_branch = t () => (float[2, 8] a) { a = MatMul(x, w) },
        else_branch = e () => (float[2, 8] b) { d = MatMul(x, v) b = Relu(d) }> }"""
    model = with_weights(text, {"w": (8, 8), "v": (8, 8)})
    with _open(model) as session:
        for condition in (True, False):
            feeds = {**_feeds(with_weights("g (float[2, 8] x) => (float[2, 8] y) { y = Relu(x) }", {}))}
            feeds["c"] = np.array(condition)
            assert_close(session.run(None, feeds), _wanted(model, feeds))
        assert not session.fallback_report
    assert len(builds) == 2


def test_a_model_of_external_data_is_built(tmp_path: Path) -> None:
    """Its weights are mapped, and reach the builder by their addresses."""
    path = tmp_path / "m.onnx"
    onnx.save(mlp(), path, save_as_external_data=True, location="weights", size_threshold=0)
    chosen = ort.SessionOptions()
    chosen.pin_cpu, chosen.cost_model = True, "always"
    feeds = _feeds(mlp())
    names: list[Any] = [(NAME, {"claim_small": True}), "CPUExecutionProvider"]
    with ort.InferenceSession(str(path), chosen, providers=names) as session:
        assert set(session.placement.counts()) == {NAME}
        assert_close(session.run(None, feeds), _wanted(mlp(), feeds))


def test_tensorrt_measures_on_the_sessions_gpu_and_keeps_its_times(
    gpu: StandInLibrary, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other provider: TensorRT-RTX builds in its place, in this process."""
    asked: list[tuple[Any, Any]] = []

    def built(request: Any, *, device: int | None, **_options: Any) -> tuple[bytes, bytes]:
        asked.append((device, request.times))
        plan, _ = build(toolkit, request.model, request.profile, request.wishes)
        return gpu.know(plan, request), b"measured"

    monkeypatch.setattr(engine_source, "run_build", built)
    monkeypatch.setattr(Asker, "ask", lambda _, model: ask(toolkit, model))
    monkeypatch.setattr("ort_py_cuda.capture.runs.host_work", lambda graph, driver: None)
    monkeypatch.setattr(libraries, "load", lambda name: None)
    name = "TensorrtExecutionProvider"
    chosen = ort.SessionOptions()
    chosen.pin_cpu, chosen.cost_model, chosen.cache_dir = True, "always", str(tmp_path / "own")
    for model in (mlp(), mlp(seed=8), mlp()):
        feeds = _feeds(model)
        given = {"claim_small": True, "trt_cuda_graph_enable": True}
        names: list[Any] = [(name, given), "CPUExecutionProvider"]
        with ort.InferenceSession(model.SerializeToString(), chosen, providers=names) as session:
            assert set(session.placement.counts()) == {name}
            for _ in range(3):
                assert_close(session.run(None, feeds), _wanted(model, feeds))
            assert [what for what, _, _ in gpu.machine.log].count("replay") > 0
            gpu.machine.log.clear()
    assert asked == [(0, b""), (0, b"measured")]
    assert (tmp_path / "own" / "tensorrt").is_dir()
