"""A session's life: what it accepts, closing it, what it keeps alive, and many threads at once."""

from __future__ import annotations

import gc
import pathlib
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py
from core.tests.small_models import CPU, RELU, external_model, model_bytes, open_model
from ort_py import InferenceSession, InvalidArgument, SessionOptions

X = np.array([[-1.0, 2.0, -3.0]], np.float32)


def sources(folder: pathlib.Path) -> dict[str, Any]:
    """The same model in every form a session takes."""
    content = model_bytes(RELU)
    path = folder / "model.onnx"
    path.write_bytes(content)
    return {"str": str(path), "path": path, "bytes": content, "proto": onnx.load_from_string(content)}


@pytest.mark.parametrize("form", ["str", "path", "bytes", "proto"])
def test_every_form_of_a_model(form: str, tmp_path: pathlib.Path) -> None:
    """Text and object paths, bytes and ModelProto all make a session."""
    session = InferenceSession(sources(tmp_path)[form], providers=CPU)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))


@pytest.mark.parametrize("source", [None, 3, object()], ids=["None", "int", "object"])
def test_other_sources_are_refused(source: Any) -> None:
    """A source that is not a model is refused by its type."""
    with pytest.raises(InvalidArgument, match=f"cannot be loaded from a {type(source).__name__}"):
        InferenceSession(source, providers=CPU)


def test_falsy_options_count_as_none() -> None:
    """An empty dict is taken as no options, as in onnxruntime."""
    assert open_model(RELU, {}).run(None, {"x": X})  # type: ignore[arg-type]  # what applications do


def test_other_options_are_refused() -> None:
    """Another type of options is a TypeError that names it."""
    with pytest.raises(TypeError, match="sess_options must be a SessionOptions, not dict"):
        open_model(RELU, {"intra_op_num_threads": 1})  # type: ignore[arg-type]  # the mistake under test


def test_options_are_copied() -> None:
    """Changing options later has no effect on the session."""
    options = SessionOptions()
    options.logid = "first"
    session = open_model(RELU, options)
    options.logid = "second"
    assert session.get_session_options().logid == "first"
    session.get_session_options().logid = "third"
    assert session.get_session_options().logid == "first"


def test_context_manager_closes() -> None:
    """A ``with`` block closes the session at its end."""
    with open_model(RELU) as session:
        assert session.state == "ready"
    assert session.state == "closed"


def test_context_manager_closes_after_an_error() -> None:
    """Also when the block raises, and the error passes through."""
    session = open_model(RELU)
    with pytest.raises(KeyError), session:
        raise KeyError
    assert session.state == "closed"


def test_closing_twice_is_harmless() -> None:
    session = open_model(RELU)
    session.close()
    session.close()
    assert session.state == "closed"


def test_use_after_close_says_so() -> None:
    """Running a closed session is refused with what to do."""
    session = open_model(RELU)
    session.close()
    with pytest.raises(InvalidArgument, match=r"The session is closed\.") as caught:
        session.run(None, {"x": X})
    assert caught.value.fix == "Create a new InferenceSession."


def test_closed_session_says_so_in_its_representation() -> None:
    """The representation tells open from closed, and shows how many nodes each provider runs."""
    session = open_model(RELU)
    assert "CPUExecutionProvider: 1" in repr(session)
    session.close()
    assert repr(session) == "<InferenceSession g: closed>"


def test_feeds_are_not_kept_alive() -> None:
    """After a run the session holds no feed."""

    class Tracked(np.ndarray[Any, Any]):
        """An array that can be watched."""

    session = open_model(RELU)
    feed = X.view(Tracked)
    alive = weakref.ref(feed)
    session.run(None, {"x": feed})
    del feed
    gc.collect()
    assert alive() is None


def test_plain_feed_is_not_kept_alive() -> None:
    """An exact array goes into its slot as it is, and out of it after the run."""
    session = open_model(RELU)
    feed = X.copy()
    alive = weakref.ref(feed)
    session.run(None, {"x": feed})
    del feed
    gc.collect()
    assert alive() is None


def test_feeds_of_a_failed_run_are_not_kept_alive() -> None:
    """A run that was refused holds nothing either."""
    session = open_model("g (float[N] a, float[M] b) => (float[K] c) { c = Add(a, b) }")
    feed = np.zeros(2, np.float32)
    alive = weakref.ref(feed)
    with pytest.raises(ort_py.OrtPyError):
        session.run(None, {"a": feed, "b": np.zeros(3, np.float32)})
    del feed
    gc.collect()
    assert alive() is None


def test_results_are_not_kept_alive() -> None:
    """The session forgets what it returned."""
    session = open_model(RELU)
    (result,) = session.run(None, {"x": X})
    alive = weakref.ref(result)
    del result
    gc.collect()
    assert alive() is None


def test_sessions_are_collected() -> None:
    """A session that was not closed is collected after its last reference."""
    session = open_model(RELU)
    session.run(None, {"x": X})
    alive = weakref.ref(session)
    del session
    gc.collect()
    assert alive() is None


