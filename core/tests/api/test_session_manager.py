"""The session manager: what is shared, what is closed and when, threads that ask at once, forks, failures."""

from __future__ import annotations

import copy
import gc
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from core.tests.small_models import CPU, HEADER, RELU, model_bytes
from ort_py import (
    ArgumentTypeError,
    InferenceSession,
    InvalidArgument,
    NoSuchFile,
    SessionManager,
    SessionOptions,
    UsageError,
)

X = np.array([[-1.0, 2.0, -3.0]], np.float32)
KIB = 1 << 10


def weighty(seed: int, count: int = 64 * KIB, extra: int = 0) -> bytes:
    """A model with a weight of `count` floats of a seed, and a small one of its own."""
    model = onnx.parser.parse_model(HEADER + "g (float[1] x) => (float[n] y) { h = Add(x, w) y = Add(h, e) }")
    array = np.random.default_rng(seed).standard_normal(count).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([extra], np.float32), "e"))
    return bytes(model.SerializeToString())


def manager_of(budget: int | None = None, **arguments: Any) -> SessionManager:
    """A manager on the CPU provider."""
    return SessionManager(budget, providers=CPU, **arguments)


def run(session: InferenceSession) -> None:
    """One run of a `weighty` model."""
    session.run(None, {"x": np.zeros(1, np.float32)})


def test_the_same_model_is_one_session(tmp_path: Path) -> None:
    """By path in any spelling, by bytes, by message, and by a registered name."""
    content = model_bytes(RELU)
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    (tmp_path / "link.onnx").symlink_to(path)
    with manager_of() as manager:
        manager.register("relu", path)
        by_path = {id(manager.get(one).session) for one in (path, str(path), tmp_path / "link.onnx", "relu")}
        proto = onnx.load_from_string(content)
        by_content = {id(manager.get(one).session) for one in (content, bytearray(content), proto)}
        assert (len(by_path), len(by_content)) == (1, 1)
        assert (manager.stats().created, manager.stats().hits) == (2, 5)


def test_other_options_are_another_session() -> None:
    """Options, config entries, providers and their options tell sessions apart; equal ones do not."""
    content = model_bytes(RELU)
    one, two, three = SessionOptions(), SessionOptions(), SessionOptions()
    two.intra_op_num_threads = 1
    three.add_session_config_entry("session.keep_model_bytes", "0")
    with manager_of() as manager:
        for options in (None, one, two, three, copy.copy(three)):
            manager.get(content, options)
        manager.get(content, providers=[("CPUExecutionProvider", {})])
        assert manager.stats().created == 4


def test_a_replaced_file_is_another_model(tmp_path: Path) -> None:
    """The session of the old content is not given out any more."""
    path = tmp_path / "m.onnx"
    path.write_bytes(model_bytes(RELU))
    with manager_of() as manager:
        assert manager.run(path, None, {"x": X})[0].tolist() == [[0, 2, 0]]
        path.write_bytes(model_bytes(RELU.replace("Relu", "Neg")))
        os.utime(path, (1, 1))
        assert manager.run(path, None, {"x": X})[0].tolist() == [[1, -2, 3]]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last status change")
def test_a_file_rewritten_with_its_time_kept_is_another_model(tmp_path: Path) -> None:
    """In place, of the same size."""
    path = tmp_path / "m.onnx"
    path.write_bytes(model_bytes(RELU))
    os.utime(path, (1, 1))
    with manager_of() as manager:
        for text, expected in ((RELU, [[0, 2, 0]]), (RELU.replace("Relu", "Ceil"), [[-1, 2, -3]])):
            path.write_bytes(model_bytes(text))
            os.utime(path, (1, 1))
            assert manager.run(path, None, {"x": X})[0].tolist() == expected


