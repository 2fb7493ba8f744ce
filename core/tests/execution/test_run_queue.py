"""The queue of asynchronous runs: bounded, in order, remade, and finished before the program ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

from ort_py.execution import run_queue
from ort_py.execution.run_queue import Job, RunQueue


def nothing() -> None:
    """A job that does nothing, and a stop that stops nothing."""


def test_jobs_run_and_their_futures_hold_the_result() -> None:
    queue = RunQueue(2)
    good, bad = Job(lambda: 7, nothing), Job(lambda: 1 // 0, nothing)
    queue.submit(good)
    queue.submit(bad)
    assert good.future.result(10) == 7
    with pytest.raises(ZeroDivisionError):
        bad.future.result(10)


def test_no_more_jobs_run_at_once_than_threads() -> None:
    """Fifty jobs, three threads: three at once and never four."""
    queue, lock, counts = RunQueue(3), threading.Lock(), [0, 0]

    def work() -> None:
        with lock:
            counts[0] += 1
            counts[1] = max(counts)
        time.sleep(0.002)
        with lock:
            counts[0] -= 1

    jobs = [Job(work, nothing) for _ in range(50)]
    for job in jobs:
        queue.submit(job)
    for job in jobs:
        job.future.result(10)
    assert counts == [0, 3]


@pytest.mark.parametrize(("asked", "taken"), [(0, 1), (1, 1), (4, 4), (100, run_queue.MOST_THREADS)])
def test_number_of_threads_is_bounded(asked: int, taken: int) -> None:
    """At least one, so that a session with one thread can run asynchronously; at most a few."""
    assert RunQueue(asked).threads == taken


def test_one_thread_keeps_the_order() -> None:
    """Jobs run in the order in which they were submitted."""
    queue = RunQueue(1)
    seen: list[int] = []
    jobs = [Job(lambda number=number: seen.append(number), nothing) for number in range(20)]  # type: ignore[misc]  # bound now
    for job in jobs:
        queue.submit(job)
    jobs[-1].future.result(10)
    assert seen == list(range(20))


def test_cancelled_job_is_not_run() -> None:
    """A job whose future was cancelled while it waited is passed over."""
    queue, free = RunQueue(1), threading.Event()
    seen: list[str] = []
    first, second, third = (
        Job(lambda: free.wait(10), nothing),
        Job(lambda: seen.append("second"), nothing),
        Job(lambda: seen.append("third"), nothing),
    )
    for job in (first, second, third):
        queue.submit(job)
    assert second.future.cancel()
    free.set()
    third.future.result(10)
    assert seen == ["third"]


def test_a_finished_job_keeps_nothing_alive() -> None:
    """Arguments of the call are released, though its thread waits for more and its future is still held."""

    class Held:
        """Something that can be watched dying."""

        def call(self) -> int:
            """The job's call."""
            return 1

    held = Held()
    alive = weakref.ref(held)
    queue, job = RunQueue(1), Job(held.call, nothing)
    queue.submit(job)
    job.future.result(10)
    del held
    until = time.monotonic() + 10
    while alive() is not None and time.monotonic() < until:
        time.sleep(0.001)
    assert alive() is None


def lingering() -> list[threading.Thread]:
    """Threads of queues that are alive."""
    return [thread for thread in threading.enumerate() if thread.name == "ort_py_async"]


def ended(threads: list[threading.Thread]) -> bool:
    """Whether these threads end soon."""
    for thread in threads:
        thread.join(10)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("how", ["closed", "dropped", "idle"])
def test_threads_end(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When their queue is closed or dropped, and after a while without work."""
    if how == "idle":
        monkeypatch.setattr(run_queue, "IDLE_SECONDS", 0.01)
    before = set(lingering())
    queue, job = RunQueue(1), Job(nothing, nothing)
    queue.submit(job)
    job.future.result(10)
    mine = [thread for thread in lingering() if thread not in before]
    if how == "closed":
        queue.close()
    elif how == "dropped":
        del queue
    assert ended(mine)
    if how != "dropped":
        again = Job(lambda: 3, nothing)  # and are made again when there is work
        queue.submit(again)
        assert again.future.result(10) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_has_threads_of_its_own() -> None:
    """The parent's threads are not in the child, and what they were doing is not the child's to wait for."""
    queue, free, busy = RunQueue(1), threading.Event(), threading.Event()

    def hold() -> None:
        busy.set()
        free.wait(10)

    held = Job(hold, nothing)
    queue.submit(held)
    busy.wait(10)
    child = os.fork()
    if child == 0:
        job = Job(lambda: 5, nothing)
        queue.submit(job)
        run_queue._finish()
        os._exit(job.future.result(5))
    free.set()
    held.future.result(10)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # what was started in the background ignores Ctrl-C
from ort_py.execution.run_queue import Job, RunQueue

state = []
def call():
    print("begun", flush=True)
    for _ in range(int(sys.argv[1])):
        if state:
            break
        time.sleep(0.01)
    print("stopped" if state else "finished", flush=True)
queue = RunQueue(1)
queue.submit(Job(call, lambda: state.append(True)))
if sys.argv[2] == "wait":
    time.sleep(60)
"""


def test_program_ends_after_its_jobs() -> None:
    """A program that reaches its end with a job under way lets it finish."""
    command = [sys.executable, "-c", PROGRAM, "20", "end"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.returncode) == (["begun", "finished"], 0), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("where", ["wait", "end"])
def test_ctrl_c_stops_the_jobs(where: str) -> None:
    """Ctrl-C in the program, or while it waits for its jobs at its end, stops them without a long wait."""
    command = [sys.executable, "-c", PROGRAM, "6000", where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(0.3)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=30)
    assert output == "stopped\n"
    assert time.monotonic() - start < 10
