"""Sessions: shapes that change, weights that are shared, threads, forks, memory at the end of a page, refusals."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from ort_py_xnnpack.binding.packing import PackedWeights
from ort_py_xnnpack.binding.workspace import Workspace
from providers.xnnpack.tests.models import PROVIDER, model, node, open_session, run_plain

RNG = np.random.default_rng(7)
W = RNG.normal(0, 1, (6, 4, 3, 3)).astype(np.float32)
B = RNG.normal(0, 1, 6).astype(np.float32)


def _images(*shape: int) -> dict[str, Any]:
    return {"x": RNG.normal(0, 1, shape).astype(np.float32)}


def _chain(weights: np.ndarray[Any, Any] = W) -> bytes:
    nodes = [node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"), node("GlobalMaxPool", "r")]
    return model(nodes, _images(2, 4, 5, 5), {"w": weights, "b": B}, dynamic=True)


def test_shapes_may_change_with_each_run() -> None:
    """More of them than a frame remembers, and each again."""
    data = _chain()
    with open_session(data) as session:
        for size in [*range(1, 13), *range(12, 0, -1)]:
            feeds = _images(1 + size % 2, 4, size, size + 1)
            assert_close(session.run(None, feeds), run_plain(data, feeds))
        assert set(session.placement.counts()) == {PROVIDER}


def test_weights_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another shape nor another session of the same model packs them again."""
    packed: list[int] = []
    insert = PackedWeights._insert

    def counted(self: PackedWeights, *arguments: Any) -> int:
        packed.append(1)
        return insert(self, *arguments)

    monkeypatch.setattr(PackedWeights, "_insert", counted)
    data = _chain(W + 1)  # other sessions of this process have none of these
    with open_session(data) as first, open_session(data) as second:
        for session in (first, second):
            for size in (5, 7):
                session.run(None, _images(1, 4, size, size))
    assert len(packed) == 1


def test_two_threads_at_once() -> None:
    """Each has a frame, and its own runtime."""
    data = _chain()
    feeds = [_images(2, 4, size, size) for size in (9, 17)]
    wanted = [run_plain(data, one) for one in feeds]
    with open_session(data, threads=2) as session:
        found: list[list[Any]] = [[], []]

        def work(place: int) -> None:
            for _ in range(20):
                found[place].append(session.run(None, feeds[place]))

        workers = [threading.Thread(target=work, args=(place,)) for place in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    for place in range(2):
        for one in found[place]:
            assert_close(one, wanted[place])


def _regions(count: int) -> bytes:
    """Convolutions with an operator between them that XNNPACK leaves to others."""
    weights = {f"w{place}": RNG.normal(0, 0.4, (4, 4, 3, 3)).astype(np.float32) for place in range(count)}
    nodes, last = [], "x"
    for place in range(count):
        nodes += [
            node("Conv", f"{last} w{place}", f"c{place}", pads=[1, 1, 1, 1]),
            node("Relu", f"c{place}", f"r{place}"),
        ]
        nodes += [node("Ceil", f"r{place}", f"e{place}")]
        last = f"e{place}"
    return model([*nodes, node("Identity", last)], _images(2, 4, 5, 5), weights, dynamic=True)


@pytest.fixture
def workspaces(monkeypatch: pytest.MonkeyPatch) -> list[Workspace]:
    """Those that are made from here on."""
    made: list[Workspace] = []
    make = Workspace.__init__

    def noted(self: Workspace, *arguments: Any) -> None:
        make(self, *arguments)
        made.append(self)

    monkeypatch.setattr(Workspace, "__init__", noted)
    return made


def test_regions_share_a_workspace(workspaces: list[Workspace]) -> None:
    """All regions of a session, for all shapes, while its runs come one after the other."""
    data = _regions(4)
    with open_session(data) as session:
        for size in (5, 40, 9, 40):
            feeds = _images(1, 4, size, size)
            assert_close(session.run(None, feeds), run_plain(data, feeds))
        assert session.placement.counts()[PROVIDER] == 4  # with their activations
    assert len(workspaces) == 1


def test_runs_at_the_same_time_have_their_own(workspaces: list[Workspace]) -> None:
    """No more than there were runs at once; each result is right."""
    data = _regions(3)
    feeds = [_images(1, 4, 20 + size, 31) for size in range(4)]
    wanted = [run_plain(data, one) for one in feeds]
    with open_session(data) as session, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda place: session.run(None, feeds[place % 4]), range(80)))
    for place, one in enumerate(found):
        assert_close(one, wanted[place % 4])
    assert 1 <= len(workspaces) <= 4


def test_a_region_does_not_wait_for_another(workspaces: list[Workspace]) -> None:
    """A parallel executor runs regions of a frame at the same time: the later one gets a workspace of its own."""
    data, feeds = _regions(2), _images(1, 4, 9, 9)
    with open_session(data) as session:
        wanted = session.run(None, feeds)
        with workspaces[0].lock:
            np.testing.assert_array_equal(session.run(None, feeds)[0], wanted[0])
        np.testing.assert_array_equal(session.run(None, feeds)[0], wanted[0])
    assert len(workspaces) == 3