def save_external(folder: Path, value: float, name: str = "m.onnx") -> Path:
    """A model that adds a constant from a file beside it."""
    model = onnx.parser.parse_model(HEADER + "g (float[1] x) => (float[1] y) <float[1] c = {0}> { y = Add(x, c) }")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([value], np.float32), "c"))
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / name, save_as_external_data=True, location="data.bin", size_threshold=0)
    return folder / name


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")
def test_external_data_that_changed_is_another_model(tmp_path: Path) -> None:
    """The model's own file stays as it is; a session that is borrowed goes on, and is closed when it is given back."""
    path = save_external(tmp_path / "a", 1)
    zero = {"x": np.zeros(1, np.float32)}
    with manager_of() as manager:
        lease = manager.get(path)
        assert manager.run(path, None, zero)[0].item() == 1
        (tmp_path / "a" / "data.bin").write_bytes(np.array([2], np.float32).tobytes())
        os.utime(tmp_path / "a" / "data.bin", (1, 1))
        assert manager.run(path, None, zero)[0].item() == 2
        assert manager.run(path, None, zero)[0].item() == 2
        assert (manager.stats().sessions, manager.stats().created) == (2, 2)
        former = lease.session
        lease.close()
    assert former.state == "closed"


def test_links_in_two_folders_have_data_of_their_own(tmp_path: Path) -> None:
    """One model's file, linked into two folders each of which has other external data."""
    one, two = save_external(tmp_path / "a", 1), tmp_path / "b" / "m.onnx"
    save_external(tmp_path / "b", 2)
    two.unlink()
    two.symlink_to(one)
    zero = {"x": np.zeros(1, np.float32)}
    with manager_of() as manager:
        assert [manager.run(path, None, zero)[0].item() for path in (one, two)] == [1, 2]


def test_threads_that_ask_at_once_make_one_session() -> None:
    """One creates it, the others wait for it."""
    barrier = threading.Barrier(8, timeout=30)
    content = model_bytes(RELU)
    with manager_of() as manager:

        def work() -> int:
            barrier.wait()
            with manager.get(content) as session:
                np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))
                return id(session)

        with ThreadPoolExecutor(8) as pool:
            found = {job.result() for job in [pool.submit(work) for _ in range(8)]}
        assert len(found) == 1
        assert (manager.stats().created, manager.stats().hits) == (1, 7)


def test_the_longest_unused_is_closed() -> None:
    """Beyond the budget, sessions that are not borrowed are closed, the longest unused first."""
    with manager_of(600 * KIB) as manager:  # two models of 256 KiB
        sessions = []
        for seed in (1, 2):
            with manager.get(weighty(seed)) as session:
                sessions.append(session)
        with manager.get(weighty(1)):
            pass
        with manager.get(weighty(3)) as session:
            run(session)
        assert [session.state for session in sessions] == ["ready", "closed"]
        stats = manager.stats()
        assert (stats.sessions, stats.evicted, stats.in_use) == (2, 1, 0)
        assert stats.memory <= 600 * KIB


def test_borrowed_sessions_are_never_closed() -> None:
    """The budget waits until they are given back; `close` of the manager too."""
    manager = manager_of(0)
    leases = [manager.get(weighty(seed)) for seed in (1, 2)]
    manager.close()
    for lease in leases:
        run(lease.session)
    for lease in leases:
        lease.close()
        lease.close()
    assert {lease.session.state for lease in leases} == {"closed"}


def test_shared_weights_count_once() -> None:
    """Four models with the same large constant are little more than one."""
    with manager_of() as manager:
        leases = [manager.get(weighty(1, extra=number)) for number in range(4)]
        assert manager.stats().sessions == len(leases)
        assert 256 * KIB <= manager.stats().memory < 300 * KIB


def test_forgotten_leases_count_as_given_back() -> None:
    """A lease that goes out of scope holds nothing."""
    with manager_of() as manager:
        lease = manager.get(model_bytes(RELU))
        assert manager.stats().in_use == 1
        del lease
        gc.collect()
        assert manager.stats().in_use == 0


def test_a_session_that_somebody_closed_is_made_again() -> None:
    """The next request gets one that works."""
    with manager_of() as manager:
        manager.get(model_bytes(RELU)).session.close()
        assert manager.run(model_bytes(RELU), None, {"x": X})


