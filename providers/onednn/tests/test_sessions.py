"""Sessions with regions: threads, forks, shapes that change, weights that are shared, closing."""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py as ort
from ort_py.errors import LimitError
from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.execution.packed_weights import Weight
from ort_py_onednn.execution.region import DnnlRegion
from ort_py_onednn.execution.shape_memory import shape_memory
from providers.onednn.tests.models import PROVIDER, model, node, open_session, run_plain

RNG = np.random.default_rng(3)
NODES = [
    node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
    node("Relu", "a", "b"),
    node("Conv", "b v", "c", pads=[1, 1, 1, 1]),
    node("Add", "c b", "d"),
    node("GlobalAveragePool", "d", "p"),
    node("Flatten", "p", "f"),
    node("Gemm", "f g h", "y"),
]


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32) * np.float32(0.25)


WEIGHTS = {"w": _f(32, 3, 3, 3), "v": _f(32, 32, 3, 3), "g": _f(32, 10), "h": _f(10)}


def _network(size: int = 24, *, dynamic: bool = False) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
    feeds = {"x": _f(1, 3, size, size)}
    return model(NODES, feeds, WEIGHTS, dynamic=dynamic), feeds


@pytest.mark.parametrize("threads", [1, 2])
def test_eight_threads_run_one_session(threads: int) -> None:
    """Each run has a frame of its own, and the library's scratch memory is never shared."""
    data, feeds = _network()
    pictures = [_f(*feeds["x"].shape) for _ in range(8)]
    wanted = [run_plain(data, {"x": picture}) for picture in pictures]
    errors: list[BaseException] = []

    def work(place: int) -> None:
        try:
            for _ in range(20):
                assert_close(session.run(None, {"x": pictures[place]}), wanted[place])
        except BaseException as error:
            errors.append(error)

    with open_session(data, threads) as session:
        workers = [threading.Thread(target=work, args=(place,)) for place in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not errors, errors[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this platform")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_runs_a_session_of_its_parent() -> None:
    """OpenMP's team of the parent does not exist in the child; it must not be waited for."""
    data, feeds = _network(64)
    with open_session(data, 2) as session:
        wanted = session.run(None, feeds)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if np.array_equal(session.run(None, feeds)[0], wanted[0]) else 2
            finally:
                os._exit(status)
        done: list[int] = []
        waiter = threading.Thread(target=lambda: done.append(os.waitpid(child, 0)[1]))
        waiter.start()
        waiter.join(60)
        if not done:
            os.kill(child, 9)
            waiter.join()
            pytest.fail("the child waits for threads that it does not have")
        assert done == [0]
        np.testing.assert_array_equal(session.run(None, feeds)[0], wanted[0])


def test_shapes_may_change_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan for each, made once: a shape that comes again is not planned again."""
    planned: list[Any] = []
    original = DnnlRegion._planned

    def count(self: DnnlRegion, *arguments: Any) -> Any:
        planned.append(arguments)
        return original(self, *arguments)

    monkeypatch.setattr(DnnlRegion, "_planned", count)
    data, _ = _network(dynamic=True)
    with open_session(data) as session:
        assert not planned
        for _ in range(2):
            for size in (8, 17, 24, 9):
                feeds = {"x": _f(1, 3, size, size + 1)}
                assert_close(session.run(None, feeds), run_plain(data, feeds))
        assert len(planned) == 4


def test_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless variety costs no endless memory, and what was dropped is planned again; closing gives all of it back."""
    data = model([node("MatMul", "x w", "m"), node("Relu", "m", "y")], {"x": _f(3, 8)}, {"w": _f(8, 8)}, dynamic=True)
    gc.collect()
    monkeypatch.setattr(shape_memory, "allowed", 1 << 20)
    planned: list[Any] = []
    original = DnnlRegion._planned

    def count(self: DnnlRegion, *arguments: Any) -> Any:
        planned.append(arguments)
        return original(self, *arguments)

    monkeypatch.setattr(DnnlRegion, "_planned", count)
    with open_session(data) as session:
        for rows in [*range(1, 40), 1]:
            feeds = {"x": _f(rows, 8)}
            assert_close(session.run(None, feeds), run_plain(data, feeds))
            assert shape_memory.nbytes <= 1 << 20
        assert len(planned) == 40
        before = len(shape_memory)
        assert before > 2
    assert len(shape_memory) < before


def test_packed_weights_are_shared_and_go_with_their_last_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four sessions of one model pack once, and each reports it; the next one after them packs again."""
    made: list[int] = []
    reordered = Weight._reordered

    def counted(weight: Weight, desc: Desc, seen: Desc) -> Any:
        made.append(1)
        return reordered(weight, desc, seen)

    monkeypatch.setattr(Weight, "_reordered", counted)
    gc.collect()
    data, feeds = _network()
    sessions = [open_session(data)]
    once, packed = len(made), sessions[0].memory_report().packed
    assert once > 0
    assert packed > sum(WEIGHTS[name].nbytes for name in "wv")
    sessions += [open_session(data) for _ in range(3)]
    for session in sessions:
        session.run(None, feeds)
        assert session.memory_report().packed == packed
    assert len(made) == once
    for session in sessions:
        session.close()
    del session, sessions
    gc.collect()
    with open_session(data):
        assert len(made) == 2 * once


def test_a_released_original_is_restored_from_what_was_packed() -> None:
    """Bit for bit: groups, blocks that end in zeroes, transposed matrices."""
    weights = {"w": _f(24, 3, 3, 3), "u": _f(40, 24, 3, 3), "v": _f(40, 20, 3, 3), "g": _f(50, 40), "h": _f(50)}
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Conv", "a u", "b"),
        node("Conv", "b v", "c", group=2),
        node("GlobalAveragePool", "c", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f g h", "y", transB=1),
    ]
    feeds = {"x": _f(1, 3, 12, 12)}
    with open_session(model(nodes, feeds, weights)) as session:
        before = session.run(None, feeds)
        report = session.memory_report()
        # Convolutions of groups read their weights as they are on processors without AVX2: nothing is packed there.
        assert report.weights_released >= sum(weights[name].nbytes for name in "ug")
        with pickle.loads(pickle.dumps(session)) as copy:
            np.testing.assert_array_equal(copy.run(None, feeds), before)
        assert_close(before, run_plain(model(nodes, feeds, weights), feeds))


def test_one_matrix_read_in_two_ways() -> None:
    """A square matrix that a product reads as it is and another one transposed is two packed forms."""
    nodes = [node("Gemm", "x w", "a", transB=1), node("MatMul", "a w", "y")]
    data, feeds = model(nodes, {"x": _f(4, 64)}, {"w": _f(64, 64)}), {"x": _f(4, 64)}
    with open_session(data) as session:
        assert session.placement.counts() == {PROVIDER: 2}
        assert_close(session.run(None, feeds), run_plain(data, feeds))


def test_outputs_belong_to_the_caller() -> None:
    """The next run does not write over them, and none is an input."""
    data = model(
        [node("Relu", "x", "a"), node("Identity", "a", "y"), node("Identity", "x", "z")],
        {"x": _f(90, 100)},
        outputs=["y", "z", "a"],
    )
    x = _f(90, 100)
    with open_session(data) as session:
        first = session.run(None, {"x": x})
        kept = [np.array(array) for array in first]
        session.run(None, {"x": -x})
        for array, copy in zip(first, kept, strict=True):
            np.testing.assert_array_equal(array, copy)
        arrays = [*first, x]
        for place, one in enumerate(arrays):
            assert not any(np.shares_memory(one, other) for other in arrays[place + 1 :])


def test_something_made_of_nothing_goes_to_another_provider() -> None:
    """A sum of no elements is zero: oneDNN has no primitive for that, and the report says who did it."""
    data = model(
        [node("MatMul", "x w", "m"), node("ReduceSum", "m", "y", keepdims=1)],
        {"x": _f(3, 8)},
        {"w": _f(8, 8)},
        dynamic=True,
    )
    with open_session(data) as session:
        (found,) = session.run(None, {"x": _f(0, 8)})
        assert found.tolist() == [[0.0]]
        assert not session.fallback_report
        assert "declined 1 run(s); CPUExecutionProvider answered them" in session.plan


def test_a_closed_session_leaves_nothing_running() -> None:
    """No thread of Python's, and closing twice is fine."""
    data, feeds = _network()
    before = threading.active_count()
    session = open_session(data)
    session.run(None, feeds)
    session.close()
    session.close()
    assert threading.active_count() == before


def test_the_number_of_threads_of_the_caller_stays() -> None:
    """A run sets OpenMP's number for its primitives and puts back what was there."""
    from ort_py_onednn.binding.library import open_library

    c = open_library().c
    before = c.omp_get_max_threads()
    c.omp_set_num_threads(3)
    try:
        data, feeds = _network(64)
        with open_session(data, 2) as session:
            session.run(None, feeds)
        assert c.omp_get_max_threads() == 3
    finally:
        c.omp_set_num_threads(before)


@contextmanager
def _instance(*, fast_math: bool = False) -> Iterator[tuple[Any, Any, Any]]:
    """An instance of a session's region, its input and its output."""
    from ort_py.contracts import FrameResources

    made: list[DnnlRegion] = []
    original = DnnlRegion.__init__

    def remember(self: DnnlRegion, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DnnlRegion, "__init__", remember)
        data, feeds = _network()
        with open_session(data, fast_math=fast_math) as session:
            (wanted,) = session.run(None, feeds)
            instance = made[0].instantiate(FrameResources())
            yield instance, feeds["x"], wanted
            instance.close()


def test_an_array_for_the_output() -> None:
    """It is written to and returned; one of another shape is left alone, though there is room in it."""
    with _instance() as (instance, x, wanted):
        for target in (np.zeros_like(wanted), np.zeros((2 * len(wanted), *wanted.shape[1:]), wanted.dtype)):
            instance.bind([x], [target])
            (result,) = instance()
            np.testing.assert_array_equal(result, wanted)
            assert (result is target) == (target.shape == wanted.shape)
            assert target.any() == (result is target)


def test_it_stands_in_for_the_cpu() -> None:
    """An application that asks for the CPU gets it, and sees the name it asked for."""
    data, feeds = _network()
    with ort.InferenceSession(data, providers=["CPUExecutionProvider"]) as session:
        assert session.get_providers() == ["CPUExecutionProvider"]
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        assert_close(session.run(None, feeds), run_plain(data, feeds))


@pytest.mark.parametrize("shape", [(3, 4, 5, 2**40), (1, 16, 2**40), (2**31, 2**31), (1, 2**31, 1)])
@pytest.mark.parametrize("op_type", ["ReduceMax", "InstanceNormalization", "Softmax", "Relu"])
def test_shapes_that_no_memory_holds(op_type: str, shape: tuple[int, ...]) -> None:
    """A file may declare them: the session is made, and a run is refused for the array that it was fed instead."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    inputs = ["x", "s", "s"] if op_type == "InstanceNormalization" else ["x"]
    scale = numpy_helper.from_array(np.ones(shape[1] if shape[1] < 100 else 1, np.float32), "s")
    graph = helper.make_graph([helper.make_node(op_type, inputs, ["y"])], "g", [x], [y], [scale])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.cost_model = "always"
    with pytest.raises(ort.OrtPyError), ort.InferenceSession(proto.SerializeToString(), options) as session:
        session.run(None, {"x": np.zeros((1,) * len(shape), np.float32)})


def test_limits_are_compared_before_a_region_is_compiled() -> None:
    """Compiling takes memory for what does not depend on the inputs, so it must not begin where that is too large."""
    nodes = [node("ConstantOfShape", "size", "zeroes"), node("Exp", "zeroes", "a"), node("Add", "a x", "y")]
    x = np.ones((1,), np.float32)
    data = model(nodes, {"x": x}, {"size": np.array([1024, 1024], np.int64)})
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.limits = ort.Limits(single_allocation_bytes=1 << 20)
    with pytest.raises(LimitError, match=r"A value of 4.0 MiB inside of a compiled region"):
        ort.InferenceSession(data, options, providers=[(PROVIDER, {"claim_small": True}), "CPUExecutionProvider"])