def test_model_bytes_may_go() -> None:
    """A session does not read the caller's bytes after it was created."""
    weights = np.arange(64, dtype=np.float32)
    model = onnx.load_from_string(model_bytes("g (float[64] x) => (float[64] y) { y = Add(x, w) }"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    content = bytearray(model.SerializeToString())
    del model
    session = InferenceSession(bytes(content), providers=CPU)
    content[:] = b"\xff" * len(content)
    del content
    gc.collect()
    np.testing.assert_array_equal(session.run(None, {"x": np.zeros(64, np.float32)})[0], weights)


def test_proto_is_left_as_it_was() -> None:
    """A ModelProto given by the caller is not changed."""
    proto = onnx.load_from_string(model_bytes(RELU))
    before = proto.SerializeToString(deterministic=True)
    InferenceSession(proto, providers=CPU)
    assert proto.SerializeToString(deterministic=True) == before


def test_eight_threads_get_their_own_results() -> None:
    """Many threads run one session at once with different shapes, without mixing their results."""
    session = open_model(
        "g (float[N, 4] x) => (float[N, 4] y) { t = Transpose(x) a = MatMul(x, t) b = Relu(a) y = MatMul(b, x) }"
    )
    start = threading.Barrier(8)

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        start.wait(timeout=60)
        for turn in range(25):
            x = rng.standard_normal((1 + (number + turn) % 5, 4)).astype(np.float32)
            (result,) = session.run(None, {"x": x})
            np.testing.assert_allclose(result, np.maximum(x @ x.T, 0) @ x, rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, number) for number in range(8)]:
            done.result()


def test_closing_while_others_run() -> None:
    """Threads that run while the session is closed get a result or a clear refusal, never anything else."""
    session = open_model(RELU)
    stop = threading.Event()

    def work() -> int:
        done = 0
        while not stop.is_set():
            try:
                (result,) = session.run(None, {"x": X})
            except InvalidArgument as error:
                assert error.what == "The session is closed."  # noqa: PT017 - the loop must go on without it
                break
            np.testing.assert_array_equal(result, np.maximum(X, 0))
            done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work) for _ in range(4)]
        while not all(future.running() or future.done() for future in futures):
            pass
        session.close()
        try:
            for future in futures:
                future.result(timeout=60)
        finally:
            stop.set()


def test_load_report_names_the_stages() -> None:
    """Each stage of creation is in the report with its time."""
    report = open_model(RELU).load_report
    assert [stage.stage for stage in report.stages] == [
        "providers",
        "load",
        "validate",
        "infer types",
        "optimise",
        "partition",
        "compile",
        "plan",
    ]
    assert report.seconds == sum(stage.seconds for stage in report.stages)
    assert "total" in str(report)


def test_placement_says_who_runs_each_node() -> None:
    """One entry a node, with operator, runner and reason; as text, as counts and as JSON."""
    placement = open_model(RELU).placement
    (node,) = placement
    assert (node.op_type, node.provider, node.runner, node.refusals) == ("Relu", "CPUExecutionProvider", "kernel", ())
    assert placement.counts() == {"CPUExecutionProvider": 1}
    assert placement.to_json()["nodes"][0]["op_type"] == "Relu"
    assert "Relu" in str(placement)


def test_plan_prints() -> None:
    """The plan is text that names its steps, inputs and outputs."""
    plan = open_model(RELU).plan
    for part in ("Relu", "in  x", "out y"):
        assert part in plan


def test_memory_report_counts_weights() -> None:
    session = open_model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    assert session.memory_report().weights == 8


def test_trim_keeps_the_session_usable() -> None:
    """Giving memory back changes no result."""
    session = open_model(RELU)
    session.run(None, {"x": X})
    session.trim()
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))


def test_threads_say_why() -> None:
    """The number of threads comes with its reason."""
    options = SessionOptions()
    options.intra_op_num_threads = 1
    threads = open_model(RELU, options).threads
    assert threads.count == 1
    assert threads.reason


def test_provider_options_are_listed_as_text() -> None:
    """Options of each provider, as in onnxruntime."""
    session = open_model(RELU)
    assert session.get_providers() == CPU
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}


def test_a_closed_session_holds_no_weights_of_bytes() -> None:
    """Bytes from which another session could be made go too, although the closed one is still referred to."""
    weights = numpy_helper.from_array(np.ones((1024, 1024), np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 1024]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    data = model.SerializeToString()
    del weights, graph, model
    InferenceSession(data, providers=CPU).close()  # what is loaded once
    gc.collect()
    tracemalloc.start()
    try:
        session = InferenceSession(data, providers=CPU)
        session.run(None, {"x": np.ones((2, 1024), np.float32)})
        used = tracemalloc.get_traced_memory()[0]
        session.close()
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used - left > len(data) * 0.9
    assert left < len(data) / 4


def test_files_of_a_closed_session_can_be_replaced(tmp_path: pathlib.Path) -> None:
    """Also on Windows, which keeps a file as long as it is mapped."""
    path = external_model(tmp_path / "models")
    session = InferenceSession(path, providers=CPU)
    session.run(None, {"x": np.zeros(4096, np.float32)})
    session.close()
    for file in list(path.parent.iterdir()):
        file.rename(file.with_name(f"{file.name}.old"))
