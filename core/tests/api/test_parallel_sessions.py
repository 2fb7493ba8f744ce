"""Sessions with ``ORT_PARALLEL``: what is said of them, and that they run, fail, fork and close as others do."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from core.tests.small_models import open_model
from ort_py import ExecutionMode, InferenceSession, InvalidArgument, SessionOptions
from ort_py.execution import parallel_runs
from ort_py.options import without_effect

BRANCHES = """g (float[N, N] x) => (float[N, N] y) {
  a1 = MatMul(x, x) a2 = Tanh(a1) a3 = MatMul(a2, x)
  b1 = Exp(x) b2 = MatMul(b1, x) b3 = Tanh(b2)
  y = Sub(a3, b3)
}"""
CHAIN = "g (float[N, N] x) => (float[N, N] y) { a = Neg(x) y = Tanh(a) }"
RUNS = 16
"""Enough for times to be taken and both kinds to be compared."""


def parallel(threads: int = 2, inter: int = 0) -> SessionOptions:
    """Options of a parallel session."""
    options = SessionOptions()
    options.execution_mode = ExecutionMode.ORT_PARALLEL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = inter
    return options


def x(size: int = 8, seed: int = 0) -> dict[str, Any]:
    """A feed."""
    return {"x": np.random.default_rng(seed).uniform(-1, 1, (size, size)).astype(np.float32)}


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, whatever the machine has."""
    from ort_py.platform import processors

    monkeypatch.setattr(processors, "_processors", lambda: processors.ThreadCount(2, "2 processors"))
    monkeypatch.setattr(processors, "cpu_quota", lambda _root: None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


LEARN = parallel_runs.ParallelRuns._learn_which


def clock(monkeypatch: pytest.MonkeyPatch, *, parallel_ns: int, sequential_ns: int) -> None:
    """Let every run of a kind take this long."""

    def learn(runs: Any, size: Any, _taken: int, *, parallel: bool) -> None:
        LEARN(runs, size, parallel_ns if parallel else sequential_ns, parallel=parallel)

    monkeypatch.setattr(parallel_runs.ParallelRuns, "_learn_which", learn)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch, two_processors: None) -> None:
    """Every plan with branches goes over several threads, worth it or not."""
    monkeypatch.setattr(parallel_runs, "_GAIN", 0.0)
    monkeypatch.setattr(parallel_runs, "_EXCHANGE", 0)
    clock(monkeypatch, parallel_ns=1, sequential_ns=2)


def warm(session: InferenceSession, size: int = 8) -> str:
    """Run until it is decided how; the decision."""
    for _ in range(RUNS):
        session.run(None, x(size))
    return session.threads.executor


def test_a_sequential_session_says_so() -> None:
    assert open_model(BRANCHES).threads.executor == "sequential"


def test_options_have_an_effect() -> None:
    """They are no longer reported as ignored."""
    assert without_effect(parallel(2, 2)) == []


@pytest.mark.parametrize(("threads", "inter"), [(1, 0), (2, 1)])
def test_one_thread_is_sequential(threads: int, inter: int, two_processors: None) -> None:
    """Nothing to share the steps with."""
    assert open_model(BRANCHES, parallel(threads, inter)).threads.executor == "sequential"


def test_a_chain_is_sequential(two_processors: None) -> None:
    """No step could run beside another, and the session says so."""
    found = open_model(CHAIN, parallel()).threads.executor
    assert found == "sequential: no two of its steps can run at the same time"


def test_small_work_is_sequential(two_processors: None) -> None:
    """Times are taken first; branches of a few microseconds are not worth a thread."""
    session = open_model(BRANCHES, parallel())
    assert session.threads.executor == "sequential: the times of its steps are being measured"
    assert warm(session) == "sequential: too little of its work can be done at the same time"


def test_a_session_tells_that_it_is_parallel(always: None) -> None:
    """With the tasks, the threads, and the times of both kinds."""
    session = open_model(BRANCHES, parallel())
    session.run(None, x())
    session.run(None, x())
    assert session.threads.executor == "sequential and parallel by turns: the two are being compared"
    assert warm(session).startswith("parallel: ")
    assert "on up to 2 threads" in session.threads.executor