def test_branches_run_at_the_same_time() -> None:
    """In a session with a parallel executor, whichever way it takes."""
    weights = {name: RNG.normal(0, 0.4, (4, 4, 3, 3)).astype(np.float32) for name in "wvu"}
    nodes = [node("Ceil", "x", "e")]
    for name in weights:
        nodes += [node("Conv", f"e {name}", f"c{name}"), node("Floor", f"c{name}", f"f{name}")]
    nodes += [node("Sum", "fw fv fu")]
    feeds = _images(1, 4, 70, 70)
    data = model(nodes, feeds, weights, dynamic=True)
    options = ort.SessionOptions()
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 2
    wanted = run_plain(data, feeds)
    with ort.InferenceSession(
        data, options, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=[{"claim_small": True}, {}]
    ) as session:
        for _ in range(30):
            assert_close(session.run(None, feeds), wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_runs_on() -> None:
    """The threads of the pool are the parent's; the child makes a pool of its own."""
    data, feeds = _chain(), _images(2, 4, 33, 33)
    with open_session(data, threads=2) as session:
        (wanted,) = session.run(None, feeds)
        child = os.fork()
        if not child:
            try:
                (found,) = session.run(None, feeds)
                os._exit(0 if np.array_equal(found, wanted) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_input_at_the_end_of_a_page() -> None:
    """Kernels read beyond the end of what they are given: such an array is copied before."""
    data = model([node("Mul", "x k")], {"x": np.zeros(1024, np.float32)}, {"k": np.array([2], np.float32)})
    block = np.zeros(3 * 4096, np.uint8)
    start = -block.ctypes.data % 4096
    x = np.frombuffer(block.data[start : start + 4096], np.float32)
    x[...] = np.arange(1024)
    with open_session(data) as session:
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], 2 * x)


def test_a_declined_run_is_counted() -> None:
    """NumPy's kernels answer it, and the next run is XNNPACK's again."""
    data = _chain()
    with open_session(data) as session:
        feeds = _images(1, 4, 6, 6)
        session.run(None, feeds)
        assert "declined" not in session.plan
        feeds["x"][0, 0, 0, 0] = np.nan
        assert np.isnan(session.run(None, feeds)[0]).all()
        assert "declined 1 run(s)" in session.plan
        assert not session.fallback_report


def test_fast_math_omits_the_look() -> None:
    """No run is declined; NaN may be lost."""
    data, feeds = _chain(), _images(1, 4, 6, 6)
    feeds["x"][0, 0, 0, 0] = np.nan
    options = ort.SessionOptions()
    options.fast_math = True
    with ort.InferenceSession(
        data, options, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=[{"claim_small": True}, {}]
    ) as session:
        session.run(None, feeds)
        assert "declined" not in session.plan


def test_the_option_sets_the_threads() -> None:
    """In place of the session's."""
    data, feeds = _chain(), _images(2, 4, 33, 33)
    with open_session(data, intra_op_num_threads=2) as session:
        assert_close(session.run(None, feeds), run_plain(data, feeds))


def _reason(data: bytes, options: dict[str, Any]) -> str:
    with ort.InferenceSession(
        data, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=[options, {}]
    ) as session:
        (placed,) = session.placement.nodes
        return str(placed.refusals)


def test_small_work_is_left_to_others() -> None:
    """A call costs more than a few additions."""
    data = model([node("Add", "x x")], {"x": np.zeros((3, 4), np.float32)})
    assert "does not pay" in _reason(data, {})


@pytest.mark.parametrize(
    ("made", "constants", "reason"),
    [
        (node("Conv", "x x"), {}, "input 1 is not a constant"),
        (node("Ceil", "x"), {}, "does not support this operator"),
        (node("Slice", "x s e a t"), {"s": [4], "e": [0], "a": [0], "t": [-1]}, "it has steps"),
        (node("AveragePool", "x", kernel_shape=[2, 2], dilations=[2, 2]), {}, "are not neighbours"),
        (node("Pad", "x p", mode="edge"), {"p": [0, 0, 1, 1, 0, 0, 1, 1]}, "it pads in mode edge"),
        (node("Resize", "x - s", mode="cubic"), {"s": np.array([1, 1, 2, 2], np.float32)}, "neither repeats"),
    ],
)
def test_a_refusal_says_why(made: Any, constants: dict[str, Any], reason: str) -> None:
    arrays = {name: np.asarray(array) for name, array in constants.items()}
    data = model([made], {"x": np.zeros((4, 4, 4, 4), np.float32)}, arrays)
    assert reason in _reason(data, {"claim_small": True})


def test_other_types_are_refused() -> None:
    """Double, for one."""
    data = model([node("Add", "x x", "z"), node("Cast", "z", to=1)], {"x": np.zeros(4)})
    with open_session(data) as session:
        reasons = [str(one.refusals) for one in session.placement.nodes if one.op_type == "Add"]
    assert any("is double; " in reason for reason in reasons)