def test_failures_reach_all_and_are_not_kept(tmp_path: Path) -> None:
    """Waiting callers get the error too; the next request tries again; a misspelt name is found."""
    with manager_of() as manager:
        manager.register("detector", tmp_path / "detector.onnx")
        with pytest.raises(NoSuchFile) as caught:
            manager.get("detectr")
        assert "detector" in caught.value.__notes__[0]
        with pytest.raises(NoSuchFile):
            manager.get("detector")
        (tmp_path / "detector.onnx").write_bytes(model_bytes(RELU))
        assert manager.run("detector", None, {"x": X})
        assert manager.stats().failed == 2


def test_who_waits_for_a_failure_gets_it() -> None:
    """One attempt, and its error for everybody who waited for it."""
    began, go_on = threading.Event(), threading.Event()

    def create(*_: Any) -> InferenceSession:
        began.set()
        go_on.wait(30)
        raise InvalidArgument("It cannot be made.")

    with manager_of(create=create) as manager, ThreadPoolExecutor(2) as pool:
        first = pool.submit(manager.get, b"model")
        began.wait(30)
        second = pool.submit(manager.get, b"model")
        go_on.set()
        for job in (first, second):
            with pytest.raises(InvalidArgument, match="cannot be made"):
                job.result()


def test_interruption_is_for_one_thread_alone() -> None:
    """Ctrl-C in the thread that creates: who waits creates it instead."""
    began, go_on, made = threading.Event(), threading.Event(), []

    def create(*arguments: Any) -> InferenceSession:
        made.append(arguments)
        if len(made) > 1:
            return InferenceSession(*arguments)
        began.set()
        go_on.wait(30)
        raise KeyboardInterrupt

    with manager_of(create=create) as manager, ThreadPoolExecutor(2) as pool:
        first = pool.submit(manager.get, model_bytes(RELU))
        began.wait(30)
        second = pool.submit(manager.get, model_bytes(RELU))
        go_on.set()
        with pytest.raises(KeyboardInterrupt):
            first.result()
        assert second.result().session.state == "ready"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_goes_on() -> None:
    """With the parent's sessions; what another thread of the parent was making or had borrowed is not waited for."""
    began, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    def create(source: Any, *arguments: Any) -> InferenceSession:
        if source == model_bytes(RELU) and os.getpid() == parent:
            began.set()
            go_on.wait(30)
        return InferenceSession(source, *arguments)

    manager = manager_of(10**9, create=create)
    lease = manager.get(weighty(1))
    with ThreadPoolExecutor(2) as pool:
        pool.submit(manager.get, weighty(1)).result()
        making = pool.submit(manager.get, model_bytes(RELU))
        began.wait(30)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(lease.session)
                manager.run(model_bytes(RELU), None, {"x": X})
                lease.close()
                code = 0 if manager.stats().in_use == 0 else 2
            finally:
                os._exit(code)
        go_on.set()
        making.result()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    manager.close()


def test_trim_reaches_all_sessions() -> None:
    """Every session gives its idle frames back."""
    with manager_of() as manager, manager.get(model_bytes(RELU)) as session:
        session.run(None, {"x": X})
        manager.trim()
        assert session.engine.runner is not None
        assert not session.engine.runner.pool._made


def test_what_is_wrong_is_named() -> None:
    """The cases are a closed manager, a repeated name, a negative budget and a source that is not a model."""
    manager = manager_of()
    manager.register("a", b"")
    with pytest.raises(UsageError, match="registered as 'a' already"):
        manager.register("a", b"")
    with pytest.raises(ArgumentTypeError, match="A model cannot be loaded from a int"):
        manager.get(3)
    manager.close()
    with pytest.raises(UsageError, match="manager is closed"):
        manager.get(model_bytes(RELU))
    with pytest.raises(InvalidArgument, match="budget of -1 bytes"):
        SessionManager(-1)


def test_statistics_read(caplog: pytest.LogCaptureFixture) -> None:
    """In one line; what is closed for the budget is logged."""
    caplog.set_level(logging.INFO, "ort_py.session")
    with manager_of(0) as manager:
        manager.get(weighty(1)).close()
        manager.get(weighty(2)).close()
        assert "created" in str(manager.stats())
        assert "SessionManager: 1 sessions" in repr(manager) or "0 sessions" in repr(manager)
    assert "the budget is 0" in caplog.text
    assert "closed" in repr(manager)