def test_what_is_slower_is_not_done(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the clock says that several threads take longer, runs stay sequential."""
    clock(monkeypatch, parallel_ns=2, sequential_ns=1)
    session = open_model(BRANCHES, parallel())
    assert warm(session).startswith("sequential: ")
    assert session.threads.executor.endswith("on several threads when it was tried")


def test_the_comparison_is_made_again(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines change: after many runs both kinds are compared again."""
    monkeypatch.setattr(parallel_runs, "_COMPARED_AGAIN", 5)
    session, seen = open_model(BRANCHES, parallel()), set()
    for _ in range(60):
        session.run(None, x())
        seen.add(session.threads.executor.split(":")[0])
    assert seen == {"sequential", "sequential and parallel by turns", "parallel"}


def test_results_are_the_same(always: None) -> None:
    """To the last bit, for every size of feed."""
    ours, plain = open_model(BRANCHES, parallel()), open_model(BRANCHES)
    for seed in range(3 * RUNS):
        feed = x(4 + seed % 3 * 9, seed)
        assert ours.run(None, feed)[0].tobytes() == plain.run(None, feed)[0].tobytes()


def test_many_sizes_of_feeds(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of remembered sizes is bounded; further sizes run sequentially."""
    monkeypatch.setattr(parallel_runs, "_SIZES", 2)
    session = open_model(BRANCHES, parallel())
    for size in (2, 8, 32, 64):
        for _ in range(RUNS):
            (y,) = session.run(None, x(size))
            assert y.shape == (size, size)


def test_eight_threads(always: None) -> None:
    """Runs at the same time share the threads, and each gets its own results."""
    session, plain = open_model(BRANCHES, parallel()), open_model(BRANCHES)
    warm(session)

    def work(seed: int) -> None:
        wanted = plain.run(None, x(8, seed))[0].tobytes()
        for _ in range(40):
            assert session.run(None, x(8, seed))[0].tobytes() == wanted

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, seed) for seed in range(8)]:
            done.result(60)


def test_an_exception_leaves_the_session_usable(always: None) -> None:
    """A node that refuses its inputs fails the run, and only that."""
    text = """g (float[N] a, float[M] b, float[N] c) => (float[K] y) {
      p = Tanh(c) q = Add(a, b) r = Exp(c) s = Add(p, r) y = Add(q, s) }"""
    session = open_model(text, parallel())
    good = {name: np.ones(3, np.float32) for name in "abc"}
    bad = {**good, "b": np.ones(2, np.float32)}
    for _ in range(RUNS):
        session.run(None, good)
    assert session.threads.executor.startswith("parallel")
    for _ in range(5):
        with pytest.raises(Exception, match="Add"):
            session.run(None, bad)
        assert session.run(None, good)[0].shape == (3,)


def test_closing_waits_for_parallel_runs(always: None) -> None:
    """Runs in other threads end or are refused; nothing crashes, and closing returns."""
    session, outcomes = open_model(BRANCHES, parallel()), []
    warm(session)
    begun = threading.Event()

    def work() -> None:
        try:
            while True:
                session.run(None, x(64))
                begun.set()
        except InvalidArgument as error:
            outcomes.append(error.what)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    session.close()
    for thread in threads:
        thread.join(30)
    assert outcomes == ["The session is closed."] * 3
    assert session.threads.executor == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_runs_in_parallel(always: None) -> None:
    """Also while a parallel run is under way in another thread of the parent: the pool is the child's own."""
    session = open_model(BRANCHES, parallel())
    wanted = session.run(None, x())[0].tobytes()
    warm(session)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            session.run(None, x(64))

    busy = threading.Thread(target=work)
    busy.start()
    try:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                same = all(session.run(None, x())[0].tobytes() == wanted for _ in range(RUNS))
                session.close()
                os._exit(5 if same else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    finally:
        stop.set()
        busy.join(30)
    assert session.run(None, x())[0].tobytes() == wanted


def test_a_profile_has_a_track_for_each_thread(always: None, tmp_path: Any) -> None:
    """A recorded run goes over several threads too."""
    import json
    from pathlib import Path

    options = parallel()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = open_model(BRANCHES, options)
    for _ in range(20 * RUNS):
        session.run(None, x(128))
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    assert len({event["tid"] for event in events if event["cat"] == "Node"}) == 2


def test_a_memory_limit_is_added_up_by_one_thread(always: None) -> None:
    """Such runs are sequential, and keep their limit."""
    options = parallel()
    options.limits = options.limits.__class__(total_memory_bytes=10_000_000)
    session = open_model(BRANCHES, options)
    assert warm(session) == "sequential: the times of its steps are being measured"
